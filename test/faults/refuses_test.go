package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
)

func outOfMemory(t *testing.T) {
	s := newSite(t, setup{server: []string{"--maxmemory-policy", "noeviction"}})
	l := s.must(s.orders, "a")
	s.do("config", "set", "maxmemory", "1")
	s.is(ask(s.orders, "b"), tierlock.ErrSystem, tierlock.ReasonDenied)
	if err := l.Renew(t.Context(), 2*ttl); err != nil {
		t.Errorf("renew: %v", err)
	}
	if err := l.Unlock(t.Context()); err != nil {
		t.Errorf("unlock: %v", err)
	}
	s.do("config", "set", "maxmemory", "0")
	s.serves()
	s.nothingIsLeft()
}

func readOnly(t *testing.T) {
	s := newSite(t, setup{})
	host, port, _ := strings.Cut(servers.Redis(t).Addr(), ":")
	s.do("replicaof", host, port)
	a := ask(s.orders, "a")
	s.is(a, tierlock.ErrSystem, tierlock.ReasonDenied, tierlock.ReasonDown)
	if errors.Is(a.err, tierlock.ErrHeld) {
		t.Error("a demoted master was taken for a holder")
	}
	s.do("replicaof", "no", "one")
	s.serves()
	s.nothingIsLeft()
}

func tooFewReplicas(t *testing.T) {
	s := newSite(t, setup{})
	s.refusesWrites(
		func() { s.do("config", "set", "min-replicas-to-write", "1") },
		func() { s.do("config", "set", "min-replicas-to-write", "0") },
	)
}

func snapshotsFail(t *testing.T) {
	s := newSite(t, setup{server: []string{"--save", "3600 1", "--dbfilename", "dump.rdb"}})
	dir := s.boss.ConfigGet(t.Context(), "dir").Val()["dir"]
	s.refusesWrites(func() {
		if err := os.Mkdir(filepath.Join(dir, "dump.rdb"), 0o700); err != nil { // no file can take its name
			t.Fatal(err)
		}
		s.do("bgsave")
		s.eventually(10*time.Second, "the snapshot fails", func() bool {
			return s.boss.InfoMap(t.Context(), "persistence").Item("Persistence", "rdb_last_bgsave_status") == "err"
		})
	}, func() { s.do("config", "set", "stop-writes-on-bgsave-error", "no") })
}

// refusesWrites checks a server that refuses every write: acquire, renew and unlock all
// fail, a lock ends when it would have without renewals, and what could not be given back
// is, once writes are taken again.
func (s *site) refusesWrites(begin, end func()) {
	s.Helper()
	short, long := s.must(s.orders, "short", gateway.WithTTL(time.Second)), s.must(s.orders, "long")
	work, until := short.Context(s.Context()), short.Grant().ExpiresAt
	begin()
	s.is(ask(s.orders, "b"), tierlock.ErrSystem, tierlock.ReasonDenied)
	if err := long.Renew(s.Context(), 2*ttl); !errors.Is(err, tierlock.ErrSystem) && !errors.Is(err, tierlock.ErrLost) {
		s.Errorf("renew: %v", err)
	}
	if err := long.Unlock(s.Context()); !errors.Is(err, tierlock.ErrSystem) {
		s.Errorf("unlock: %v", err)
	}
	s.lost(work, 5*time.Second)
	if now := short.Grant().ExpiresAt; now.Sub(until) > 5*time.Second {
		s.Errorf("a lock whose renewals are refused was extended by %v", now.Sub(until))
	}
	end()
	_ = short.Unlock(s.Context()) // its key stands for a moment longer than its holder may hold
	s.serves()
	s.nothingIsLeft()
}

func commandDenied(t *testing.T) {
	s := newSite(t, setup{})
	s.do("acl", "setuser", "default", "-set")
	a := ask(s.orders, "a")
	s.is(a, tierlock.ErrSystem, tierlock.ReasonDenied)
	e, _ := errors.AsType[*tierlock.Error](a.err)
	if e == nil || e.Err == nil || !strings.Contains(strings.ToLower(e.Err.Error()), "command") || strings.Contains(e.Err.Error(), "biz:") {
		t.Errorf("want words of the command and none of the key: %v", a.err)
	}
	doctor(t, s.at(), "fail rights:", "denies set") // before the start
	s.do("acl", "setuser", "default", "+set")
	s.serves()
	s.nothingIsLeft()
}

func passwordRotated(t *testing.T) {
	server := servers.Redis(t)
	user := func(rules ...any) {
		t.Helper()
		if err := client(t, server.Addr()).Do(t.Context(), append([]any{"acl", "setuser", "app"}, rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	user("on", ">first-secret", "allkeys", "allchannels", "allcommands")
	s := siteOn(t, server, setup{store: func(c *redisstore.Config) { c.Username, c.Password = "app", "first-secret" }})

	user("<first-secret", ">second-secret")
	if !served(s.orders) {
		t.Error("connections that stood were not served")
	}
	s.do("client", "kill", "user", "app")
	a := ask(s.orders, "a")
	for end := time.Now().Add(5 * time.Second); a.err == nil && time.Now().Before(end); a = ask(s.orders, "a") {
		_ = a.lock.Unlock(t.Context())
	}
	s.is(a, tierlock.ErrSystem)
	fresh := s.another(setup{store: func(c *redisstore.Config) { c.Username, c.Password = "app", "second-secret" }})
	s.eventually(5*time.Second, "one with the new password is served", func() bool { return served(fresh.orders) })
	for _, secret := range []string{"first-secret", "second-secret"} {
		if strings.Contains(a.err.Error(), secret) || s.log.contains(secret) || fresh.log.contains(secret) {
			t.Errorf("%s was told", secret)
		}
	}
	user(">first-secret") // both are good while a fleet moves over
	s.serves()
	s.nothingIsLeft()
}

func noLock(t *testing.T) {
	s := newSite(t, setup{})
	s.do("sadd", "biz:order:lock:a", "member")
	doctor(t, s.at(), "fail keys:", "biz:order:lock:a", "is a set")
	s.is(ask(s.orders, "a"), tierlock.ErrSystem, tierlock.ReasonWrongType)
	s.do("del", "biz:order:lock:a")

	// A lock whose ttl somebody took away gets it back at the next renewal.
	l := s.must(s.orders, "b")
	s.do("persist", "biz:order:lock:b")
	s.is(ask(s.orders, "b"), tierlock.ErrHeld)
	doctor(t, s.at(), "fail keys:", "biz:order:lock:b", "never ends")
	if err := l.Renew(t.Context(), ttl); err != nil {
		t.Errorf("renew: %v", err)
	}
	if left := s.boss.PTTL(t.Context(), "biz:order:lock:b").Val(); left <= 0 || left > ttl {
		t.Errorf("it lives for %v", left)
	}
	if err := l.Unlock(t.Context()); err != nil {
		t.Errorf("unlock: %v", err)
	}
	s.nothingIsLeft()
}
