package gateway_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

func key(t *testing.T, s string) tierlock.Key {
	t.Helper()
	k, err := tierlock.ParseKey(s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestAttachFindsTheHandleOfThisProcess(t *testing.T) {
	for _, mode := range []tierlock.Mode{tierlock.ModeShared, tierlock.ModeLocal, tierlock.ModeBypass} {
		t.Run(mode.String(), func(t *testing.T) {
			bubble(t, weak(), func(t *testing.T, k one) {
				k.Force("c", mode)
				l := k.must("a")
				k.Force("c", tierlock.ModeAuto)
				got, err := k.Attach(t.Context(), key(t, "biz:c:lock:a"), l.Grant().RequestID)
				if got != l || err != nil || k.Store.Counts().Lookup != 0 {
					t.Errorf("got %p, %v, want %p without a lookup", got, err, l)
				}
				_ = l.Unlock(t.Context())
				if _, err := k.Attach(t.Context(), key(t, "biz:c:lock:a"), l.Grant().RequestID); !errors.Is(err, tierlock.ErrLost) {
					t.Errorf("after unlock: %v", err)
				}
			})
		})
	}
}

// Another process's lock: two gateways on one store.
func TestAttachFindsALockOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := gatewaytest.NewStore()
		open := func() *gateway.Gateway {
			g, err := gateway.New(gateway.Config{Chains: map[string]gateway.Policy{"c": strong()}, Stores: map[string]tierlock.Backend{"m": store}, Audit: new(gatewaytest.Audit)})
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		here, there := open(), open()
		c, _ := there.Chain("c")
		l, err := c.TryLock(t.Context(), "a", gateway.WithoutRenew())
		if err != nil {
			t.Fatal(err)
		}
		got, err := here.Attach(t.Context(), key(t, "biz:c:lock:a"), l.Grant().RequestID)
		if err != nil {
			t.Fatal(err)
		}
		if g := got.Grant(); g.Tier != tierlock.Shared || !g.Replayed || g.Token != l.Grant().Token || g.ExpiresAt != l.Grant().ExpiresAt {
			t.Errorf("grant %+v", g)
		}
		if ok, err := got.IsHeld(t.Context()); !ok || err != nil {
			t.Error(ok, err)
		}
		if err := got.Unlock(t.Context()); err != nil || store.Keys() != 0 {
			t.Errorf("unlock: %v, %d keys", err, store.Keys())
		}
		if err := l.Unlock(t.Context()); !errors.Is(err, tierlock.ErrLost) {
			t.Errorf("the first holder's unlock: %v, want ErrLost", err)
		}
		store.Down(true)
		if _, err := here.Attach(t.Context(), key(t, "biz:c:lock:a"), l.Grant().RequestID); !errors.Is(err, tierlock.ErrSystem) {
			t.Errorf("store down: %v", err)
		}
		store.Mend()
		_ = here.Close(context.Background())
		_ = there.Close(context.Background())
	})
}

func TestTheSameRequestGetsTheSameLock(t *testing.T) {
	for _, mode := range []tierlock.Mode{tierlock.ModeShared, tierlock.ModeLocal, tierlock.ModeBypass} {
		t.Run(mode.String(), func(t *testing.T) {
			bubble(t, weak(), func(t *testing.T, k one) {
				k.Force("c", mode)
				id := tierlock.NewRequestID()
				first := k.must("a", gateway.WithRequestID(id))
				was := first.Grant()
				time.Sleep(time.Second)
				again := k.must("a", gateway.WithRequestID(id))
				g := again.Grant()
				if again != first || !g.Replayed || g.Token != was.Token || !g.ExpiresAt.Equal(was.ExpiresAt) {
					t.Errorf("first %+v\nagain %+v", was, g)
				}
				if n := len(k.Audit.Of(id)); n != 1 {
					t.Errorf("%d events: the repeat was counted", n)
				}
				_ = again.Unlock(t.Context())
				if k.Store.Keys() != 0 || k.Status().Chains[0].Live != 0 {
					t.Error("something is left")
				}
			})
		})
	}
}

// The same request, several times at once: one handle, and one Unlock ends it.
func TestTheSameRequestAtOnceGetsOneLock(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		k.Store.Slow(50 * time.Millisecond)
		id := tierlock.NewRequestID()
		var locks [8]*gateway.Lock
		var all sync.WaitGroup
		for i := range locks {
			all.Go(func() { locks[i], _ = k.TryLock(t.Context(), "a", gateway.WithRequestID(id)) })
		}
		all.Wait()
		for _, l := range locks {
			if l == nil || l != locks[0] {
				t.Fatalf("handles %v", locks)
			}
		}
		if err := locks[0].Unlock(t.Context()); err != nil || k.Store.Keys() != 0 || k.Status().Chains[0].Live != 0 {
			t.Errorf("%v, %d keys, %d live", err, k.Store.Keys(), k.Status().Chains[0].Live)
		}
	})
}

func TestDoSharedIsSharedOrNothing(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		ran := 0
		fn := func(_ context.Context, g tierlock.Grant) error {
			ran++
			if g.Tier != tierlock.Shared {
				t.Errorf("tier %v", g.Tier)
			}
			return nil
		}
		if err := k.DoShared(t.Context(), key(t, "biz:c:lock:a"), fn); err != nil || ran != 1 {
			t.Errorf("well: %v", err)
		}
		k.Force("c", tierlock.ModeShared)
		if err := k.DoShared(t.Context(), key(t, "biz:c:lock:a"), fn); !errors.Is(err, tierlock.ErrSystem) || verdict(t, err).Reason != tierlock.ReasonForced {
			t.Errorf("under an order: %v", err)
		}
		k.Force("c", tierlock.ModeAuto)
		k.takeDown()
		if err := k.DoShared(t.Context(), key(t, "biz:c:lock:a"), fn); err == nil || errors.Is(err, tierlock.ErrOptimistic) {
			t.Errorf("store down: %v", err)
		}
		if ran != 1 {
			t.Errorf("fn ran %d times", ran)
		}
	})
}

// Two calls of one request are under way, one was granted, and the other has to step back:
// it must not take the hold with it.
func TestATwinThatStepsBackLeavesTheHold(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		id := tierlock.NewRequestID()
		k.Store.Slow(100 * time.Millisecond)
		time.AfterFunc(50*time.Millisecond, func() { k.must("a", gateway.WithRequestID(id)) })
		time.AfterFunc(120*time.Millisecond, func() { k.Force("c", tierlock.ModeBypass) })
		first := k.must("a", gateway.WithRequestID(id)) // at 100 ms; the twin's answer comes at 150 ms
		time.Sleep(2 * time.Second)
		if ok, err := first.IsHeld(t.Context()); !ok || err != nil {
			t.Errorf("held %v, %v: its twin gave it back", ok, err)
		}
		if err := first.Unlock(t.Context()); err != nil || k.Store.Keys() != 0 {
			t.Errorf("unlock: %v, %d keys", err, k.Store.Keys())
		}
	})
}

// The same, but the two were granted on two tiers: one handle comes out, and the other
// hold is not forgotten.
func TestATwinOnAnotherTierIsGivenBack(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		id := tierlock.NewRequestID()
		k.Store.Slow(100 * time.Millisecond)
		var first *gateway.Lock
		time.AfterFunc(50*time.Millisecond, func() {
			k.Force("c", tierlock.ModeBypass)
			first = k.must("a", gateway.WithRequestID(id))
			k.Force("c", tierlock.ModeShared)
		})
		if l := k.must("a", gateway.WithRequestID(id)); l != first {
			t.Errorf("two handles of one request: %v and %v", l.Grant().Tier, first.Grant().Tier)
		}
		time.Sleep(time.Second)
		if n := k.Store.Keys(); n != 0 {
			t.Errorf("%d keys left in the store by the hold that nobody has", n)
		}
		_ = first.Unlock(t.Context())
	})
}
