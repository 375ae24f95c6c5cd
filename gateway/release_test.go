package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

var modes = []tierlock.Mode{tierlock.ModeShared, tierlock.ModeOptimistic, tierlock.ModeLocal, tierlock.ModeBypass}

// Unlock goes where the grant came from: flip between lock and unlock, in all 16 ordered
// pairs of tiers; nothing is left anywhere.
func TestUnlockFollowsTheGrant(t *testing.T) {
	for _, from := range modes {
		for _, to := range modes {
			t.Run(fmt.Sprintf("%v to %v", from, to), func(t *testing.T) {
				bubble(t, weak(), func(t *testing.T, k one) {
					k.Force("c", from)
					l, err := k.TryLock(t.Context(), "a")
					if from == tierlock.ModeOptimistic {
						if !errors.Is(err, tierlock.ErrOptimistic) {
							t.Fatalf("got %v", err)
						}
					} else if err != nil {
						t.Fatal(err)
					}
					k.Force("c", to)
					if l != nil {
						if ok, err := l.IsHeld(t.Context()); !ok || err != nil {
							t.Errorf("held: %v, %v", ok, err)
						}
					}
					if err := l.Unlock(t.Context()); err != nil {
						t.Errorf("unlock: %v", err)
					}
					s := k.Status().Chains[0]
					if k.Store.Keys() != 0 || s.Live != 0 || s.Local != 0 || k.Status().InDoubt != 0 {
						t.Errorf("left: %d keys, %d live, %d local, %d in doubt", k.Store.Keys(), s.Live, s.Local, k.Status().InDoubt)
					}
				})
			})
		}
	}
}

func TestUnlockIsIdempotentAndWorksUnderAnEndedContext(t *testing.T) {
	var told atomic.Int64
	bubble(t, strong(), func(t *testing.T, k one) {
		ctx, cancel := context.WithCancel(t.Context())
		l, err := k.TryLock(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		for range 3 {
			if err := l.Unlock(ctx); err != nil {
				t.Error(err)
			}
		}
		if c := k.Store.Counts(); c.Release != 1 || k.Store.Keys() != 0 || told.Load() != 1 {
			t.Errorf("%d releases, %d keys, told %d times", c.Release, k.Store.Keys(), told.Load())
		}
	}, gateway.Hooks{Released: func(gateway.ReleaseInfo) { told.Add(1) }})
}

func TestTheEndOfALockIsTold(t *testing.T) {
	var hook heard[gateway.ReleaseInfo]
	p := strong()
	p.Budget = time.Second
	bubble(t, p, func(t *testing.T, k one) {
		l := k.must("a", gateway.WithTTL(10*time.Second), gateway.WithoutRenew())
		time.Sleep(3 * time.Second)
		_ = l.Unlock(t.Context())
		quick := k.must("a")
		_ = quick.Unlock(t.Context())
		late := k.must("a", gateway.WithTTL(2*time.Second), gateway.WithoutRenew())
		time.Sleep(5 * time.Second)
		_ = late.Unlock(t.Context())

		told := hook.told()
		if len(told) != 3 {
			t.Fatalf("told %d times, want once for every lock", len(told))
		}
		first := told[0]
		if first.TTL != 10*time.Second || first.Held != 3*time.Second || first.Left != 7*time.Second-50*time.Millisecond || first.Over != 2*time.Second || first.Err != nil {
			t.Errorf("%+v", first)
		}
		if told[1].Over != 0 {
			t.Errorf("inside its budget: %+v", told[1])
		}
		if last := told[2]; !errors.Is(last.Err, tierlock.ErrLost) || last.Held != 2*time.Second-50*time.Millisecond {
			t.Errorf("run out: %+v", last)
		}
	}, gateway.Hooks{Released: hook.hear})
}

func TestUnlockNeverWaitsForAStoreThatIsDown(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		a, b := k.must("a"), k.must("b")
		k.Store.Hang(true)
		began := time.Now()
		if err := a.Unlock(t.Context()); !errors.Is(err, tierlock.ErrTimeout) {
			t.Errorf("unlock into a hang: %v", err)
		}
		if took := time.Since(began); took > 220*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		time.Sleep(3 * time.Second) // until probes are known to be lost
		began = time.Now()
		if err := b.Unlock(t.Context()); !errors.Is(err, tierlock.ErrSystem) || time.Since(began) > time.Millisecond {
			t.Errorf("unlock with the store known to be down: %v after %v", err, time.Since(began))
		}
		k.Store.Mend()
		eventually(t, 3*time.Second, "both keys freed", func() bool { return k.Store.Keys() == 0 && k.Status().InDoubt == 0 })
	})
}

// A storm of callers that lock, cancel and unlock, under flips, on real goroutines: no key,
// no hold and no goroutine is left (TestMain looks for those).
func TestStormLeavesNothing(t *testing.T) {
	p := weak()
	p.Local.Permits = 1
	kit := gatewaytest.New(t, map[string]gateway.Policy{"c": p})
	c, err := kit.Chain("c")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	end := time.Now().Add(time.Second)
	for w := range 16 {
		all.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				ctx, cancel := context.WithCancel(t.Context())
				l, err := c.TryLock(ctx, fmt.Sprint("k", (w+i)%8))
				if err == nil {
					work := l.Context(ctx)
					cancel()
					<-work.Done()
				}
				cancel()
				_ = l.Unlock(ctx)
			}
		})
	}
	all.Go(func() {
		flips(end, time.Millisecond, func(i int) { kit.Force("c", append(modes, tierlock.ModeAuto)[i%5]) })
	})
	all.Wait()
	kit.Force("c", tierlock.ModeAuto)
	waitFor(t, "everything given back", func() bool {
		s := kit.Status()
		return kit.Store.Keys() == 0 && s.InDoubt == 0 && s.Chains[0].Live == 0 && s.Chains[0].Local == 0
	})
}

// waitFor waits for ok in real time.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(30 * time.Second); !ok(); <-look.C {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

// flips calls flip again and again until end, in real time.
func flips(end time.Time, every time.Duration, flip func(i int)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := 0; time.Now().Before(end); i++ {
		flip(i)
		<-tick.C
	}
}

// A deferred Unlock gives back under a ctx that was never made, too.
func TestUnlockWithoutAContext(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		var none context.Context
		if err := k.must("a").Unlock(none); err != nil || k.Store.Keys() != 0 || k.Status().Chains[0].Targets[0].Out != 0 {
			t.Errorf("unlock: %v, %d keys", err, k.Store.Keys())
		}
	})
}
