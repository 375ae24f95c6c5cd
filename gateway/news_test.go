package gateway_test

import (
	"context"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

// Every change of health goes to the trail as it goes to the hook: none lost, in order.
func TestTheTrailIsToldEveryChangeOfHealth(t *testing.T) {
	var steps heard[gateway.StepInfo]
	bubble(t, weak(), func(t *testing.T, k one) {
		k.takeDown()
		k.Store.Down(false)
		eventually(t, 10*time.Second, "normal again", func() bool { return len(steps.told()) == 3 })
		trail := k.Audit.Steps()
		if len(trail) != 3 {
			t.Fatalf("the trail has %+v", trail)
		}
		for i, s := range steps.told() {
			got := trail[i]
			if got.Chain != "c" || got.From != s.From.String() || got.To != s.To.String() || got.Reason != s.Reason ||
				!got.At.Equal(s.At) || got.Dwell != s.Dwell || got.Epoch != uint64(i+1) || got.Observed {
				t.Errorf("the trail has %+v for %+v", got, s)
			}
		}
	}, gateway.Hooks{Stepped: steps.hear})
}

// A server that has lost its memory is told once, and one that was met for the first time is
// not one.
func TestAReplacedStoreIsTold(t *testing.T) {
	var told heard[gateway.ReplaceInfo]
	bubble(t, weak(), func(t *testing.T, k one) {
		k.Store.Forget() // the first that is known of it
		time.Sleep(3 * time.Second)
		if n := len(told.told()); n != 0 {
			t.Fatalf("%d replacements before there was one", n)
		}
		at := time.Now()
		k.Store.Forget()
		time.Sleep(3 * time.Second)
		all, trail := told.told(), k.Audit.Replacements()
		if len(all) != 1 || all[0].Store != "memory" || !all[0].Since.Equal(at) {
			t.Errorf("the hook heard %+v", all)
		}
		if len(trail) != 1 || trail[0].Store != "memory" || !trail[0].At.Equal(at) {
			t.Errorf("the trail has %+v", trail)
		}
		if l, err := k.TryLock(context.Background(), "a"); err != nil || l.Grant().Tier != tierlock.Shared {
			t.Errorf("%v, %v", l, err)
		} else {
			_ = l.Unlock(t.Context())
		}
	}, gateway.Hooks{Replaced: told.hear})
}
