package memory_test

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/internal/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLimitHoldsUntilItIsUndoneAndTheEnvironmentComesFirst(t *testing.T) {
	const asks = -1 // changes nothing
	former := debug.SetMemoryLimit(asks)
	t.Setenv("GOMEMLIMIT", "")
	undo := memory.Limit(memory.Reconcile)
	if got := debug.SetMemoryLimit(asks); got != memory.Reconcile {
		t.Errorf("limit %d", got)
	}
	undo()
	if got := debug.SetMemoryLimit(asks); got != former {
		t.Errorf("limit %d afterwards, it was %d", got, former)
	}
	for _, said := range []string{"2GiB", "off"} {
		t.Setenv("GOMEMLIMIT", said)
		memory.Limit(memory.Reconcile)()
		undo := memory.Limit(memory.Reconcile)
		if got := debug.SetMemoryLimit(asks); got != former {
			t.Errorf("limit %d, though the environment says %s", got, said)
		}
		undo()
	}
}
