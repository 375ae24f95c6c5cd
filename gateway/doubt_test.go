package gateway_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

// link is the way to a store. While it is dead, nothing that was sent is answered, not even
// once the link is good again: its connection is gone. What was sent arrives though, late.
type link struct {
	*gatewaytest.Store
	dead    atomic.Bool
	arrives atomic.Int64 // nanoseconds after it was sent; 0: never
	late    sync.WaitGroup
}

func (l *link) Traits() tierlock.Traits {
	t := l.Store.Traits()
	t.Prober = l
	return t
}

// swallow is nil on a good link. On a dead one it waits for the deadline.
func (l *link) swallow(ctx context.Context, arrive func()) error {
	if !l.dead.Load() {
		return nil
	}
	if after := time.Duration(l.arrives.Load()); after > 0 && arrive != nil {
		l.late.Go(func() {
			time.Sleep(after)
			arrive()
		})
	}
	deadline, _ := ctx.Deadline()
	limited, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	<-limited.Done()
	return &tierlock.Fault{Reason: tierlock.ReasonAttempt, InDoubt: true, Err: context.DeadlineExceeded}
}

func (l *link) Acquire(ctx context.Context, r tierlock.Request) (tierlock.Answer, error) {
	if err := l.swallow(ctx, func() { _, _ = l.Store.Acquire(context.Background(), r) }); err != nil {
		return tierlock.Answer{}, err
	}
	return l.Store.Acquire(ctx, r)
}

func (l *link) Release(ctx context.Context, h tierlock.Hold) (tierlock.Answer, error) {
	if err := l.swallow(ctx, func() { _, _ = l.Store.Release(context.Background(), h) }); err != nil {
		return tierlock.Answer{}, err
	}
	return l.Store.Release(ctx, h)
}

func (l *link) Probe(ctx context.Context, target string) error {
	if err := l.swallow(ctx, nil); err != nil {
		return err
	}
	return l.Store.Probe(ctx, target)
}

// onLink runs f on a strong chain over a link, in a bubble.
func onLink(t *testing.T, f func(t *testing.T, g *gateway.Gateway, c *gateway.Chain, l *link)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &link{Store: gatewaytest.NewStore()}
		g, err := gateway.New(gateway.Config{
			Chains: map[string]gateway.Policy{"order": strong()},
			Stores: map[string]tierlock.Backend{"main": l}, Audit: new(gatewaytest.Audit),
		})
		if err != nil {
			t.Fatal(err)
		}
		f(t, g, chain(t, g, "order"), l)
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
		l.late.Wait()
	})
}

// A release that was sent into a dead link hangs for two seconds, and sixteen of them would
// keep all others from being sent. A store that answers a probe is asked again beside them.
func TestWhatHangsIsSentAgainOnceTheStoreAnswers(t *testing.T) {
	onLink(t, func(t *testing.T, g *gateway.Gateway, c *gateway.Chain, l *link) {
		l.DropReplies(40)
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() { _, _ = c.TryLock(t.Context(), strconv.Itoa(i)) })
		}
		all.Wait()
		l.dead.Store(true)
		if n := l.Keys(); n == 0 {
			t.Fatal("no acquire took effect: nothing is in doubt")
		}
		for range 4 { // the link heals at any moment of a release's two seconds
			time.Sleep(1900 * time.Millisecond)
		}
		probes := l.Counts().Probe
		l.dead.Store(false)
		eventually(t, 2*time.Second, "a probe answered", func() bool { return l.Counts().Probe > probes })
		time.Sleep(time.Second)
		if n := l.Keys(); n != 0 {
			t.Errorf("%d keys left 1 s after the first answered probe", n)
		}
		eventually(t, 3*time.Second, "nothing in doubt", func() bool { return g.Status().InDoubt == 0 })
	})
}

// A release that hangs may still arrive. Until it cannot any more, a retry of its request
// gets no lock that it would take away.
func TestARetryIsSafeFromReleasesThatHang(t *testing.T) {
	onLink(t, func(t *testing.T, g *gateway.Gateway, c *gateway.Chain, l *link) {
		id := tierlock.NewRequestID()
		l.arrives.Store(int64(1900 * time.Millisecond))
		l.DropReplies(1)
		_, _ = c.TryLock(t.Context(), "a", gateway.WithRequestID(id))
		l.dead.Store(true)
		time.Sleep(time.Second) // its release is out since 0.2 s, and hangs until 2.2 s
		l.dead.Store(false)
		var lock *gateway.Lock
		eventually(t, 3*time.Second, "the retry granted", func() (ok bool) {
			var err error
			lock, err = c.TryLock(t.Context(), "a", gateway.WithRequestID(id))
			return err == nil
		})
		time.Sleep(3 * time.Second)
		if ok, err := lock.IsHeld(t.Context()); !ok || err != nil {
			t.Errorf("held %v, %v: a release of before has taken it away", ok, err)
		}
		if err := lock.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Two calls of one request are in doubt, and the release that went out for the first took
// effect before the second call did: its answer is not the last word.
func TestAReleaseSaysNothingOfWhatCameAfterIt(t *testing.T) {
	onLink(t, func(t *testing.T, _ *gateway.Gateway, c *gateway.Chain, l *link) {
		id := tierlock.NewRequestID()
		l.dead.Store(true)
		l.arrives.Store(int64(180 * time.Millisecond))
		var calls sync.WaitGroup
		call := func() { _, _ = c.TryLock(t.Context(), "a", gateway.WithRequestID(id)) }
		calls.Go(call) // arrives at 180 ms, and is in doubt from 200 ms on
		time.Sleep(100 * time.Millisecond)
		calls.Go(call) // arrives at 280 ms, in doubt from 300 ms on
		time.Sleep(90 * time.Millisecond)
		l.dead.Store(false)
		l.Slow(150 * time.Millisecond) // the release of 200 ms takes effect then, and is answered at 350 ms
		time.Sleep(105 * time.Millisecond)
		l.dead.Store(true) // what is sent at 300 ms never arrives
		l.arrives.Store(0)
		calls.Wait()
		time.Sleep(100 * time.Millisecond)
		if l.Keys() != 1 {
			t.Fatal("the second call took no effect after the release of the first")
		}
		l.Slow(0)
		l.dead.Store(false)
		eventually(t, 4*time.Second, "the second call's lock given back", func() bool { return l.Keys() == 0 })
	})
}

// A holder who renewed for longer than the chain's ttl may leave his key for as long, so
// the ledger must not give it up earlier.
func TestALongRenewalIsGivenBackHoweverLate(t *testing.T) {
	for name, lost := range map[string]int{"answered": 0, "reply lost": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, strong(), func(t *testing.T, k one) {
				l := k.must("a", gateway.WithoutRenew())
				k.Store.DropReplies(lost)
				if err := l.Renew(t.Context(), 10*time.Minute); (err != nil) != (lost > 0) {
					t.Fatal(err)
				}
				k.Store.Down(true)
				k.ask("b")
				if err := l.Unlock(t.Context()); err == nil {
					t.Fatal("released on a store that is down")
				}
				time.Sleep(3 * time.Minute) // thrice the ttl
				k.Store.Down(false)
				eventually(t, 4*time.Second, "the key given back", func() bool { return k.Store.Keys() == 0 })
			})
		})
	}
}

// The watchdog counts from the holder's own renewal, not from the grant.
func TestARenewalIsNotDoubled(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		l := k.must("a")
		time.Sleep(50 * time.Second) // renewed twice or thrice by itself
		before := k.Store.Counts().Renew
		if err := l.Renew(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		if n := k.Store.Counts().Renew - before; n != 1 {
			t.Errorf("%d renewals within 15 s of the holder's, want his alone", n)
		}
		_ = l.Unlock(t.Context())
	})
}

// A renewal that was on its way when the lock was given back finds it gone. That is no
// failed renewal: an alert watches those.
func TestARenewalOvertakenByUnlockHasNotFailed(t *testing.T) {
	var failed atomic.Int64
	bubble(t, strong(), func(t *testing.T, k one) {
		l := k.must("a")
		k.Store.Lose("biz:c:lock:a") // as the release does that overtakes the renewal
		k.Store.Slow(50 * time.Millisecond)
		time.AfterFunc(10*time.Millisecond, func() { _ = l.Unlock(context.Background()) })
		if err := l.Renew(t.Context(), time.Minute); err == nil {
			t.Error("renewed what was given back")
		}
		if n := failed.Load(); n != 0 {
			t.Errorf("%d renewals told as failed", n)
		}
		time.Sleep(time.Second)
	}, gateway.Hooks{Renewed: func(i gateway.RenewInfo) {
		if i.Err != nil {
			failed.Add(1)
		}
	}})
}

// What finds no room in the ledger is counted, and left to its ttl; what has an entry is
// still settled, and its own doubt needs no second one.
func TestAFullLedgerLeavesLocksToTheirTTL(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		k.LedgerRoom(2)
		k.Store.DropReplies(4)
		id := tierlock.NewRequestID()
		_, _ = k.TryLock(t.Context(), "a", gateway.WithRequestID(id))
		k.ask("b")
		k.ask("c")
		_, _ = k.TryLock(t.Context(), "a", gateway.WithRequestID(id))
		if s := k.Status(); s.InDoubt != 2 || s.Dropped != 1 {
			t.Fatalf("%d in doubt and %d dropped, want 2 and 1", s.InDoubt, s.Dropped)
		}
		time.Sleep(time.Second)
		if n := k.Store.Keys(); n != 1 {
			t.Errorf("%d keys, want the one without an entry", n)
		}
		time.Sleep(time.Minute)
		if n := k.Store.Keys(); n != 0 {
			t.Errorf("%d keys after the ttl", n)
		}
	})
}
