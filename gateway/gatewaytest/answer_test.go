package gatewaytest_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

// inKit runs test on a kit with a strong, a guarded and a weak chain, in a bubble.
func inKit(t *testing.T, test func(t *testing.T, k *gatewaytest.Kit)) {
	synctest.Test(t, func(t *testing.T) {
		guarded := gateway.Strong("p", gateway.Fence)
		guarded.Ladder.VersionGuard = true
		k := gatewaytest.New(t, map[string]gateway.Policy{
			"order": gateway.Strong("p", gateway.Fence), "guarded": guarded, "coupon": gateway.Weak("p", gateway.Reconcile),
		})
		test(t, k)
		k.End()
	})
}

func try(t *testing.T, k *gatewaytest.Kit, chain, id string) (*gateway.Lock, error) {
	t.Helper()
	c, err := k.Chain(chain)
	if err != nil {
		t.Fatal(err)
	}
	return c.TryLock(context.Background(), id)
}

func TestAnswerGivesEveryOutcome(t *testing.T) {
	for _, reason := range []tierlock.Reason{tierlock.ReasonHeld, tierlock.ReasonAttempt, tierlock.ReasonDenied, tierlock.ReasonWrongType, tierlock.ReasonDown} {
		for _, name := range []string{"order", "guarded", "coupon"} {
			t.Run(string(reason)+" "+name, func(t *testing.T) {
				inKit(t, func(t *testing.T, k *gatewaytest.Kit) {
					k.Answer(name, reason)
					c, err := k.Chain(name)
					if err != nil {
						t.Fatal(err)
					}
					policy, began := c.Policy(), time.Now()
					want := policy.Ladder.Refusal(reason)
					l, err := c.TryLock(t.Context(), "1")
					if name == "coupon" && reason == tierlock.ReasonDown { // the one that leads to a lock
						if err != nil || l.Grant().Tier != tierlock.Local {
							t.Errorf("%v, %v", l, err)
						}
					} else if e, ok := errors.AsType[*tierlock.Error](err); !ok || e.Outcome != want.Outcome || e.Advice != want.Advice || e.Reason != reason {
						t.Errorf("%v, want %+v", err, want)
					}
					if took := time.Since(began); (took >= policy.Attempt) != (reason == tierlock.ReasonAttempt) {
						t.Errorf("took %v", took)
					}
					if k.Store.Keys() != 0 || k.Status().InDoubt != 0 {
						t.Errorf("%d keys, %d in doubt", k.Store.Keys(), k.Status().InDoubt)
					}
					_ = l.Unlock(t.Context())
					k.Answer(name, "")
					time.Sleep(10 * time.Second) // an outage has to end
					if l, err = c.TryLock(t.Context(), "1"); err != nil || l.Grant().Tier != tierlock.Shared {
						t.Errorf("after it: %v, %v", l, err)
					}
					_ = l.Unlock(t.Context())
				})
			})
		}
	}
}

// A store that a test has made to be down stays so: its probes are refused, too.
func TestAnswerDownLasts(t *testing.T) {
	inKit(t, func(t *testing.T, k *gatewaytest.Kit) {
		k.Answer("coupon", tierlock.ReasonDown)
		for i := range 100 {
			l, err := try(t, k, "coupon", strconv.Itoa(i))
			if err != nil || l.Grant().Tier != tierlock.Local {
				t.Fatalf("after %d calls: %v, %v", i, l, err)
			}
			_ = l.Unlock(t.Context())
			if _, err := try(t, k, "order", "1"); !errors.Is(err, tierlock.ErrSystem) {
				t.Fatalf("another chain on the store, after %d calls: %v", i, err)
			}
			time.Sleep(90 * time.Millisecond)
		}
		if steps := k.Status().Chains; steps[0].Targets[0].Epoch != 1 {
			t.Errorf("%d changes of health", steps[0].Targets[0].Epoch)
		}
	})
}

func TestAnswerLeavesOtherChainsAlone(t *testing.T) {
	inKit(t, func(t *testing.T, k *gatewaytest.Kit) {
		k.Answer("order", tierlock.ReasonHeld)
		if _, err := try(t, k, "order", "1"); !errors.Is(err, tierlock.ErrHeld) {
			t.Errorf("got %v", err)
		}
		l, err := try(t, k, "coupon", "1")
		if err != nil || l.Grant().Tier != tierlock.Shared {
			t.Errorf("%v, %v", l, err)
		}
		_ = l.Unlock(t.Context())
		k.Store.Mend()
		if l, err = try(t, k, "order", "1"); err != nil {
			t.Errorf("mended: %v", err)
		}
		_ = l.Unlock(t.Context())
	})
}

func TestLoseTakesALockAwayInTheMiddle(t *testing.T) {
	inKit(t, func(t *testing.T, k *gatewaytest.Kit) {
		c, err := k.Chain("order")
		if err != nil {
			t.Fatal(err)
		}
		err = c.Do(t.Context(), "1", func(ctx context.Context, g tierlock.Grant) error {
			k.Lose(g.Key.String())
			if cause := context.Cause(ctx); !errors.Is(cause, tierlock.ErrLost) {
				t.Errorf("the context ended with %v", cause)
			}
			next, err := try(t, k, "order", "1")
			if err != nil || next.Grant().Token <= g.Token {
				t.Errorf("the next holder: %v, %v", next, err)
			}
			_ = next.Unlock(context.Background())
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		k.Recorded(
			"acquire shared biz:order:lock:1",
			"end shared lost unknown biz:order:lock:1",
			"acquire shared biz:order:lock:1",
			"end shared released unknown biz:order:lock:1",
		)
	})
}

func TestOccupyIsAnotherInstance(t *testing.T) {
	inKit(t, func(t *testing.T, k *gatewaytest.Kit) {
		k.Occupy("biz:order:lock:1", 100*time.Millisecond)
		if _, err := try(t, k, "order", "1"); !errors.Is(err, tierlock.ErrHeld) {
			t.Errorf("got %v", err)
		}
		c, err := k.Chain("order")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		l, err := c.Lock(t.Context(), "1")
		if took := time.Since(began); err != nil || took < 100*time.Millisecond || took > 300*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
		_ = l.Unlock(t.Context())
	})
}

func TestTheTrailInWords(t *testing.T) {
	inKit(t, func(t *testing.T, k *gatewaytest.Kit) {
		do := func(chain string, work error) {
			c, err := k.Chain(chain)
			if err != nil {
				t.Fatal(err)
			}
			_ = c.Do(t.Context(), "1", func(context.Context, tierlock.Grant) error { return work },
				gateway.Optimistically(func(context.Context) error { return nil }))
		}
		do("order", errors.New("sold out"))
		k.Answer("guarded", tierlock.ReasonAttempt)
		do("guarded", nil)
		k.Store.Down(true)
		do("coupon", nil)
		k.Force("coupon", tierlock.ModeBypass)
		do("coupon", nil)
		k.Recorded(
			"acquire shared biz:order:lock:1",
			"end shared released rolled_back biz:order:lock:1",
			"optimistic (attempt_timeout) committed biz:guarded:lock:1",
			"acquire local (down) biz:coupon:lock:1",
			"end local released committed biz:coupon:lock:1",
			"acquire bypass (forced) biz:coupon:lock:1",
			"end bypass released committed biz:coupon:lock:1",
		)
	})
}

// failing is a test that may fail.
type failing struct {
	testing.TB
	said bool
}

func (f *failing) Helper()               {}
func (f *failing) Cleanup(func())        {}
func (f *failing) Errorf(string, ...any) { f.said = true }

func TestRecordedFailsOnAnythingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{TB: t}
		k := gatewaytest.New(f, map[string]gateway.Policy{"order": gateway.Strong("p", gateway.Fence)})
		l, err := try(t, k, "order", "1")
		if err != nil {
			t.Fatal(err)
		}
		if k.Recorded("acquire shared biz:order:lock:1"); f.said {
			t.Error("failed on what was recorded")
		}
		for _, wrong := range [][]string{nil, {"acquire local biz:order:lock:1"}, {"acquire shared biz:order:lock:1", "end shared released unknown biz:order:lock:1"}} {
			f.said = false
			if k.Recorded(wrong...); !f.said {
				t.Errorf("took %q", wrong)
			}
		}
		_ = l.Unlock(t.Context())
		k.End()
	})
}
