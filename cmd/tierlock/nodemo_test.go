package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestTheImageCarriesNoStandIns: what only the demo needs is not in the image.
func TestTheImageCarriesNoStandIns(t *testing.T) {
	list := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	image, whole := list("-tags", "nodemo", "."), list(".")
	for _, standIn := range []string{"github.com/alicebob/miniredis", "github.com/twmb/franz-go", "modernc.org/sqlite"} {
		if strings.Contains(image, standIn) {
			t.Errorf("the image carries %s", standIn)
		}
		if !strings.Contains(whole, standIn) {
			t.Errorf("the whole binary lacks %s: the test looks in the wrong place", standIn)
		}
	}
}
