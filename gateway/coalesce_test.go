package gateway_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

// crowded is a store whose wire is as full as its test says, beside what the test asks, and
// that knows how many acquires of each key are out at once.
type crowded struct {
	*gatewaytest.Store
	full atomic.Int64 // of a thousand

	mu   sync.Mutex
	out  map[tierlock.Key]int
	most int // of one key
}

func (s *crowded) Traits() tierlock.Traits {
	traits := s.Store.Traits()
	traits.Wire, traits.Wired = 1000, s
	return traits
}

func (s *crowded) Loose(string) int { return int(s.full.Load()) }

func (s *crowded) Acquire(ctx context.Context, req tierlock.Request) (tierlock.Answer, error) {
	s.mu.Lock()
	s.out[req.Key]++
	s.most = max(s.most, s.out[req.Key])
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.out[req.Key]--
		s.mu.Unlock()
	}()
	return s.Store.Acquire(ctx, req)
}

// mostOut is the largest number of acquires of one key that were out at once, since it was
// last asked.
func (s *crowded) mostOut() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.most
	s.most = 0
	return most
}

// coalescing is a weak chain that stays with a store whose wire is full.
func coalescing() gateway.Policy {
	p := weak()
	p.Ladder.OnSaturated = degrade.FallbackCoalesce
	return p
}

// inCrowd runs f on a chain whose wire has been full for long enough.
func inCrowd(t *testing.T, p gateway.Policy, f func(t *testing.T, k one, s *crowded), hooks ...gateway.Hooks) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &crowded{Store: gatewaytest.NewStore(), out: map[tierlock.Key]int{}}
		g, err := gateway.New(gateway.Config{
			Chains: map[string]gateway.Policy{"c": p}, Stores: map[string]tierlock.Backend{"m": s}, Audit: new(gatewaytest.Audit), Hooks: gateway.Join(hooks...),
		})
		if err != nil {
			t.Fatal(err)
		}
		k := one{&gatewaytest.Kit{Gateway: g, Store: s.Store}, chain(t, g, "c"), t}
		s.full.Store(960)
		time.Sleep(5300 * time.Millisecond)
		if state := g.Status().Chains[0].Targets[0].State; state != degrade.Saturated {
			t.Fatalf("the chain stands on %v", state)
		}
		f(t, k, s)
		s.Mend()
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := s.Keys(); n != 0 {
			t.Errorf("%d keys left", n)
		}
	})
}

// occupy has somebody else hold id in the store.
func (s *crowded) occupy(t *testing.T, id string) (leave func()) {
	t.Helper()
	key, err := tierlock.ParseKey("biz:c:lock:" + id)
	if err != nil {
		t.Fatal(err)
	}
	hold := tierlock.Hold{Key: key, ID: tierlock.NewRequestID(), TTL: time.Minute}
	if ans, err := s.Store.Acquire(t.Context(), tierlock.Request{Hold: hold, NotAfter: time.Now().Add(time.Second)}); err != nil || ans.Status != tierlock.Granted {
		t.Fatalf("%v, %v", ans, err)
	}
	return func() { _, _ = s.Release(context.Background(), hold) }
}

// Callers of one key that wait: one at a time is out, all are served by the store, and who
// holds hands over, so that a turn costs little more than one command.
func TestAFullWireServesAHotKeyOneAtATime(t *testing.T) {
	inCrowd(t, coalescing(), func(t *testing.T, k one, s *crowded) {
		const callers = 300
		s.Slow(time.Millisecond)
		before := s.Counts()
		var inside atomic.Int64
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				l, err := k.Lock(t.Context(), "hot", gateway.WithWait(2*time.Second))
				if g := l.Grant(); err != nil || g.Tier != tierlock.Shared || !g.Exclusive {
					t.Errorf("%+v, %v", g, err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d inside", n)
				}
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				_ = l.Unlock(context.Background())
			})
		}
		all.Wait()
		n := s.Counts()
		if asked := n.Acquire + n.Pass + n.Release - before.Acquire - before.Pass - before.Release; asked > callers*3/2 {
			t.Errorf("%d commands for %d callers: %+v", asked, callers, n)
		}
		if n.Pass == 0 || s.mostOut() != 1 {
			t.Errorf("%d hand-overs, %d acquires out at once", n.Pass, s.most)
		}
	})
}

// Callers of one key that do not wait for a holder: one asks, and its answer is everybody's
// who came before it.
func TestAFullWireIsAskedOnceForAll(t *testing.T) {
	for name, taken := range map[string]bool{"held by another process": true, "free": false} {
		t.Run(name, func(t *testing.T) {
			var calls heard[gateway.AcquireInfo]
			inCrowd(t, coalescing(), func(t *testing.T, k one, s *crowded) {
				const callers = 500
				if taken {
					defer s.occupy(t, "hot")()
				}
				s.Slow(90 * time.Millisecond)
				before := s.Counts().Acquire
				var granted atomic.Int64
				var all sync.WaitGroup
				locks := make(chan *gateway.Lock, callers)
				for range callers {
					all.Go(func() {
						began := time.Now()
						l, err := k.TryLock(t.Context(), "hot")
						if err == nil {
							granted.Add(1)
							locks <- l
						}
						if err != nil && !errors.Is(err, tierlock.ErrHeld) || time.Since(began) != 90*time.Millisecond {
							t.Errorf("%v, %v after %v", l, err, time.Since(began))
						}
					})
				}
				all.Wait()
				if asked := s.Counts().Acquire - before; asked != 1 || s.mostOut() != 1 {
					t.Errorf("asked %d times", asked)
				}
				if n := granted.Load(); n > 1 || (n == 1) == taken {
					t.Errorf("%d granted", n)
				}
				spared := 0
				for _, c := range calls.told() {
					if c.Spared {
						spared++
					}
				}
				if spared != callers-1 {
					t.Errorf("%d spared the store their question", spared)
				}
				close(locks)
				for l := range locks {
					began := time.Now()
					if _, v := k.ask("hot"); v.Outcome != tierlock.Failure || v.Remaining == 0 || time.Since(began) > 0 {
						t.Errorf("behind a lock of its own process: %+v after %v", v, time.Since(began))
					}
					_ = l.Unlock(context.Background())
				}
			}, gateway.Hooks{Acquired: calls.hear})
		})
	}
}

// An answer is as good as it is young: who comes after it asks anew, so a key that is free
// again is found so though callers come all the time.
func TestAnAnswerIsOnlyForThoseWhoCameBeforeIt(t *testing.T) {
	inCrowd(t, coalescing(), func(t *testing.T, k one, s *crowded) {
		leave := s.occupy(t, "hot")
		s.Slow(20 * time.Millisecond)
		time.AfterFunc(200*time.Millisecond, leave)
		var served atomic.Int64
		var all sync.WaitGroup
		for range 400 { // one a millisecond, so that the line is never empty
			all.Go(func() {
				if l, err := k.TryLock(t.Context(), "hot"); err == nil {
					served.Add(1)
					_ = l.Unlock(context.Background())
				}
			})
			time.Sleep(time.Millisecond)
		}
		all.Wait()
		if n := served.Load(); n == 0 {
			t.Error("nobody found that the key was free")
		}
		if s.mostOut() != 1 {
			t.Error("two were out at once")
		}
	})
}

// A call that waits for a holder, and one that does not: the second is told what the first
// was, at once.
func TestWhoDoesNotWaitIsAnsweredByWhoDoes(t *testing.T) {
	inCrowd(t, coalescing(), func(t *testing.T, k one, s *crowded) {
		defer s.occupy(t, "hot")()
		s.Slow(50 * time.Millisecond)
		waiter := k.lockLater(t.Context(), "hot", gateway.WithWait(time.Second))
		for _, want := range []time.Duration{50 * time.Millisecond, 0} { // with the question out, and after it
			synctest.Wait()
			began := time.Now()
			_, v := k.ask("hot")
			if v.Outcome != tierlock.Failure || time.Since(began) != want {
				t.Errorf("%+v after %v, want failure after %v", v, time.Since(began), want)
			}
			time.Sleep(time.Millisecond)
		}
		if l := <-waiter; l != nil {
			t.Errorf("got %v", l)
		}
	})
}

// What a line knew before a call came answers it no more: the key may be free since.
func TestAnOldAnswerIsNone(t *testing.T) {
	inCrowd(t, coalescing(), func(t *testing.T, k one, s *crowded) {
		leave := s.occupy(t, "hot")
		first := k.lockLater(t.Context(), "hot", gateway.WithWait(100*time.Millisecond))
		synctest.Wait() // told held
		second := k.lockLater(t.Context(), "hot", gateway.WithWait(time.Second))
		time.Sleep(90 * time.Millisecond)
		leave()
		s.Saturate(true)
		time.Sleep(60 * time.Millisecond) // the first has left; the second asks, and will find no place
		time.AfterFunc(100*time.Millisecond, func() { s.Saturate(false) })
		if l := k.must("hot"); l.Grant().Tier != tierlock.Shared {
			t.Errorf("got %v", l)
		} else {
			_ = l.Unlock(t.Context())
		}
		if a, b := <-first, <-second; a != nil || b != nil {
			t.Errorf("got %v and %v", a, b)
		}
	})
}

// Whoever finds no place leaves the line as it is: when there is room again, those behind it
// are still one contender, and hand over to each other.
func TestALineOutlivesAFullWire(t *testing.T) {
	inCrowd(t, coalescing(), func(t *testing.T, k one, s *crowded) {
		const callers = 100
		s.Saturate(true)
		var crowdedOut atomic.Int64
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				l, err := k.Lock(t.Context(), "hot", gateway.WithWait(2*time.Second))
				if err != nil {
					if crowdedOut.Add(1); verdict(t, err).Reason != tierlock.ReasonSaturated {
						t.Error(err)
					}
				}
				time.Sleep(time.Millisecond)
				_ = l.Unlock(context.Background())
			})
		}
		time.Sleep(250 * time.Millisecond) // one has found no place, and the next looks for one
		s.Saturate(false)
		all.Wait()
		if n := s.Counts(); crowdedOut.Load() != 2 || n.Pass < callers*3/4 {
			t.Errorf("%d found no place; %+v", crowdedOut.Load(), n)
		}
	})
}

// Who finds no place within its budget is told so, and is never served locally.
func TestAFullWireWithoutAPlaceIsATimeout(t *testing.T) {
	inCrowd(t, coalescing(), func(t *testing.T, k one, s *crowded) {
		s.Saturate(true) // no connection is free
		var all sync.WaitGroup
		for n := range 200 {
			all.Go(func() {
				began, most := time.Now(), 200*time.Millisecond
				var l *gateway.Lock
				var err error
				if n%2 == 0 {
					l, err = k.TryLock(t.Context(), "hot")
				} else {
					l, err = k.Lock(t.Context(), "hot")
					most = 300 * time.Millisecond
				}
				if err == nil {
					t.Errorf("granted %v", l)
					return
				}
				if v := verdict(t, err); v.Outcome != tierlock.Timeout || v.Reason != tierlock.ReasonSaturated || v.Advice != tierlock.AdviseOptimistic || time.Since(began) > most {
					t.Errorf("%+v after %v", v, time.Since(began))
				}
			})
		}
		all.Wait()
		if most := s.mostOut(); most != 1 {
			t.Errorf("%d were out at once", most)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		go k.ask("hot")
		synctest.Wait()
		_, err := k.TryLock(ctx, "hot")
		if v := verdict(t, err); v.Reason != tierlock.ReasonCanceled {
			t.Errorf("whose ctx ended in line: %+v", v)
		}
		time.Sleep(time.Second)
	})
}

// The gate is there only while the wire is full, and only for the store: a store that is down
// is left as before, and one that is well is asked by everybody who does not wait.
func TestTheGateEndsWithTheFullWire(t *testing.T) {
	inCrowd(t, coalescing(), func(t *testing.T, k one, s *crowded) {
		x, err := k.Explain(t.Context(), keyOf(t, "hot"))
		if err != nil || x.Next.Admits != "one" || x.Next.Tier != tierlock.Shared || x.Next.Others == nil || x.Next.Others.Reason != tierlock.ReasonSaturated {
			t.Errorf("explained as %+v, %v", x.Next, err)
		}
		if text := x.Next.String(); !strings.Contains(text, "at a time") {
			t.Errorf("explained as %q", text)
		}
		if target := k.Status().Chains[0].Targets[0]; target.Tier != tierlock.Shared || target.Reason != tierlock.ReasonSaturated {
			t.Errorf("status: %+v", target)
		}
		s.full.Store(0)
		eventually(t, 5*time.Second, "normal", func() bool { return k.Status().Chains[0].Targets[0].State == degrade.Normal })
		s.mostOut()
		s.Slow(50 * time.Millisecond)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { k.ask("cold") })
		}
		all.Wait()
		if most := s.mostOut(); most != 10 {
			t.Errorf("%d were out at once on a free wire", most)
		}
		s.Slow(0)
		s.Down(true)
		if tier, v := k.ask("hot"); tier != tierlock.Local {
			t.Errorf("down: tier %v, %+v", tier, v)
		}
	})
}

// A store that goes down while callers are in line serves them locally at once, as it does
// those who wait for a holder.
func TestAGateInFrontOfADeadStoreOpens(t *testing.T) {
	p := coalescing()
	p.Local.Permits = 100
	inCrowd(t, p, func(t *testing.T, k one, s *crowded) {
		s.Down(true)
		var all sync.WaitGroup
		for n := range 100 {
			all.Go(func() {
				began, lock := time.Now(), k.TryLock
				if n%2 == 0 {
					lock = k.Lock
				}
				l, err := lock(t.Context(), "hot")
				if err != nil || l.Grant().Tier != tierlock.Local || time.Since(began) > 0 {
					t.Errorf("%v, %v after %v", l, err, time.Since(began))
				}
				_ = l.Unlock(context.Background())
			})
		}
		all.Wait()
	})
}

// Sets of locks meet the gate key by key, and wait for each other in no circle.
func TestLockAllMeetsTheGate(t *testing.T) {
	inCrowd(t, coalescing(), func(t *testing.T, k one, s *crowded) {
		s.Slow(time.Millisecond)
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() {
				ids := []string{"a", "b", "c"}
				if n%2 == 0 {
					ids = []string{"c", "b"}
				}
				locks, err := k.LockAll(t.Context(), ids, gateway.WithWait(2*time.Second))
				if err != nil {
					t.Errorf("caller %d: %v", n, err)
				}
				for _, g := range locks.Grants() {
					if g.Tier != tierlock.Shared {
						t.Errorf("caller %d: %+v", n, g)
					}
				}
				_ = locks.Unlock(context.Background())
			})
		}
		all.Wait()
		if most := s.mostOut(); most != 1 {
			t.Errorf("%d acquires of one key were out at once", most)
		}
	})
}

// The same request, asked twice at once, is one lock behind the gate too.
func TestTwinsAtTheGateGetOneLock(t *testing.T) {
	inCrowd(t, coalescing(), func(t *testing.T, k one, s *crowded) {
		s.Slow(20 * time.Millisecond)
		id := tierlock.NewRequestID()
		var got [2]*gateway.Lock
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() {
				l, err := k.TryLock(t.Context(), "hot", gateway.WithRequestID(id))
				if err != nil {
					t.Error(err)
				}
				got[i] = l
			})
		}
		all.Wait()
		if got[0] != got[1] {
			t.Errorf("got %p and %p", got[0], got[1])
		}
		_ = got[0].Unlock(t.Context())
	})
}

func keyOf(t *testing.T, id string) tierlock.Key {
	t.Helper()
	key, err := tierlock.ParseKey("biz:c:lock:" + id)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
