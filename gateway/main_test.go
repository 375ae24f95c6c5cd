package gateway_test

import (
	"flag"
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
	// What runs beside each other here waits, for servers and ttls: two at a time on two cores
	// leave both idle. Who says -parallel has his way.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
