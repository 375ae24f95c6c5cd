package gateway_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// What got no grant leaves no event, so heartbeats count it: refusals and timeouts, but
// neither a key that another holds nor an answer that has its own event.
func TestHeartbeatsCountWhatWasRefused(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		if s := k.Audit.Status(); s.Refused != nil {
			t.Errorf("before anything happened: %v", s.Refused)
		}
		l := k.must("a")
		k.ask("a") // held by another
		k.Force("c", tierlock.ModeOptimistic)
		k.ask("b")
		k.Force("c", tierlock.ModeReject)
		for range 3 {
			k.ask("b")
		}
		k.Force("c", tierlock.ModeAuto)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, _ = k.TryLock(gone, "d")
		_ = l.Unlock(t.Context())
		want := audit.Refused{"c": {"system_error forced": 3, "timeout canceled": 1}}
		if got := k.Audit.Status().Refused; !reflect.DeepEqual(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
	})
}
