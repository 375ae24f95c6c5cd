package gateway_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
)

func TestWatchdogRenewsWhileHeld(t *testing.T) {
	p := strong()
	p.TTL = 15 * time.Second
	bubble(t, p, func(t *testing.T, k one) {
		kept, left := k.must("kept"), k.must("left", gateway.WithoutRenew())
		ctx := kept.Context(t.Context())
		time.Sleep(2 * time.Minute)
		if ok, err := kept.IsHeld(t.Context()); !ok || err != nil || ctx.Err() != nil {
			t.Errorf("kept: held %v, %v, ctx %v", ok, err, ctx.Err())
		}
		if ok, _ := left.IsHeld(t.Context()); ok {
			t.Error("the lock without renewal is still held")
		}
		if n := k.Store.Counts().Renew; n < 20 || n > 32 {
			t.Errorf("%d renewals in two minutes at a third of 15 s", n)
		}
		if err := kept.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		before := k.Store.Counts().Renew
		time.Sleep(time.Minute)
		if after := k.Store.Counts().Renew; after != before {
			t.Errorf("renewed %d times after Unlock", after-before)
		}
	})
}

// Locks that come and go one at a time find the watchdog with nothing to do. It is woken for
// the first of them, not for each, and sleeps for good once they stay away.
func TestWatchdogIsNotWokenForEachShortLock(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		pair := func() {
			_ = k.must("a").Unlock(t.Context())
			synctest.Wait()
		}
		synctest.Wait() // it sleeps
		pair()
		looks := k.WatchdogLooks() // in 250 ms; or, if it was quick enough to see the lock, when that was to be renewed
		woken := 0
		for range 40 {
			time.Sleep(time.Millisecond)
			pair()
			if now := k.WatchdogLooks(); !now.Equal(looks) {
				looks, woken = now, woken+1
			}
		}
		// Where it always sees the lock, each that is to be renewed before all others wakes it,
		// by the jitter about four of forty. For each it would be forty.
		if woken > 15 {
			t.Errorf("it was woken %d times for 40 locks", woken)
		}
		time.Sleep(time.Until(looks) + time.Second)
		if in := time.Until(k.WatchdogLooks()); in < time.Minute {
			t.Errorf("with no lock at its last look it looks again in %v", in)
		}
	})
}

func TestWatchdogFindsALostLock(t *testing.T) {
	var hook heard[gateway.LostInfo]
	p := strong()
	p.TTL = 15 * time.Second
	bubble(t, p, func(t *testing.T, k one) {
		l := k.must("a")
		ctx := l.Context(t.Context())
		k.Store.Lose("biz:c:lock:a")
		began := time.Now()
		<-ctx.Done()
		if took := time.Since(began); took > 5500*time.Millisecond {
			t.Errorf("noticed after %v, want by the next renewal", took)
		}
		if !errors.Is(context.Cause(ctx), tierlock.ErrLost) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		synctest.Wait()
		evs := k.Audit.Of(l.Grant().RequestID)
		if len(evs) != 2 || evs[1].How != audit.Lost {
			t.Errorf("events %+v", evs)
		}
		if lost := hook.told(); len(lost) != 1 || lost[0].Grant.Key != l.Grant().Key {
			t.Errorf("hooks heard %+v", lost)
		}
		other := k.must("a")
		if err := l.Unlock(t.Context()); !errors.Is(err, tierlock.ErrLost) {
			t.Errorf("unlock: %v, want ErrLost", err)
		}
		if ok, _ := other.IsHeld(t.Context()); !ok {
			t.Error("the loser's unlock took the next holder's lock")
		}
		_ = other.Unlock(t.Context())
	}, gateway.Hooks{Lost: hook.hear})
}

// A store that needs longer than an attempt for a renewal, but far less than the lease lasts,
// keeps its locks; one that needs longer than the lease does not.
func TestASlowRenewalLosesNoLock(t *testing.T) {
	for answer, kept := range map[time.Duration]bool{300 * time.Millisecond: true, 1700 * time.Millisecond: true, 15 * time.Second: false} {
		t.Run(answer.String(), func(t *testing.T) {
			p := strong()
			p.TTL = 15 * time.Second
			bubble(t, p, func(t *testing.T, k one) {
				l := k.must("a")
				ctx := l.Context(t.Context())
				k.Store.Slow(answer)
				time.Sleep(2 * time.Minute)
				if (ctx.Err() == nil) != kept {
					t.Errorf("answers after %v, the lock is kept: %t, want %t", answer, ctx.Err() == nil, kept)
				}
				k.Store.Slow(0)
				_ = l.Unlock(t.Context())
			})
		})
	}
}

// renewalsOut is how many renewals the watchdogs have under way.
func renewalsOut() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "gateway.(*watchdog).renewAll(")
}

// A renewal that waits long for its answer, since its locks can bear it, keeps no other lock of
// its chain waiting that cannot.
func TestALongRenewalStarvesNoShortLock(t *testing.T) {
	p := strong()
	p.TTL = 15 * time.Second
	bubble(t, p, func(t *testing.T, k one) {
		long := k.must("long")
		kept := long.Context(t.Context())
		k.Store.Hang(true)
		time.Sleep(9800 * time.Millisecond) // tries of 0.2, 0.6 and 1.8 s have passed, one of 2.8 s is out
		k.Store.Hang(false)
		var short *gateway.Lock
		eventually(t, 2*time.Second, "the store is asked again", func() (served bool) {
			l, err := k.TryLock(t.Context(), "short", gateway.WithTTL(time.Second))
			short = l
			return err == nil
		})
		if n := renewalsOut(); n != 1 {
			t.Fatalf("%d renewals are out: the test proves nothing", n)
		}
		ctx := short.Context(t.Context())
		time.Sleep(time.Minute)
		if ctx.Err() != nil {
			t.Errorf("the short lock is lost, though the store answers: %v", context.Cause(ctx))
		}
		if kept.Err() != nil {
			t.Errorf("the long one is lost: %v", context.Cause(kept))
		}
		_, _ = short.Unlock(t.Context()), long.Unlock(t.Context())
	})
}

// A store that hangs under locks of many lengths gets a bounded number of renewals at once.
func TestRenewalsBesideALongOneAreBounded(t *testing.T) {
	p := strong()
	p.TTL = 15 * time.Second
	bubble(t, p, func(t *testing.T, k one) {
		for i := range 60 {
			k.must(strconv.Itoa(i), gateway.WithTTL(15*time.Second-time.Duration(i)*230*time.Millisecond))
		}
		k.Store.Hang(true)
		most := 0
		for range 300 {
			time.Sleep(50 * time.Millisecond)
			most = max(most, renewalsOut())
		}
		k.Store.Hang(false)
		if most < 2 || most > 4 {
			t.Errorf("%d renewals at once, want more than one and at most 4", most)
		}
	})
}

// A store that always needs longer than an attempt, and more locks than one Renew carries: an
// answer is no reason to grant the next renewal so little time that it fails.
func TestASlowStoreAnswersEveryRenewal(t *testing.T) {
	p := strong()
	p.TTL = 15 * time.Second
	var hook heard[gateway.RenewInfo]
	bubble(t, p, func(t *testing.T, k one) {
		const all = 1200
		for i := range all {
			k.must("held" + strconv.Itoa(i))
		}
		k.Store.Slow(300 * time.Millisecond)
		time.Sleep(20 * time.Second) // it has met it
		known := len(hook.told())
		time.Sleep(20 * time.Second)
		failed := 0
		after := hook.told()[known:]
		for _, one := range after {
			if one.Err != nil {
				failed++
			}
		}
		if failed > 0 || len(after) < 3*all {
			t.Errorf("%d of %d renewals have failed", failed, len(after))
		}
		k.Store.Slow(0)
	}, gateway.Hooks{Renewed: hook.hear})
}

func TestWatchdogSurvivesAShortOutage(t *testing.T) {
	p := strong()
	p.TTL = 15 * time.Second
	bubble(t, p, func(t *testing.T, k one) {
		l := k.must("a")
		ctx := l.Context(t.Context())
		time.Sleep(4 * time.Second)
		k.Store.Down(true)
		time.Sleep(8 * time.Second) // past one renewal
		k.Store.Down(false)
		time.Sleep(20 * time.Second)
		if ctx.Err() != nil {
			t.Errorf("lost though the store was back inside the lease: %v", context.Cause(ctx))
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestMaxHoldEndsTheHandleButNotTheKey(t *testing.T) {
	p := strong()
	p.TTL, p.MaxHold = 15*time.Second, time.Minute
	bubble(t, p, func(t *testing.T, k one) {
		l := k.must("a")
		ctx := l.Context(t.Context())
		<-ctx.Done()
		synctest.Wait() // contexts end first, the trail hears of it next
		if took := time.Since(l.Grant().AcquiredAt); took < p.MaxHold || took > p.MaxHold+50*time.Millisecond {
			t.Errorf("ended after %v", took)
		}
		if !errors.Is(context.Cause(ctx), tierlock.ErrLost) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		if k.Store.Keys() != 1 {
			t.Error("the key was freed while the work may still be winding up")
		}
		if _, v := k.ask("a"); v.Outcome != tierlock.Failure {
			t.Errorf("another got the key: %+v", v)
		}
		if err := l.Unlock(t.Context()); !errors.Is(err, tierlock.ErrLost) {
			t.Errorf("unlock: %v", err)
		}
		if k.Store.Keys() != 0 {
			t.Error("the unlock left the key")
		}
		if evs := k.Audit.Of(l.Grant().RequestID); len(evs) != 2 || evs[1].How != audit.Forced {
			t.Errorf("events %+v", evs)
		}
	})
}

func TestAnAbandonedLockIsNotRenewed(t *testing.T) {
	p := strong()
	p.TTL = 15 * time.Second
	bubble(t, p, func(t *testing.T, k one) {
		ctx, cancel := context.WithCancel(t.Context())
		l, err := k.TryLock(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		cancel()
		time.Sleep(30 * time.Second)
		if k.Store.Keys() != 0 || k.Status().Chains[0].Live != 0 {
			t.Errorf("%d keys, %d live locks", k.Store.Keys(), k.Status().Chains[0].Live)
		}
		evs := k.Audit.Of(l.Grant().RequestID)
		if len(evs) != 2 || evs[1].How != audit.Expired || !evs[1].EndedAt.Equal(l.Grant().ExpiresAt) {
			t.Errorf("events %+v, want an end at ExpiresAt", evs)
		}
	})
}

func TestTenThousandLocksCostNoGoroutines(t *testing.T) {
	p := strong()
	p.TTL = 15 * time.Second
	bubble(t, p, func(t *testing.T, k one) {
		before := runtime.NumGoroutine()
		locks := make([]*gateway.Lock, 10_000)
		for i := range locks {
			locks[i] = k.must("held" + strconv.Itoa(i))
			locks[i].Context(t.Context())
		}
		most := 0
		for range 300 {
			time.Sleep(100 * time.Millisecond)
			most = max(most, runtime.NumGoroutine()-before)
		}
		if most >= 10 {
			t.Errorf("%d goroutines more", most)
		}
		if n := k.Store.Keys(); n != len(locks) {
			t.Errorf("%d of %d still held after two ttls", n, len(locks))
		}
		if n := k.Store.Counts().Renew; n > 10_000 {
			t.Errorf("%d Renew calls: not batched", n)
		}
		for _, l := range locks {
			_ = l.Unlock(t.Context())
		}
		if n := k.Store.Keys(); n != 0 {
			t.Errorf("%d keys left", n)
		}
	})
}
