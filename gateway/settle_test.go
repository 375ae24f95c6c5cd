package gateway_test

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

func TestALostReplyIsSettled(t *testing.T) {
	var settled atomic.Int64
	bubble(t, strong(), func(t *testing.T, k one) {
		k.Store.DropReplies(1)
		if _, err := k.TryLock(t.Context(), "a"); !errors.Is(err, tierlock.ErrSystem) {
			t.Fatalf("got %v", err)
		}
		if k.Store.Keys() != 1 {
			t.Fatal("the acquire did not take effect: nothing to settle")
		}
		time.Sleep(300 * time.Millisecond) // past its not-after
		if k.Store.Keys() != 0 || k.Status().InDoubt != 0 {
			t.Errorf("%d keys, %d in doubt", k.Store.Keys(), k.Status().InDoubt)
		}
		if settled.Load() != 1 {
			t.Errorf("told %d times", settled.Load())
		}
	}, gateway.Hooks{Settled: func(i gateway.SettleInfo) {
		if i.Status == tierlock.Released {
			settled.Add(1)
		}
	}})
}

// Attempts that time out while the store hangs run when it thaws, or have run already; each
// is given back once the store can be reached, though the ttl is a minute.
func TestTimeoutsAreSettledOnceTheStoreAnswers(t *testing.T) {
	for name, broken := range map[string]func(k one){
		"hangs": func(k one) { k.Store.Hang(true) },
		"slow":  func(k one) { k.Store.Slow(400 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, strong(), func(t *testing.T, k one) {
				broken(k)
				var all sync.WaitGroup
				for i := range 40 {
					all.Go(func() { k.ask("k" + strconv.Itoa(i)) })
				}
				all.Wait()
				time.Sleep(4 * time.Second)
				k.Store.Mend()
				began := time.Now()
				eventually(t, 3*time.Second, "nothing in doubt", func() bool { return k.Status().InDoubt == 0 && k.Store.Keys() == 0 })
				t.Logf("settled %v after the store was back", time.Since(began))
			})
		})
	}
}

func TestReleasesAreNotSentInAHerd(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		var locks []*gateway.Lock
		for i := range 60 {
			locks = append(locks, k.must("k"+strconv.Itoa(i)))
		}
		k.takeDown()
		for _, l := range locks {
			if err := l.Unlock(t.Context()); !errors.Is(err, tierlock.ErrSystem) {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		if n := k.Store.Counts().Release; n != 0 {
			t.Errorf("%d releases sent to a store that is known to be down", n)
		}
		k.Store.Down(false)
		k.Store.Slow(50 * time.Millisecond)
		most := 0
		for range 200 {
			time.Sleep(10 * time.Millisecond)
			most = max(most, k.Status().Chains[0].Targets[0].Out)
		}
		if most > 2*16 { // 16 of those that were out when the store came back may be on top
			t.Errorf("%d releases at once, want at most 16 and 16", most)
		}
		if k.Store.Keys() != 0 {
			t.Errorf("%d keys left", k.Store.Keys())
		}
	})
}

// A store that answers quickly is soon asked for many at once, one that takes its time is not,
// also after it was quick.
func TestManyReleasesGoTogetherWhileTheStoreIsQuick(t *testing.T) {
	const all = 1000
	bubble(t, strong(), func(t *testing.T, k one) {
		settle := func(answers time.Duration) (most int, took time.Duration) {
			var locks []*gateway.Lock
			for i := range all {
				locks = append(locks, k.must("k"+strconv.Itoa(i)))
			}
			k.takeDown()
			for _, l := range locks {
				_ = l.Unlock(t.Context())
			}
			k.Store.Down(false)
			k.Store.Slow(answers)
			for n := k.Store.Keys(); n == k.Store.Keys(); time.Sleep(time.Millisecond / 4) { // until a probe has found it
			}
			began := time.Now()
			for end := began.Add(time.Minute); k.Status().InDoubt > 0 && time.Now().Before(end); time.Sleep(time.Millisecond / 4) {
				most = max(most, k.Status().Chains[0].Targets[0].Out)
			}
			took = time.Since(began)
			k.Store.Slow(0)
			time.Sleep(10 * time.Second) // it is normal again
			return most, took
		}
		// 16, 32, 64, 128 and 256: a thousand take a dozen rounds.
		if most, took := settle(time.Millisecond); most < 200 || most > 256 || took > 25*time.Millisecond {
			t.Errorf("quick: at most %d at once, all in %v", most, took)
		}
		if most, took := settle(40 * time.Millisecond); most > 2*16 || took < time.Second {
			t.Errorf("slow: at most %d at once, all in %v", most, took)
		}
	})
}

// The retry of a call that lost its reply gets the lock, and the ledger must not give it
// back under its holder.
func TestARetryTakesItsDoubtOver(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		id := tierlock.NewRequestID()
		k.Store.DropReplies(1)
		if _, err := k.TryLock(t.Context(), "a", gateway.WithRequestID(id)); err == nil {
			t.Fatal("the reply was not lost")
		}
		l := k.must("a", gateway.WithRequestID(id))
		if g := l.Grant(); !g.Replayed || g.Token == 0 {
			t.Errorf("grant %+v, want the first one replayed", g)
		}
		time.Sleep(5 * time.Second)
		if ok, err := l.IsHeld(t.Context()); !ok || err != nil {
			t.Errorf("held %v, %v: the ledger gave it back", ok, err)
		}
		if err := l.Unlock(t.Context()); err != nil || k.Store.Keys() != 0 {
			t.Errorf("unlock: %v, %d keys", err, k.Store.Keys())
		}
	})
}

func TestARetryThatFailsLeavesItsDoubtToTheLedger(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		id := tierlock.NewRequestID()
		k.Store.DropReplies(1)
		_, _ = k.TryLock(t.Context(), "a", gateway.WithRequestID(id))
		k.Store.Down(true)
		if _, err := k.TryLock(t.Context(), "a", gateway.WithRequestID(id)); err == nil {
			t.Fatal("want an error")
		}
		if n := k.Status().InDoubt; n != 1 {
			t.Fatalf("%d in doubt, want 1", n)
		}
		k.Store.Down(false)
		eventually(t, 3*time.Second, "settled", func() bool { return k.Store.Keys() == 0 && k.Status().InDoubt == 0 })
	})
}

// Two calls of one request in doubt: a Release sent before the later one's not-after would
// say nothing of it.
func TestTheLaterDoubtCounts(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		id := tierlock.NewRequestID()
		k.Store.DropReplies(2)
		_, _ = k.TryLock(t.Context(), "a", gateway.WithRequestID(id))
		time.Sleep(100 * time.Millisecond)
		_, _ = k.TryLock(t.Context(), "a", gateway.WithRequestID(id))
		time.Sleep(190 * time.Millisecond)
		if n := k.Store.Counts().Release; n != 0 || k.Status().InDoubt != 1 {
			t.Errorf("%d releases before the second not-after, %d in doubt", n, k.Status().InDoubt)
		}
		eventually(t, time.Second, "settled", func() bool { return k.Store.Keys() == 0 && k.Status().InDoubt == 0 })
	})
}

func TestDoubtEndsWithTheTTL(t *testing.T) {
	p := strong()
	p.TTL = 5 * time.Second
	bubble(t, p, func(t *testing.T, k one) {
		k.Store.DropReplies(1)
		k.ask("a")
		k.Store.Down(true)
		time.Sleep(10 * time.Second)
		if n := k.Status().InDoubt; n != 0 {
			t.Errorf("%d in doubt after the ttl", n)
		}
	})
}

// A shared grant that arrives after the step down is released, never used, and the request
// is served where the chain stands by then.
func TestAGrantAfterTheStepDownIsNotUsed(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		k.Store.Slow(100 * time.Millisecond)
		go func() {
			time.Sleep(50 * time.Millisecond) // the grant is on its way back
			k.Force("c", tierlock.ModeBypass)
		}()
		l := k.must("a")
		if tier := l.Grant().Tier; tier != tierlock.Bypass {
			t.Errorf("tier %v, want bypass", tier)
		}
		eventually(t, time.Second, "the late grant given back", func() bool { return k.Store.Keys() == 0 })
		_ = l.Unlock(t.Context())
	})
}

// A retry that comes while the ledger's own release is on the wire waits for its answer, so
// that the release cannot hit the retry's lock.
func TestARetryWaitsForTheReleaseUnderWay(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		id := tierlock.NewRequestID()
		k.Store.DropReplies(1)
		_, _ = k.TryLock(t.Context(), "a", gateway.WithRequestID(id))
		k.Store.Slow(60 * time.Millisecond)
		time.Sleep(210 * time.Millisecond) // its release went out at 200 ms, and is answered at 260 ms
		began := time.Now()
		l := k.must("a", gateway.WithRequestID(id))
		if took := time.Since(began); took < 100*time.Millisecond {
			t.Errorf("granted after %v: it did not wait", took)
		}
		time.Sleep(5 * time.Second)
		if ok, err := l.IsHeld(t.Context()); !ok || err != nil {
			t.Errorf("held %v, %v", ok, err)
		}
		_ = l.Unlock(t.Context())
	})
}
