package gateway_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

// Thousands of callers of one key are one contender to the store, and each ends by its own
// wait.
func TestThousandsWaitAsOne(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		k.must("a") // never given back
		before := k.Store.Counts().Acquire
		var all sync.WaitGroup
		for i := range 5000 {
			all.Go(func() {
				wait := 100*time.Millisecond + time.Duration(i%200)*time.Millisecond
				began := time.Now()
				_, err := k.Lock(t.Context(), "a", gateway.WithWait(wait))
				if took := time.Since(began); !errors.Is(err, tierlock.ErrHeld) || took != wait {
					t.Errorf("%v after %v, want ErrHeld after %v", err, took, wait)
				}
			})
		}
		all.Wait()
		if n := k.Store.Counts().Acquire - before; n > 100 {
			t.Errorf("the store was asked %d times", n)
		}
	})
}

// Who is handed the lock inside the process was never answered "held", and has waited all the
// same: that wait is told, and is none of the store's time.
func TestTheWaitInLineIsTold(t *testing.T) {
	var hook heard[gateway.AcquireInfo]
	bubble(t, strong(), func(t *testing.T, k one) {
		holder := k.must("a")
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				l, err := k.Lock(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				_ = l.Unlock(t.Context())
			})
		}
		time.Sleep(50 * time.Millisecond)
		_ = holder.Unlock(t.Context())
		all.Wait()
		told := hook.told()[1:]
		if len(told) != 3 {
			t.Fatalf("%d calls told", len(told))
		}
		for i, one := range told {
			if one.Waited < 50*time.Millisecond {
				t.Errorf("call %d took %v and waited %v of it", i, one.Took, one.Waited)
			}
		}
	}, gateway.Hooks{Acquired: hook.hear})
}

// All are served, one at a time, as long as their waits allow.
func TestThousandsAreServedOneAtATime(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		var inside, served atomic.Int64
		var last tierlock.Token // of holders only, so the race detector judges too
		var all sync.WaitGroup
		for range 5000 {
			all.Go(func() {
				l, err := k.Lock(t.Context(), "a", gateway.WithWait(2*time.Second))
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d inside", n)
				}
				if g := l.Grant(); g.Token <= last {
					t.Errorf("token %d after %d", g.Token, last)
				}
				last = l.Grant().Token
				served.Add(1)
				inside.Add(-1)
				_ = l.Unlock(context.Background())
			})
		}
		all.Wait()
		n := k.Store.Counts()
		if served.Load() != 5000 || k.Store.Keys() != 0 {
			t.Errorf("%d served, %d keys left", served.Load(), k.Store.Keys())
		}
		if asked := n.Acquire + n.Pass + n.Release; asked > 2*5000 {
			t.Errorf("the store was asked %d times: %+v", asked, n)
		}
	})
}

// Who is cancelled leaves the line, whether first in it or not, and keeps nobody behind it.
func TestACancelledCallLeavesTheLine(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		holder := k.must("a")
		first, leaveFirst := context.WithCancel(t.Context())
		second, leaveSecond := context.WithCancel(t.Context())
		defer leaveFirst()
		defer leaveSecond()
		var waiters []<-chan *gateway.Lock
		for _, ctx := range []context.Context{first, second, t.Context()} {
			waiters = append(waiters, k.lockLater(ctx, "a"))
			synctest.Wait()
		}
		for i, leave := range []func(){leaveSecond, leaveFirst} {
			began := time.Now()
			leave()
			if l := <-waiters[1-i]; l != nil || time.Since(began) > 0 {
				t.Errorf("cancelled: %v after %v", l, time.Since(began))
			}
		}
		_ = holder.Unlock(t.Context())
		l := <-waiters[2]
		if l == nil {
			t.Fatal("the third was not served")
		}
		_ = l.Unlock(t.Context())
	})
}

// When the store stops answering, nobody waits for his turn to find out.
func TestALineIsDissolvedWhenTheStoreFails(t *testing.T) {
	for name, c := range map[string]struct {
		policy gateway.Policy
		fault  func(one)
		tier   tierlock.Tier
		want   error
		within time.Duration
	}{
		"it is down, weak":   {manyLocal(), func(k one) { k.Store.Down(true) }, tierlock.Local, nil, 0},
		"it is down, strong": {strong(), func(k one) { k.Store.Down(true) }, 0, tierlock.ErrSystem, 0},
		"it hangs":           {strong(), func(k one) { k.Store.Hang(true) }, 0, tierlock.ErrTimeout, 400 * time.Millisecond}, // two attempts
		"bypass is ordered":  {manyLocal(), func(k one) { k.Force("c", tierlock.ModeBypass) }, tierlock.Bypass, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, c.policy, func(t *testing.T, k one) {
				k.must("warm")
				c.fault(k)
				var all sync.WaitGroup
				for range 100 {
					all.Go(func() {
						began := time.Now()
						l, err := k.Lock(t.Context(), "a", gateway.WithWait(2*time.Second))
						if took := time.Since(began); !errors.Is(err, c.want) || took > c.within || l.Grant().Tier != c.tier {
							t.Errorf("%v, %v after %v", l, err, took)
						}
					})
				}
				all.Wait()
				k.Store.Mend()
			})
		})
	}
}

// manyLocal is a weak chain on whose local tier a hundred may hold one key.
func manyLocal() gateway.Policy {
	p := weak()
	p.Local.Permits = 100
	return p
}

// The same request, asked twice at once, is one lock: whoever of the two comes later finds
// it, in line or at the end of its wait.
func TestTwinsInLineGetOneLock(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		holder, id := k.must("a"), tierlock.NewRequestID()
		twin := func() <-chan *gateway.Lock {
			got := k.lockLater(t.Context(), "a", gateway.WithRequestID(id))
			synctest.Wait()
			return got
		}
		first, second := twin(), twin()
		between := k.lockLater(t.Context(), "a", gateway.WithWait(2*time.Second))
		synctest.Wait()
		third := twin()
		_ = holder.Unlock(t.Context())
		l := <-first
		if again := <-second; l == nil || again != l {
			t.Errorf("got %p and %p", l, again)
		}
		if again := <-third; again != l { // behind another: it finds the lock at its end
			t.Errorf("got %p and %p", l, again)
		}
		_ = l.Unlock(t.Context())
		_ = (<-between).Unlock(t.Context())
		if n := k.Store.Keys(); n != 0 {
			t.Errorf("%d keys left", n)
		}
	})
}
