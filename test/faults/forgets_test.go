package faults

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
)

func restartedEmpty(t *testing.T) {
	const holdOff = 3 * time.Second
	s := newSite(t, setup{})
	careful := s.another(setup{policy: func(p *gateway.Policy) { p.LockDelay = holdOff }})
	s.eventually(2*holdOff, "a server that is old enough serves the careful", func() bool { return served(careful.orders) })
	door := newResource(t, "a")
	before := s.must(s.orders, "a")
	work := before.Context(t.Context())
	s.server.Kill()
	s.server.Restart()
	back := time.Now()
	waited := make(chan time.Duration, 1)
	go func() { // who asked for it is granted nothing before the locks of before have ended
		for !served(careful.orders) && time.Since(back) < 5*holdOff {
			wait(20 * time.Millisecond)
		}
		waited <- time.Since(back)
	}()
	s.serves()
	after := s.must(s.orders, "a")
	door.twoHolders(before, after)
	if err := before.Renew(t.Context(), ttl); !errors.Is(err, tierlock.ErrLost) {
		t.Errorf("renewal of the lost lock: %v", err)
	}
	s.lost(work, time.Second)
	for _, l := range []*gateway.Lock{before, after} { // reconcile finds the overlap in these
		if len(s.trail.Of(l.Grant().RequestID)) == 0 {
			t.Error("a grant is not in the trail")
		}
	}
	if err := after.Unlock(t.Context()); err != nil {
		t.Errorf("unlock of the later one: %v", err)
	}
	if took := <-waited; took < holdOff*9/10 || took >= 5*holdOff {
		t.Errorf("the careful was granted %v after the restart, want %v", took, holdOff)
	}
}

// replica starts a server that replicates s's, over a way of its own, and waits until it
// has all.
func (s *site) replica() (*servers.RedisServer, *way.Way) {
	s.Helper()
	link, err := way.To(s.server.Addr())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(link.Close)
	host, port, _ := strings.Cut(link.Addr(), ":")
	r := servers.Redis(s.T, "--replicaof", host, port, "--repl-diskless-sync-delay", "0")
	s.caughtUp(r)
	return r, link
}

// caughtUp waits until the replica has what its master has now.
func (s *site) caughtUp(r *servers.RedisServer) {
	s.Helper()
	mark := "mark:" + tierlock.NewRequestID().Fingerprint()
	s.do("config", "set", "repl-diskless-sync-delay", "0")
	s.do("set", mark, "1")
	there := client(s.T, r.Addr())
	s.eventually(20*time.Second, "the replica has caught up", func() bool { return there.Exists(s.Context(), mark).Val() == 1 })
}

// promote ends the master and has the address lead to the replica, as a failover does.
func (s *site) promote(r *servers.RedisServer) {
	s.Helper()
	s.server.Kill()
	if err := client(s.T, r.Addr()).Do(s.Context(), "replicaof", "no", "one").Err(); err != nil {
		s.Fatal(err)
	}
	s.way.Lead(r.Addr())
	s.serves()
}

func failoverLosesTheLock(t *testing.T) {
	s := newSite(t, setup{})
	door := newResource(t, "a")
	replica, link := s.replica()
	link.Become(way.BlackHole) // replication is asynchronous: what comes now is not there
	before := s.must(s.orders, "a")
	s.promote(replica)
	door.twoHolders(before, s.must(s.orders, "a"))
}

func acknowledgedLockIsLost(t *testing.T) {
	s := newSite(t, setup{})
	door := newResource(t, "a")
	fresh, _ := s.replica()
	stale, link := s.replica()
	link.Become(way.BlackHole)
	before := s.must(s.orders, "a")
	s.caughtUp(fresh) // WAIT 1 would say so of the lock
	if n := client(t, fresh.Addr()).Exists(t.Context(), "biz:order:lock:a").Val(); n != 1 {
		t.Fatal("the fresh replica has not the lock")
	}
	s.promote(stale)
	door.twoHolders(before, s.must(s.orders, "a"))
}

func evicted(t *testing.T) {
	s := newSite(t, setup{})
	l := s.must(s.orders, "a")
	work := l.Context(t.Context())
	s.do("config", "set", "maxmemory-policy", "allkeys-random", "maxmemory", "3mb")
	doctor(t, s.at(), "fail eviction:", "allkeys-random")
	filler := strings.Repeat("x", 4096)
	for i := 0; s.boss.Exists(t.Context(), "biz:order:lock:a").Val() == 1; i++ {
		if i > 50_000 {
			t.Fatal("the lock was not evicted")
		}
		s.boss.Set(t.Context(), "filler:"+strconv.Itoa(i), filler, 0)
	}
	if err := l.Renew(t.Context(), ttl); !errors.Is(err, tierlock.ErrLost) {
		t.Errorf("renew: %v", err)
	}
	s.lost(work, time.Second)
}

func clockStepsForward(t *testing.T) {
	clock := underShim(t)
	s := newSite(t, setup{})
	other := s.another(setup{})
	s.eventually(5*time.Second, "the other is served", func() bool { return served(other.orders) })
	door := newResource(t, "a")
	before := s.must(s.orders, "a", gateway.WithTTL(30*time.Second))
	work := before.Context(t.Context())
	clock.tell(time.Minute, 0)
	a := ask(other.orders, "a")
	if a.err != nil {
		t.Fatalf("after the step: %v", a)
	}
	door.twoHolders(before, a.lock)
	if err := before.Renew(t.Context(), ttl); !errors.Is(err, tierlock.ErrLost) {
		t.Errorf("renewal after the step: %v", err)
	}
	s.lost(work, time.Second)
	if !other.log.contains("stepped") && !s.log.contains("stepped") {
		t.Error("nobody was told that the clock was stepped")
	}
}

func clockStepsBack(t *testing.T) {
	clock := underShim(t)
	s := newSite(t, setup{})
	other := s.another(setup{})
	s.eventually(5*time.Second, "the other is served", func() bool { return served(other.orders) })
	door := newResource(t, "a")
	before := s.must(s.orders, "a", gateway.WithoutRenew())
	token := before.Grant().Token
	if err := door.enter(token); err != nil {
		t.Fatal(err)
	}
	clock.tell(-time.Hour, 0)
	a := ask(other.orders, "a")
	s.is(a, tierlock.ErrHeld)
	if e, ok := errors.AsType[*tierlock.Error](a.err); !ok || e.Remaining < 59*time.Minute {
		t.Errorf("the store says that it is held for %v more, want the hour too", e.Remaining)
	}
	doctor(t, s.at(), "fail keys:", "biz:order:lock:a", "is held for another 1h")
	// The holder has gone, and an operator frees the key by hand.
	s.do("del", "biz:order:lock:a")
	after := s.must(other.orders, "a")
	if after.Grant().Token <= token {
		t.Errorf("token %d after %d: the clock went back, and so did the tokens", after.Grant().Token, token)
	}
	if err := door.enter(after.Grant().Token); err != nil {
		t.Errorf("the new holder is refused: %v", err)
	}
	if err := door.enter(token); !errors.Is(err, guard.ErrStale) {
		t.Errorf("the old holder enters: %v", err)
	}
}

func replicaClockAhead(t *testing.T) {
	s := newSite(t, setup{})
	clock := underShim(t)
	clock.tell(2*time.Minute, 0)
	replica, _ := s.replica()
	clock.over()
	door := newResource(t, "a")
	before := s.must(s.orders, "a")
	s.caughtUp(replica)
	s.promote(replica)
	door.twoHolders(before, s.must(s.orders, "a"))
}
