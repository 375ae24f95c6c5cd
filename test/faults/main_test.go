package faults

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/internal/pulse"
)

// TestMain runs the tests and writes the matrix, or, where a test has started this very
// program again, one child.
func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		if err := serve(text); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	beat = pulse.Start()
	goleak.VerifyTestMain(writing{m})
}

// beat tells how long this process, the one of the tests, did not get to run.
var beat *pulse.Pulse
