package faults

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/way"
)

// family is a Redis, a resource, and processes that want one lock of it.
type family struct {
	*site
	shop string
}

func newFamily(t *testing.T) *family {
	t.Helper()
	door := newResource(t, "a")
	var path string
	if err := door.db.QueryRow(`SELECT file FROM pragma_database_list`).Scan(&path); err != nil {
		t.Fatal(err)
	}
	return &family{newSite(t, setup{}), path}
}

func (f *family) child() *process {
	f.Helper()
	return startChild(f.T, job{f.server.Addr(), filepath.Clean(f.shop)})
}

func stoppedBeyondItsLock(t *testing.T) {
	f := newFamily(t)
	a, b := f.child(), f.child()
	if r := a.tell(order{Do: "lock", ID: "a", TTL: time.Second, Keep: true}); r.Err != "" {
		t.Fatal(r.Text)
	}
	if r := a.tell(order{Do: "enter"}); r.Err != "" {
		t.Fatal(r.Text)
	}
	a.halt()
	wait(2 * time.Second)
	var r reply
	f.eventually(3*time.Second, "another is granted the lock", func() bool {
		r = b.tell(order{Do: "lock", ID: "a", TTL: 10 * time.Second})
		return r.Err == ""
	})
	if r := b.tell(order{Do: "enter"}); r.Err != "" {
		t.Errorf("the new holder enters: %s", r.Text)
	}
	a.resume()
	if r := a.tell(order{Do: "renew", TTL: time.Second}); r.Err != "lost" {
		t.Errorf("the first call after waking: %q %s, want lost", r.Err, r.Text)
	}
	if r := a.tell(order{Do: "enter"}); r.Err != "stale" || !r.Ended {
		t.Errorf("enter: %q %s, context ended %t; want stale and ended", r.Err, r.Text, r.Ended)
	}
	if r := a.tell(order{Do: "unlock"}); r.Err != "lost" {
		t.Errorf("unlock: %q", r.Err)
	}
	if r := b.tell(order{Do: "renew", TTL: 10 * time.Second}); r.Err != "" {
		t.Errorf("the new holder's renewal: %s", r.Text)
	}
}

// A holder that hardly gets to run renews late or not at all. Nobody else may hold before
// it had to stop.
func starved(t *testing.T) {
	f := newFamily(t)
	holder := f.child()
	if r := holder.tell(order{Do: "lock", ID: "a", TTL: time.Second, Keep: true}); r.Err != "" {
		t.Fatal(r.Text)
	}
	first, worse := 300*time.Millisecond, 150*time.Millisecond // it does not run for so long, and each time longer
	if soak() {
		first, worse = 100*time.Millisecond, 60*time.Millisecond
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				holder.resume()
				return
			default:
			}
			holder.halt()
			wait(first + time.Duration(i)*worse)
			holder.resume()
			wait(5 * time.Millisecond)
		}
	})
	var granted time.Time
	asked := 0
	f.eventually(60*time.Second, "another is granted the lock", func() bool {
		asked++
		a := ask(f.orders, "a")
		granted = time.Now()
		return a.err == nil
	})
	close(stop)
	all.Wait()
	told := time.Now()
	// Expires is counted from some time after told.
	if end := told.Add(holder.tell(order{Do: "state"}).Expires); end.After(granted) {
		t.Errorf("granted %v before the starved holder had to stop", end.Sub(granted))
	}
	if asked < 10 {
		t.Errorf("granted after %d asks: the holder was never put to the proof", asked)
	}
	f.eventually(time.Second, "the holder's context has ended", func() bool { return holder.tell(order{Do: "state"}).Ended })
	f.eventually(5*time.Second, "the loss is told", func() bool { return holder.tell(order{Do: "state"}).Failed > 0 })
}

func killedHolder(t *testing.T) {
	f := newFamily(t)
	const ttl = 2 * time.Second
	holder := f.child()
	began := time.Now()
	if r := holder.tell(order{Do: "lock", ID: "a", TTL: ttl, Keep: true}); r.Err != "" {
		t.Fatal(r.Text)
	}
	holder.kill()
	again := f.child() // restarted: it must not take the lock of its former life for its own
	if r := again.tell(order{Do: "lock", ID: "a", TTL: ttl}); r.Err != "held" {
		t.Errorf("restarted, before the ttl: %q %s", r.Err, r.Text)
	}
	f.eventually(ttl+2*time.Second, "the key is free", func() bool { return again.tell(order{Do: "lock", ID: "a", TTL: ttl}).Err == "" })
	if took := time.Since(began); took < ttl {
		t.Errorf("free after %v, before its ttl", took)
	}
}

// A process that can open no file any more cannot make connections. It says so, in time,
// and is served as soon as it can again.
func noFilesLeft(t *testing.T) {
	f := newFamily(t)
	c := f.child()
	if r := c.tell(order{Do: "files", Files: 0}); r.Err != "" {
		t.Fatal(r.Text)
	}
	for range 3 {
		r := c.tell(order{Do: "lock", ID: "a", TTL: ttl})
		if r.Err != "timeout" || !strings.Contains(r.Text, "too many open files") || r.Took > inTime {
			t.Errorf("strong: %q after %v: %s", r.Err, r.Took, r.Text)
		}
		if r := c.tell(order{Do: "lock", ID: "a", TTL: ttl, Weak: true}); r.Err != "timeout" || !strings.Contains(r.Text, "optimistic") {
			t.Errorf("weak: %q %s", r.Err, r.Text)
		}
	}
	// Where no connection can be made for long, the weak chain's local lock needs none.
	f.eventually(5*time.Second, "the weak chain is local", func() bool {
		return c.tell(order{Do: "lock", ID: "local", TTL: ttl, Weak: true}).Tier == "local"
	})
	if r := c.tell(order{Do: "unlock"}); r.Err != "" {
		t.Errorf("unlock of the local lock: %s", r.Text)
	}
	if r := c.tell(order{Do: "lock", ID: "a", TTL: ttl}); r.Err != "timeout" && r.Err != "system" || r.Took > inTime {
		t.Errorf("strong, when it has lasted: %q after %v: %s", r.Err, r.Took, r.Text)
	}
	// And who has connections goes on with them.
	connected := f.child()
	for _, o := range []order{
		{Do: "lock", ID: "b", TTL: ttl},
		{Do: "renew", TTL: ttl},
		{Do: "unlock"},
		{Do: "files", Files: 0},
		{Do: "lock", ID: "b", TTL: ttl},
		{Do: "renew", TTL: ttl},
		{Do: "unlock"},
	} {
		if r := connected.tell(o); r.Err != "" {
			t.Errorf("with connections that stand, %s: %s", o.Do, r.Text)
		}
	}
	c.tell(order{Do: "files", Files: 1024})
	f.eventually(5*time.Second, "it is served", func() bool { return c.tell(order{Do: "lock", ID: "a", TTL: ttl}).Err == "" })
	if r := c.tell(order{Do: "unlock"}); r.Err != "" {
		t.Errorf("unlock: %s", r.Text)
	}
	f.nothingIsLeft()
}

// Locks are given back at the moment at which they are renewed, over a way that delays
// both. No renewal may be told of a lock that was given back, and no key may come back.
func renewalMeetsUnlock(t *testing.T) {
	var mu sync.Mutex
	gone := map[tierlock.RequestID]bool{}
	var after, renewed atomic.Int64
	s := newSite(t, setup{
		policy: func(p *gateway.Policy) { p.RenewEvery = p.Attempt },
		hooks: gateway.Hooks{
			Released: func(i gateway.ReleaseInfo) { mu.Lock(); gone[i.Grant.RequestID] = true; mu.Unlock() },
			Renewed: func(i gateway.RenewInfo) {
				renewed.Add(1)
				mu.Lock()
				defer mu.Unlock()
				if i.Err == nil && gone[i.Grant.RequestID] {
					after.Add(1)
				}
			},
		},
	})
	s.way.Delay(20 * time.Millisecond)
	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			for i := range 4 {
				a := ask(s.orders, strconv.Itoa(n), gateway.WithTTL(2*time.Second))
				if a.err != nil {
					continue
				}
				wait(attempt + time.Duration((n*7+i*11)%90-25)*time.Millisecond)
				_ = a.lock.Unlock(t.Context())
			}
		})
	}
	all.Wait()
	s.way.Become(way.None)
	if after.Load() > 0 || renewed.Load() == 0 {
		t.Errorf("%d of %d renewals were told after the end of their lock", after.Load(), renewed.Load())
	}
	s.nothingIsLeft()
}

func unlockedTwice(t *testing.T) {
	s := newSite(t, setup{})
	l := s.must(s.orders, "a")
	done := make(chan error)
	go func() { done <- l.Unlock(context.Background()) }() // a lock belongs to whoever has it
	if err := <-done; err != nil {
		t.Errorf("unlock from another goroutine: %v", err)
	}
	other := s.must(s.orders, "a")
	if err := l.Unlock(t.Context()); err != nil {
		t.Errorf("second unlock: %v", err)
	}
	if held, err := l.IsHeld(t.Context()); held || err != nil {
		t.Errorf("held %v, %v", held, err)
	}
	if err := l.Renew(t.Context(), ttl); !errors.Is(err, tierlock.ErrLost) {
		t.Errorf("renew: %v", err)
	}
	if held, err := other.IsHeld(t.Context()); !held || err != nil {
		t.Errorf("the other owner: held %v, %v", held, err)
	}
	_ = other.Unlock(t.Context())
	s.nothingIsLeft()
}

func lockedAgainAfterALoss(t *testing.T) {
	s := newSite(t, setup{})
	entries := func(want int, l *gateway.Lock) {
		t.Helper()
		g := l.Grant()
		found, err := s.store.Lookup(t.Context(), tierlock.Hold{Key: g.Key, ID: g.RequestID, TTL: ttl})
		if err != nil || found.Status != tierlock.Mine || found.Depth != want {
			t.Errorf("%v, %d entries, %v; want mine with %d", found.Status, found.Depth, err, want)
		}
	}
	first := s.must(s.orders, "a")
	work := first.Context(t.Context())
	entered := s.must(s.orders, "a", gateway.Reenter(first.Grant().RequestID))
	entries(2, first)
	s.do("del", "biz:order:lock:a") // the record of the entries stays
	second := s.must(s.orders, "a")
	entries(1, second)
	if a, b := first.Grant(), second.Grant(); b.Token <= a.Token || b.RequestID == a.RequestID {
		t.Errorf("token %d after %d", b.Token, a.Token)
	}
	if err := first.Renew(t.Context(), ttl); !errors.Is(err, tierlock.ErrLost) {
		t.Errorf("renewal of the lost one: %v", err)
	}
	s.lost(work, time.Second)
	_ = entered.Unlock(t.Context())
	_ = first.Unlock(t.Context())
	// The count starts at one again, in the store too.
	again := s.must(s.orders, "a", gateway.Reenter(second.Grant().RequestID))
	entries(2, second)
	if err := again.Unlock(t.Context()); err != nil {
		t.Errorf("unlock of the entry: %v", err)
	}
	entries(1, second)
	// One who has not heard of his loss gives back what is another's by now.
	unaware := s.must(s.orders, "b")
	s.do("del", "biz:order:lock:b")
	next := s.must(s.orders, "b")
	if err := unaware.Unlock(t.Context()); !errors.Is(err, tierlock.ErrLost) {
		t.Errorf("unlock by the unaware: %v", err)
	}
	if held, err := next.IsHeld(t.Context()); !held || err != nil {
		t.Errorf("the next: held %v, %v", held, err)
	}
	_ = next.Unlock(t.Context())
	if held, err := second.IsHeld(t.Context()); !held || err != nil {
		t.Errorf("the second: held %v, %v", held, err)
	}
	if err := second.Unlock(t.Context()); err != nil {
		t.Errorf("unlock: %v", err)
	}
	s.nothingIsLeft()
}

// A process whose wall clock is an hour off its server's: leases are spans, so nothing of
// them changes, and what comes too late is still refused.
func clockIsOff(t *testing.T) {
	clock := underShim(t)
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		clock.tell(off, 0)
		s := newSite(t, setup{})
		l := s.must(s.orders, "a")
		left := s.boss.PTTL(t.Context(), "biz:order:lock:a").Val()
		if until := time.Until(l.Grant().ExpiresAt); left > ttl || left < ttl-5*time.Second || until > left || until < ttl-6*time.Second {
			t.Errorf("%v off: %v left in the store, %v in hand", off, left, until)
		}
		s.is(ask(s.orders, "a"), tierlock.ErrHeld)
		if err := l.Unlock(t.Context()); err != nil {
			t.Errorf("%v off: unlock: %v", off, err)
		}
		s.way.Become(way.HoldBack)
		s.is(ask(s.orders, "late"), tierlock.ErrTimeout)
		wait(300 * time.Millisecond)
		s.way.Become(way.None)
		s.serves()
		s.nothingIsLeft()
	}
}
