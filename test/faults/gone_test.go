package faults

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
)

func killed(t *testing.T) {
	s := newSite(t, setup{})
	s.server.Kill()
	began := time.Now()
	s.eventually(time.Second, "the weak chain is local", func() bool {
		a := ask(s.coupons, "first")
		defer func() { _ = a.lock.Unlock(t.Context()) }()
		return a.err == nil && a.tier() == tierlock.Local
	})
	t.Logf("local after %v", time.Since(began))
	dialled := s.way.Accepted()
	const asked = 400
	var took []time.Duration
	for i := range asked {
		a := ask(s.coupons, strconv.Itoa(i))
		if a.err != nil || a.tier() != tierlock.Local {
			t.Fatalf("weak: %v", a)
		}
		_ = a.lock.Unlock(t.Context())
		took = append(took, a.took)
		s.is(ask(s.orders, strconv.Itoa(i)), tierlock.ErrSystem)
	}
	slices.Sort(took)
	if half := took[asked/2]; half > time.Millisecond {
		t.Errorf("half of the answers took more than %v", half)
	}
	// Nobody but the probe asks: it comes every 100 ms at first, then every 500 ms.
	span := time.Since(began)
	if n := s.way.Accepted() - dialled; n > 12+int64(span/(200*time.Millisecond)) {
		t.Errorf("%d connections were tried within %v", n, span)
	}
	s.server.Restart()
	s.serves()
}

func loading(t *testing.T) {
	s := newSite(t, setup{server: []string{"--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024"}})
	fill := s.boss.Pipeline()
	for i := range 200 {
		fill.Set(t.Context(), "filler:"+strconv.Itoa(i), strings.Repeat("y", 4096), 0)
	}
	if _, err := fill.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.do("config", "set", "rdbcompression", "no", "key-load-delay", "10000") // µs a key: two seconds in all
	loaded := make(chan error, 1)
	patient := redis.NewClient(&redis.Options{Addr: s.server.Addr(), DisableIdentity: true, ReadTimeout: -1, MaxRetries: -1})
	t.Cleanup(func() { _ = patient.Close() })
	go func() { loaded <- patient.Do(t.Context(), "debug", "reload").Err() }()
	s.eventually(5*time.Second, "the server loads", func() bool {
		err := s.boss.Get(t.Context(), "filler").Err()
		return err != nil && strings.HasPrefix(err.Error(), "LOADING ")
	})
	s.steppedDown()
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	s.serves()
	s.nothingIsLeft()
}

func masterDown(t *testing.T) {
	s := newSite(t, setup{})
	s.do("config", "set", "replica-serve-stale-data", "no")
	s.do("replicaof", "127.0.0.1", "1")
	s.steppedDown()
	s.do("replicaof", "no", "one")
	s.serves()
	s.nothingIsLeft()
}

// steppedDown checks a store that is down: the strong chain fails, the weak one is local.
func (s *site) steppedDown() {
	s.Helper()
	s.is(ask(s.orders, "down"), tierlock.ErrSystem, tierlock.ReasonDown, tierlock.ReasonOpen)
	a := ask(s.coupons, "down")
	if a.err != nil || a.tier() != tierlock.Local {
		s.Errorf("weak: %v, want local", a)
	}
	_ = a.lock.Unlock(s.Context())
}

func forgottenScripts(t *testing.T) {
	s := newSite(t, setup{})
	flush := func() { s.do("script", "flush") }
	flush()
	l := s.must(s.orders, "a")
	flush()
	if err := l.Renew(t.Context(), ttl); err != nil {
		t.Errorf("renew: %v", err)
	}
	flush()
	if held, err := l.IsHeld(t.Context()); !held || err != nil {
		t.Errorf("held %v, %v", held, err)
	}
	flush()
	if err := l.Unlock(t.Context()); err != nil {
		t.Errorf("unlock: %v", err)
	}
	s.nothingIsLeft()
}

func missingFunctions(t *testing.T) {
	s := newSite(t, setup{store: func(c *redisstore.Config) { c.Functions = true }})
	current := func(want bool) {
		t.Helper()
		has, err := s.store.Libraries(t.Context())
		if err != nil || len(has) != 1 || has[0].Err != nil || has[0].Current != want {
			t.Errorf("libraries: %+v, %v; want current %t", has, err, want)
		}
	}
	const warning = "lacks the functions"
	if !s.log.contains(warning) {
		t.Error("nobody was told that there are none")
	}
	if _, err := s.store.LoadLibrary(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	current(true)
	loaded := s.another(setup{store: func(c *redisstore.Config) { c.Functions = true }})
	s.eventually(5*time.Second, "served by functions", func() bool { return served(loaded.orders) })
	if loaded.log.contains(warning) {
		t.Error("warned though they are there")
	}
	s.do("function", "flush")
	current(false)
	a := ask(loaded.orders, "a")
	if a.err != nil || a.took > inTime {
		t.Errorf("functions gone: %v", a)
	}
	if err := a.lock.Unlock(t.Context()); err != nil {
		t.Errorf("unlock: %v", err)
	}
	if !loaded.log.contains(warning) {
		t.Error("nobody was told that they are gone")
	}
	s.nothingIsLeft()
	functionsOnOneMaster(t)
}

// functionsOnOneMaster has a Cluster of which one master was told of the functions: Redis
// copies them to replicas and to nobody else. Every key is served, and doctor finds the others.
func functionsOnOneMaster(t *testing.T) {
	c := clusterWith(t, redisstore.Config{Functions: true})
	one, err := redisstore.New(redisstore.Config{Addrs: []string{c.servers.Addrs()[0]}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = one.Close() }()
	if _, err := one.LoadLibrary(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for n := range masters {
		a := ask(c.orders, c.idOn(n, 1))
		if a.err != nil || a.took > inTime {
			t.Errorf("a key of master %d: %v", n, a)
		}
		if err := a.lock.Unlock(t.Context()); err != nil {
			t.Errorf("unlock: %v", err)
		}
	}
	addrs := c.servers.Addrs()
	store := fmt.Sprintf("addrs: [%q], cluster: true, functions: true", addrs[0])
	doctor(t, store, "ok functions:", addrs[0])
	for _, without := range addrs[1:] {
		doctor(t, store, "warn functions:", without, "has none")
		if !c.log.contains(without) {
			t.Errorf("the log does not name %s", without)
		}
	}
}

func noRoomForClients(t *testing.T) {
	s := newSite(t, setup{})
	s.do("config", "set", "maxclients", "1")
	s.do("client", "kill", "type", "normal", "skipme", "yes")
	before := s.way.Accepted()
	const callers, each = 8, 20
	var all sync.WaitGroup
	for n := range callers {
		all.Go(func() {
			for i := range each {
				s.is(ask(s.orders, strconv.Itoa(n*each+i)), errNotServed)
			}
		})
	}
	all.Wait()
	// An ask makes one connection, and looks a second time at most.
	if n := s.way.Accepted() - before; n > 2*callers*each {
		t.Errorf("%d connections for %d asks", n, callers*each)
	}
	s.do("config", "set", "maxclients", "1000")
	s.serves()
	s.nothingIsLeft()
}

func closedByTheServer(t *testing.T) {
	s := newSite(t, setup{})
	pair := func(id string) {
		t.Helper()
		l := s.must(s.orders, id)
		if err := l.Unlock(t.Context()); err != nil {
			t.Errorf("unlock: %v", err)
		}
	}
	for i := range 10 {
		pair(strconv.Itoa(i))
		s.do("client", "kill", "type", "normal", "skipme", "yes")
		wait(50 * time.Millisecond) // what is sent before the end of the connection has come is another row, R32
	}
	s.do("config", "set", "timeout", "1")
	held := s.must(s.orders, "over-the-idle-time", gateway.WithoutRenew())
	wait(2500 * time.Millisecond)
	pair("after-the-idle-time")
	if err := held.Unlock(t.Context()); err != nil {
		t.Errorf("unlock after the idle time: %v", err)
	}
	s.nothingIsLeft()
}
