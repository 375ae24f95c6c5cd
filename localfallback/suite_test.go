package localfallback_test

import (
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/backend/backendtest"
	"github.com/tierlock/tierlock/localfallback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTableKeepsTheContract(t *testing.T) {
	for name, permits := range map[string]int{"one holder": 1, "three holders": 3} {
		t.Run(name, func(t *testing.T) {
			table := openTable(t, permits)
			backendtest.Run(t, "localfallback in process, "+runtime.Version(), table, backendtest.Options{Holders: permits, TTL: 50 * time.Millisecond})
		})
	}
}

func TestBypassKeepsTheContract(t *testing.T) {
	backendtest.Run(t, "bypass in process, "+runtime.Version(), localfallback.Bypass{}, backendtest.Options{})
}

func openTable(t testing.TB, permits int) *localfallback.Table {
	t.Helper()
	table, err := localfallback.NewTable(localfallback.Config{Permits: permits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	return table
}
