package history

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or, where a test has started this very program again, one worker.
func TestMain(m *testing.M) {
	text := os.Getenv(workerEnv)
	if text == "" {
		// Histories wait for troubles to pass and for ttls: two at a time on two cores leave
		// both idle. Who says -parallel has his way.
		if err := flag.Set("test.parallel", "4"); err != nil {
			panic(err)
		}
		goleak.VerifyTestMain(m)
		return
	}
	var job job
	err := json.Unmarshal([]byte(text), &job)
	if err == nil {
		err = work(job)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
