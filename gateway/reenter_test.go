package gateway_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

const keyA = "biz:c:lock:a"

// enter locks a under the context of l.
func (k one) enter(l *gateway.Lock, opts ...gateway.Option) *gateway.Lock {
	k.t.Helper()
	inner, err := k.Lock(l.Context(k.t.Context()), "a", opts...)
	if err != nil {
		k.t.Fatalf("enter: %v", err)
	}
	return inner
}

func (k one) wantDepth(want int) {
	k.t.Helper()
	if n := k.Store.Depth(keyA); n != want {
		k.t.Errorf("depth %d in the store, want %d", n, want)
	}
}

func (k one) unlock(l *gateway.Lock) {
	k.t.Helper()
	if err := l.Unlock(k.t.Context()); err != nil {
		k.t.Errorf("unlock: %v", err)
	}
}

func TestALockIsEnteredUnderItsOwnContext(t *testing.T) {
	for name, outerFirst := range map[string]bool{"inner leaves first": false, "outer leaves first": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, strong(), func(t *testing.T, k one) {
				outer := k.must("a")
				began := time.Now()
				inner := k.enter(outer)
				deepest := k.enter(inner)
				if took := time.Since(began); took > 0 {
					t.Errorf("entering waited %v", took)
				}
				if inner == outer || inner.Grant() != outer.Grant() || deepest.Grant() != outer.Grant() {
					t.Errorf("grants %+v, %+v, %+v", outer.Grant(), inner.Grant(), deepest.Grant())
				}
				k.wantDepth(3)
				order := []*gateway.Lock{deepest, inner, outer}
				if outerFirst {
					order = []*gateway.Lock{outer, inner, deepest}
				}
				for i, l := range order {
					if _, v := k.ask("a"); v.Reason != tierlock.ReasonHeld {
						t.Errorf("before unlock %d another got %+v", i, v)
					}
					k.unlock(l)
					k.unlock(l) // a second one gives nothing back
					k.wantDepth(2 - i)
				}
				if tier, v := k.ask("a"); tier != tierlock.Shared {
					t.Errorf("after the last unlock: %+v", v)
				}
				evs := k.Audit.Of(outer.Grant().RequestID)
				if len(evs) != 2 || evs[0].Type != audit.TypeAcquire || evs[1].How != audit.Released {
					t.Errorf("events %+v, want one beginning and one end", evs)
				}
			})
		})
	}
}

func TestEveryTierIsEntered(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(k one)
		tier    tierlock.Tier
	}{
		"shared": {func(one) {}, tierlock.Shared},
		"local":  {one.takeDown, tierlock.Local},
		"bypass": {func(k one) { k.Force("c", tierlock.ModeBypass) }, tierlock.Bypass},
	} {
		t.Run(name, func(t *testing.T) {
			p := weak()
			p.Local.Permits = 1
			bubble(t, p, func(t *testing.T, k one) {
				c.prepare(k)
				outer := k.must("a")
				k.Force("c", tierlock.ModeReject) // whatever the chain's state is by now
				inner := k.enter(outer)
				if tier := inner.Grant().Tier; tier != c.tier {
					t.Errorf("tier %v", tier)
				}
				k.unlock(outer)
				if ok, err := inner.IsHeld(t.Context()); !ok || err != nil {
					t.Errorf("after the first left: %v, %v", ok, err)
				}
				k.unlock(inner)
				if n := k.Status().Chains[0].Live; n != 0 {
					t.Errorf("%d live locks", n)
				}
				k.Store.Mend()
				if evs := k.Audit.Of(outer.Grant().RequestID); len(evs) != 2 {
					t.Errorf("%d events", len(evs))
				}
			})
		})
	}
}

func TestContextsEndWithTheirEntry(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		outer := k.must("a")
		outerCtx := outer.Context(t.Context())
		inner := k.enter(outer)
		innerCtx := inner.Context(t.Context())
		k.unlock(inner)
		if !errors.Is(context.Cause(innerCtx), gateway.ErrUnlocked) || outerCtx.Err() != nil {
			t.Errorf("inner ended by %v, outer by %v", context.Cause(innerCtx), outerCtx.Err())
		}
		if late := inner.Context(t.Context()); late.Err() == nil {
			t.Error("an entry given back makes a live context")
		}
		second := k.enter(outer)
		secondCtx := second.Context(t.Context())
		k.Store.Lose(keyA)
		<-outerCtx.Done()
		<-secondCtx.Done()
		if !errors.Is(context.Cause(outerCtx), tierlock.ErrLost) || !errors.Is(context.Cause(secondCtx), tierlock.ErrLost) {
			t.Errorf("ended by %v and %v", context.Cause(outerCtx), context.Cause(secondCtx))
		}
		for _, l := range []*gateway.Lock{second, outer} {
			if err := l.Unlock(t.Context()); !errors.Is(err, tierlock.ErrLost) {
				t.Errorf("unlock of a lost lock: %v", err)
			}
		}
	})
}

// The lock was lost, and nobody has noticed but the one that enters.
func TestEnteringFindsTheLossFirst(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		outer := k.must("a")
		ctx := outer.Context(t.Context())
		k.Store.Lose(keyA)
		if _, err := k.Lock(ctx, "a"); !errors.Is(err, tierlock.ErrLost) {
			t.Errorf("entered: %v", err)
		}
		if !errors.Is(context.Cause(ctx), tierlock.ErrLost) {
			t.Errorf("the contexts ended by %v", context.Cause(ctx))
		}
		_ = outer.Unlock(t.Context())
	})
}

func TestOneHoldIsRenewedOnceHoweverOftenEntered(t *testing.T) {
	p := strong()
	p.TTL = 15 * time.Second
	bubble(t, p, func(t *testing.T, k one) {
		outer := k.must("a")
		inner := k.must("a", gateway.Reenter(outer.Grant().RequestID))
		time.Sleep(time.Minute)
		if n := k.Store.Counts().Renew; n < 10 || n > 16 {
			t.Errorf("%d renewals in a minute at a third of 15 s", n)
		}
		if err := inner.Renew(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
		if left := time.Until(outer.Grant().ExpiresAt); left < 50*time.Second {
			t.Errorf("renewed by the one, the other has %v left", left)
		}
		k.unlock(outer)
		time.Sleep(time.Minute)
		k.wantDepth(1)
		k.unlock(inner)
	})
}

// The call that took the lock is over; one that entered it goes on.
func TestALockIsRenewedForWhoeverIsLeft(t *testing.T) {
	p := strong()
	p.TTL = 15 * time.Second
	bubble(t, p, func(t *testing.T, k one) {
		call, over := context.WithCancel(t.Context())
		outer, err := k.TryLock(call, "a")
		if err != nil {
			t.Fatal(err)
		}
		worker, done := context.WithCancel(t.Context())
		inner, err := k.TryLock(worker, "a", gateway.Reenter(outer.Grant().RequestID))
		if err != nil {
			t.Fatal(err)
		}
		over()
		time.Sleep(time.Minute)
		if ok, err := inner.IsHeld(t.Context()); !ok || err != nil {
			t.Errorf("held: %v, %v", ok, err)
		}
		done()
		time.Sleep(time.Minute)
		if k.Store.Keys() != 0 {
			t.Error("renewed for nobody")
		}
	})
}

func TestReenterNamesAnEntry(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		outer := k.must("a")
		id := outer.Grant().RequestID
		first := k.must("a", gateway.Reenter(id), gateway.WithEntry(7))
		if again := k.must("a", gateway.Reenter(id), gateway.WithEntry(7)); again != first {
			t.Error("a repeat got a handle of its own")
		}
		k.wantDepth(2)
		key := outer.Grant().Key
		named, err := k.Attach(t.Context(), key, id, gateway.WithEntry(7))
		if err != nil || named != first {
			t.Errorf("attached %v, %v", named, err)
		}
		stranger, err := k.Attach(t.Context(), key, id, gateway.WithEntry(8))
		if err != nil {
			t.Fatal(err)
		}
		k.unlock(stranger) // was never in: changes nothing
		k.wantDepth(2)
		k.unlock(outer)
		k.unlock(named)
		k.wantDepth(0)

		other := k.must("a")
		for what, id := range map[string]tierlock.RequestID{"gone": id, "another's": tierlock.NewRequestID()} {
			if _, err := k.TryLock(t.Context(), "a", gateway.Reenter(id)); !errors.Is(err, tierlock.ErrLost) {
				t.Errorf("%s: %v, want ErrLost", what, err)
			}
		}
		k.wantDepth(1)
		k.unlock(other)
	})
}

func TestEntriesAreRefusedBeforeAnyIO(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		for what, opts := range map[string][]gateway.Option{
			"zero id":       {gateway.Reenter(tierlock.RequestID{})},
			"zero entry":    {gateway.Reenter(tierlock.NewRequestID()), gateway.WithEntry(0)},
			"above 2^53-1":  {gateway.Reenter(tierlock.NewRequestID()), gateway.WithEntry(1 << 53)},
			"no id with it": {gateway.WithEntry(7)},
		} {
			if _, err := k.TryLock(t.Context(), "a", opts...); !errors.Is(err, tierlock.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n := k.Store.Counts().Acquire; n != 0 {
			t.Errorf("%d questions", n)
		}
	})
}

// Another process enters: the key is free when the last of both has left.
func TestAnotherProcessEnters(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		rec := new(gatewaytest.Audit)
		second, err := gateway.New(gateway.Config{
			Chains: map[string]gateway.Policy{"c": strong()}, Stores: map[string]tierlock.Backend{"memory": k.Store}, Audit: rec,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = second.Close(t.Context()) }()
		there, _ := second.Chain("c")

		outer := k.must("a")
		id := outer.Grant().RequestID
		inner, err := there.TryLock(t.Context(), "a", gateway.Reenter(id))
		if err != nil || inner.Grant().Token != outer.Grant().Token {
			t.Fatalf("entered elsewhere: %+v, %v", inner.Grant(), err)
		}
		deeper, err := there.TryLock(inner.Context(t.Context()), "a")
		if err != nil {
			t.Fatal(err)
		}
		k.wantDepth(3)
		k.unlock(outer)
		k.unlock(inner)
		if _, v := k.ask("a"); v.Reason != tierlock.ReasonHeld {
			t.Errorf("with one entry left another got %+v", v)
		}
		k.unlock(deeper)
		k.wantDepth(0)
		if here, away := k.Audit.Of(id), rec.Of(id); len(here) != 2 || len(away) != 1 || away[0].Type != audit.TypeEnd {
			t.Errorf("events here %+v, there %+v", here, away)
		}
	})
}

// The store does not answer the one who enters, and the one that it knows of leaves first.
func TestAnEntryThatTheStoreWasNotToldOfKeepsTheKey(t *testing.T) {
	for name, breaks := range map[string]func(k one){
		"silent":     func(k one) { k.Store.Hang(true) },
		"down":       one.takeDown,
		"lost reply": func(k one) { k.Store.DropReplies(1) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, strong(), func(t *testing.T, k one) {
				outer := k.must("a")
				breaks(k)
				inner := k.enter(outer)
				time.Sleep(time.Millisecond) // past the attempt's not-after
				k.Store.Mend()
				time.Sleep(5 * time.Second) // a probe finds it well
				k.unlock(outer)
				eventually(t, 5*time.Second, "nothing is in doubt", func() bool { return k.Status().InDoubt == 0 })
				k.wantDepth(1)
				if ok, err := inner.IsHeld(t.Context()); !ok || err != nil {
					t.Errorf("held: %v, %v", ok, err)
				}
				k.unlock(inner)
				k.wantDepth(0)
			})
		})
	}
}

// With a name the entry may be given back elsewhere, so the store has to know it.
func TestANamedEntryIsRefusedWithoutAnAnswer(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		outer := k.must("a")
		k.Store.DropReplies(1)
		_, err := k.TryLock(t.Context(), "a", gateway.Reenter(outer.Grant().RequestID), gateway.WithEntry(7))
		if v := verdict(t, err); v.Reason != tierlock.ReasonBroken {
			t.Errorf("verdict %+v", v)
		}
		synctest.Wait()
		eventually(t, 5*time.Second, "nothing is in doubt", func() bool { return k.Status().InDoubt == 0 })
		k.wantDepth(1)
		k.unlock(outer)
		k.wantDepth(0)
	})
}

func TestDoInsideDo(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		var inside int
		err := k.Do(t.Context(), "a", func(ctx context.Context, outer tierlock.Grant) error {
			return k.Do(ctx, "b", func(ctx context.Context, _ tierlock.Grant) error {
				return k.Do(ctx, "a", func(ctx context.Context, inner tierlock.Grant) error {
					if inner != outer {
						t.Errorf("grants %+v and %+v", outer, inner)
					}
					inside++
					return ctx.Err()
				})
			})
		})
		if err != nil || inside != 1 || k.Store.Keys() != 0 {
			t.Errorf("%v, %d inside, %d keys left", err, inside, k.Store.Keys())
		}
		for _, ev := range k.Audit.Events() {
			if ev.Type == audit.TypeEnd && ev.Outcome != audit.Committed {
				t.Errorf("ended %v", ev.Outcome)
			}
		}
	})
}

// The race of those who enter with the one who leaves: whoever was let in is in.
func TestEnteringRacesLeaving(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		for range 200 {
			outer := k.must("a")
			id := outer.Grant().RequestID
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					opts := []gateway.Option{gateway.Reenter(id)}
					if i%2 == 0 {
						opts = append(opts, gateway.WithEntry(uint64(i+1)))
					}
					l, err := k.TryLock(t.Context(), "a", opts...)
					if errors.Is(err, tierlock.ErrLost) {
						return // all had left by then
					}
					if err != nil {
						t.Error(err)
						return
					}
					if ok, err := l.IsHeld(t.Context()); !ok || err != nil {
						t.Errorf("let in, and not held: %v", err)
					}
					k.unlock(l)
				})
			}
			all.Go(func() { k.unlock(outer) })
			all.Wait()
			synctest.Wait()
			k.wantDepth(0)
		}
		if n := k.Status().Chains[0].Live; n != 0 {
			t.Errorf("%d live locks", n)
		}
	})
}
