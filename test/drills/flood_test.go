package drills

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
)

// The same with the policies as they come: 64 callers and a store whose replies are 30 ms late.
// Payments without a flood show first what this machine fails by itself, and with one no more
// of them fail, but for those whose process did not get to run. A busy machine misses 200 ms now
// and then, and its store is slow for a while: a short run wants of the payments that were sent
// a quarter to be made. Nothing is recorded: twenty thousand local coupons a second, kept in
// memory, stopped this process for a second at a time, and failed payments by that.
func TestFloodOfCouponsWithThePoliciesAsTheyCome(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	i := newInstance(t, server, setup{store: narrow(24), gateway: func(c *gateway.Config) { c.Audit = audit.Discard }})
	i.way.Delay(30 * time.Millisecond)
	span := lasts(2500*time.Millisecond, time.Minute)
	alone := pay(t, i, span)
	var flooded, crowdedOut atomic.Int64
	stop := crowd(64, func(caller, turn int) {
		_, err := once(i.coupons, own(caller, turn))
		flooded.Add(1)
		if reasonOf(err) == tierlock.ReasonSaturated {
			crowdedOut.Add(1)
		}
		wait(time.Millisecond)
	})
	defer stop()
	wait(300 * time.Millisecond)
	beside := pay(t, i, span)
	stop()
	t.Logf("alone %+v, beside the flood %+v; %d coupons, %d found no place", alone, beside, flooded.Load(), crowdedOut.Load())
	if crowdedOut.Load() < 10 {
		t.Errorf("%d of %d coupons found no place: there was no flood", crowdedOut.Load(), flooded.Load())
	}
	if beside.paid == 0 || beside.late > 3*beside.paid {
		t.Errorf("%d payments were made beside the flood, %d not answered in time", beside.paid, beside.late)
	}
	if soak() && beside.failed-beside.stalled > alone.failed-alone.stalled {
		t.Errorf("%d payments failed beside the flood, %d without it", beside.failed-beside.stalled, alone.failed-alone.stalled)
	}
	i.way.Become(way.None)
	i.leavesNothing(t, server)
}

// payments is how three payers at a time fared. Of those that failed some were late, and some
// were asked by a process that did not get to run for a fifth of their time.
type payments struct{ paid, failed, late, stalled int64 }

// pay has three payers pay for that long.
func pay(t *testing.T, i *instance, span time.Duration) payments {
	t.Helper()
	var paid, failed, late, stalled atomic.Int64
	stop := crowd(3, func(_, _ int) {
		began := time.Now()
		if _, err := once(i.payments, tierlock.NewRequestID().Fingerprint()); err == nil {
			paid.Add(1)
		} else {
			failed.Add(1)
			if beat.Stalled(began, time.Now()) > 40*time.Millisecond {
				stalled.Add(1)
			}
			if reasonOf(err) == tierlock.ReasonAttempt {
				late.Add(1)
			}
		}
		wait(50 * time.Millisecond)
	})
	wait(span)
	stop()
	return payments{paid.Load(), failed.Load(), late.Load(), stalled.Load()}
}
