package daemon

import (
	"flag"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tierlock/tierlock/switchcfg"
)

// TestTheSwitchPageNamesWhatThereIs: its commands and flags exist, and every alarm is in it.
func TestTheSwitchPageNamesWhatThereIs(t *testing.T) {
	page := doc(t, "switch.md")
	verbs := strings.Split(strings.ReplaceAll(switchVerbs, " or ", ", "), ", ")
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile("tierlock switch ([a-z]+)").FindAllStringSubmatch(page, -1) {
		if !slices.Contains(verbs, m[1]) {
			t.Errorf("docs/switch.md names tierlock switch %s", m[1])
		}
		seen[m[1]] = true
	}
	for _, verb := range []string{verbGet, verbSet, verbExtend, verbPolicy, verbPromote} {
		if !seen[verb] {
			t.Errorf("docs/switch.md does not show %s", verb)
		}
	}
	flags := Process{Stderr: io.Discard}.switchFlags().fs
	for _, m := range regexp.MustCompile("[ `]--([a-z][a-z-]*)").FindAllStringSubmatch(page, -1) {
		if flags.Lookup(m[1]) == nil {
			t.Errorf("docs/switch.md names --%s", m[1])
		}
	}
	flags.VisitAll(func(f *flag.Flag) {
		if f.Name != "c" && f.Name != "foreign" && !strings.Contains(page, "--"+f.Name) {
			t.Errorf("docs/switch.md lacks --%s", f.Name)
		}
	})
	for _, why := range switchcfg.Whys() {
		if !strings.Contains(page, "| `"+string(why)+"` |") {
			t.Errorf("docs/switch.md lacks the alarm %s", why)
		}
	}
}
