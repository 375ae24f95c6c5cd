package gateway_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs this program once more as a worker of another process where a test asks
// for one; see worker_test.go.
func TestMain(m *testing.M) {
	if addr := os.Getenv(workerAddr); addr != "" {
		os.Exit(work(addr, os.Stdin, os.Stdout))
	}
	if addr := os.Getenv(waiterAddr); addr != "" {
		os.Exit(takeTurns(addr, os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}
