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

// lockLater asks for id and sends what it got.
func (k one) lockLater(ctx context.Context, id string, opts ...gateway.Option) <-chan *gateway.Lock {
	got := make(chan *gateway.Lock, 1)
	go func() {
		l, _ := k.Lock(ctx, id, opts...)
		got <- l
	}()
	return got
}

func TestTheNextInLineIsHandedTheLock(t *testing.T) {
	var ends heard[gateway.ReleaseInfo]
	bubble(t, strong(), func(t *testing.T, k one) {
		before := k.must("a")
		var waiters []<-chan *gateway.Lock
		for range 3 {
			waiters = append(waiters, k.lockLater(t.Context(), "a"))
			time.Sleep(time.Millisecond) // they come one after the other, and are served so
		}
		for i, w := range waiters {
			began := time.Now()
			_ = before.Unlock(t.Context())
			l := <-w
			synctest.Wait() // the next has found that it is the first now
			if took := time.Since(began); l == nil || took > 0 {
				t.Fatalf("waiter %d: %v after %v, want it at once", i, l, took)
			}
			was, is := before.Grant(), l.Grant()
			if is.Token <= was.Token || is.RequestID == was.RequestID || !is.Exclusive || is.Replayed || time.Until(is.ExpiresAt) < 50*time.Second {
				t.Errorf("waiter %d: %+v after %+v", i, is, was)
			}
			if ok, err := l.IsHeld(t.Context()); !ok || err != nil {
				t.Errorf("waiter %d holds nothing: %v", i, err)
			}
			if ok, _ := before.IsHeld(t.Context()); ok {
				t.Errorf("waiter %d: the one before still holds", i)
			}
			if ev := k.Audit.Of(was.RequestID); len(ev) != 2 || ev[1].How != audit.Released || ev[1].EndedAt.After(is.AcquiredAt) {
				t.Errorf("the one before was recorded as %+v", ev)
			}
			if ev := k.Audit.Of(is.RequestID); len(ev) != 1 || ev[0].Token != is.Token {
				t.Errorf("waiter %d was recorded as %+v", i, ev)
			}
			before = l
		}
		_ = before.Unlock(t.Context())
		// The first asked once more while it waited, the others never.
		if n := k.Store.Counts(); n.Pass != 3 || n.Release != 1 || n.Acquire > 2 {
			t.Errorf("the store was asked %+v", n)
		}
		var passed int
		for _, e := range ends.told() {
			if e.Passed {
				passed++
			}
			if e.Err != nil || e.Deferred {
				t.Errorf("told %+v", e)
			}
		}
		if passed != 3 || k.Store.Keys() != 0 {
			t.Errorf("%d told as handed over, %d keys left", passed, k.Store.Keys())
		}
	}, gateway.Hooks{Released: ends.hear})
}

// After eight hand-overs the key is given back for real, and so after 50 ms of them.
func TestHandOversComeToAnEnd(t *testing.T) {
	for name, c := range map[string]struct {
		work time.Duration
		most int
	}{
		"eight in a row":     {time.Millisecond, 8},
		"50 ms of them":      {20 * time.Millisecond, 3},
		"the first has time": {70 * time.Millisecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var ends heard[gateway.ReleaseInfo]
			bubble(t, strong(), func(t *testing.T, k one) {
				const callers = 25
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						l, err := k.Lock(t.Context(), "a", gateway.WithWait(2*time.Second))
						if err != nil {
							t.Error(err)
						}
						time.Sleep(c.work)
						_ = l.Unlock(t.Context())
					})
				}
				all.Wait()
				row, longest, served := 0, 0, 0
				for _, e := range ends.told() {
					served++
					if row++; !e.Passed {
						longest, row = max(longest, row-1), 0
					}
				}
				if longest != c.most || served != callers {
					t.Errorf("%d hand-overs in a row, want %d; %d served, want %d", longest, c.most, served, callers)
				}
			}, gateway.Hooks{Released: ends.hear})
		})
	}
}

// When no hand-over is to come, the first in line asks the store, while the last of the
// streak still works: the fair release after it has to find it in the store's line.
func TestTheFirstAsksWhenAStreakEnds(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		before := k.must("a")
		var waiters []<-chan *gateway.Lock
		for range 10 {
			waiters = append(waiters, k.lockLater(t.Context(), "a", gateway.WithWait(2*time.Second)))
			synctest.Wait()
		}
		for i, w := range waiters[:8] {
			asked := k.Store.Counts().Acquire
			_ = before.Unlock(t.Context())
			before = <-w
			synctest.Wait()
			asked = k.Store.Counts().Acquire - asked
			if last := i == 7; last && asked != 1 || !last && asked != 0 {
				t.Errorf("asked %d times after hand-over %d", asked, i+1)
			}
		}
		began := time.Now()
		_ = before.Unlock(t.Context())
		l := <-waiters[8]
		if took := time.Since(began); l == nil || took > 0 {
			t.Errorf("the ninth got %v after %v, want it at once", l, took)
		}
		synctest.Wait() // the tenth, who is the first now, waits for it
		_ = l.Unlock(t.Context())
		_ = (<-waiters[9]).Unlock(t.Context())
		if n := k.Store.Counts(); n.Pass != 9 || n.Release != 2 {
			t.Errorf("the store was asked %+v", n)
		}
	})
}

// A hand-over looks at the ladder and the orders as an acquire does: none is made where a
// new request would not be served plainly by the shared store.
func TestNothingIsHandedOverOffTheStraightWay(t *testing.T) {
	t.Run("under an order", func(t *testing.T) {
		bubble(t, weak(), func(t *testing.T, k one) {
			holder := k.must("a")
			waiter := k.lockLater(t.Context(), "a")
			synctest.Wait()
			k.Force("c", tierlock.ModeBypass)
			_ = holder.Unlock(t.Context())
			l := <-waiter
			if l.Grant().Tier != tierlock.Bypass || k.Store.Counts().Pass != 0 {
				t.Errorf("got %v, asked %+v", l, k.Store.Counts())
			}
			_ = l.Unlock(t.Context())
		})
	})
	t.Run("while the store is slow", func(t *testing.T) {
		bubble(t, strong(), func(t *testing.T, k one) {
			holder := k.must("a")
			waiter := k.lockLater(t.Context(), "a", gateway.WithWait(2*time.Second))
			synctest.Wait()
			k.slowDown()
			_ = holder.Unlock(t.Context())
			_ = (<-waiter).Unlock(t.Context())
			if n := k.Store.Counts(); n.Pass != 0 {
				t.Errorf("asked %+v", n)
			}
		})
	})
	t.Run("when the order comes with the gift", func(t *testing.T) {
		bubble(t, weak(), func(t *testing.T, k one) {
			holder := k.must("a")
			waiter := k.lockLater(t.Context(), "a")
			synctest.Wait()
			k.Store.Slow(50 * time.Millisecond)
			time.AfterFunc(20*time.Millisecond, func() { k.Force("c", tierlock.ModeBypass) })
			_ = holder.Unlock(t.Context())
			l := <-waiter
			if l.Grant().Tier != tierlock.Bypass || k.Store.Counts().Pass != 1 {
				t.Errorf("got %v, asked %+v", l, k.Store.Counts())
			}
			k.Store.Slow(0)
			eventually(t, time.Second, "what was handed over is given back", func() bool { return k.Store.Keys() == 0 })
			_ = l.Unlock(t.Context())
		})
	})
}

// A hand-over whose answer is lost may have happened or not: both ids are given back.
func TestAHandOverInDoubtLeavesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		fault   func(*gatewaytest.Store)
		patient bool // the waiter still waits when the fault comes
	}{
		"the reply is lost":             {func(s *gatewaytest.Store) { s.DropReplies(1) }, true},
		"it hangs":                      {func(s *gatewaytest.Store) { s.Hang(true) }, true},
		"it hangs, and the waiter goes": {func(s *gatewaytest.Store) { s.Hang(true) }, false},
		"it comes when the waiter left": {func(s *gatewaytest.Store) { s.Slow(100 * time.Millisecond) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, strong(), func(t *testing.T, k one) {
				holder := k.must("a")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var waited time.Duration
				began := time.Now()
				waiter := make(chan *gateway.Lock, 1)
				go func() {
					l, _ := k.Lock(ctx, "a", gateway.WithWait(2*time.Second))
					waited = time.Since(began)
					waiter <- l
				}()
				synctest.Wait()
				c.fault(k.Store)
				if !c.patient {
					time.AfterFunc(50*time.Millisecond, cancel)
				}
				err := holder.Unlock(t.Context())
				if took := time.Since(began); took > 200*time.Millisecond || err != nil && errors.Is(err, tierlock.ErrLost) {
					t.Errorf("unlock: %v after %v", err, took)
				}
				if l := <-waiter; l != nil || waited > 200*time.Millisecond || !c.patient && waited != 50*time.Millisecond {
					t.Errorf("the waiter got %v after %v", l, waited)
				}
				if n := k.Store.Counts().Pass; n != 1 {
					t.Errorf("%d hand-overs, want one", n)
				}
				k.Store.Mend()

				eventually(t, 5*time.Second, "no key is left, nothing in doubt", func() bool { return k.Store.Keys() == 0 && k.Status().InDoubt == 0 })
				if n := k.Status().Chains[0].Live; n != 0 {
					t.Errorf("%d locks in hand", n)
				}
			})
		})
	}
}

// A holder whose key is gone in the store hands nothing over, and keeps nobody waiting.
func TestALostKeyIsNotHandedOver(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		holder := k.must("a")
		k.Store.Lose("biz:c:lock:a")
		first := k.must("a") // another request got it meanwhile
		waiter := k.lockLater(t.Context(), "a")
		synctest.Wait()
		if err := holder.Unlock(t.Context()); !errors.Is(err, tierlock.ErrLost) {
			t.Errorf("unlock of a lost lock: %v", err)
		}
		if ok, err := first.IsHeld(t.Context()); !ok || err != nil {
			t.Errorf("the new holder: %v, %v", ok, err)
		}
		_ = first.Unlock(t.Context())
		if l := <-waiter; l == nil {
			t.Error("the waiter was not served")
		} else {
			_ = l.Unlock(t.Context())
		}
	})
}

// Behind a holder of this process that lost its key without knowing, the first in line
// still asks now and then.
func TestTheFirstAsksBehindAHolderThatLost(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		k.must("a")
		ctx, leave := context.WithCancel(t.Context())
		k.lockLater(ctx, "a")
		synctest.Wait()
		waiter := k.lockLater(t.Context(), "a", gateway.WithWait(2*time.Second))
		synctest.Wait()
		k.Store.Lose("biz:c:lock:a")
		leave() // who comes after the first has asked nobody yet
		began := time.Now()
		l := <-waiter
		if took := time.Since(began); l == nil || took > 125*time.Millisecond {
			t.Errorf("%v after %v", l, took)
		}
		_ = l.Unlock(t.Context())
	})
}

// Who is handed the lock in the very moment in which its caller leaves takes nothing, and
// nobody else knows of it: it is given back.
func TestAGiftThatComesAsTheCallerLeavesIsGivenBack(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		untaken := 0
		for range 200 {
			holder := k.must("a")
			ctx, cancel := context.WithCancel(t.Context())
			waiter := k.lockLater(ctx, "a", gateway.WithWait(2*time.Second))
			synctest.Wait()
			k.Store.Slow(time.Millisecond)
			time.AfterFunc(time.Millisecond, cancel)
			_ = holder.Unlock(t.Context())
			if l := <-waiter; l != nil {
				_ = l.Unlock(t.Context())
			} else {
				untaken++
			}
			cancel()
			k.Store.Slow(0)
			time.Sleep(time.Second)
			if n := k.Store.Keys(); n != 0 {
				t.Fatalf("%d keys a second later", n)
			}
		}
		if untaken == 0 {
			t.Error("each took it: nothing was tested")
		}
	})
}
