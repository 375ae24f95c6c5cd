package redisstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/backendtest"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// load puts the library on the server's master and fails unless it is current then.
func load(t *testing.T, addr string) {
	t.Helper()
	states, err := open(t, redisstore.Config{Addrs: []string{addr}}).LoadLibrary(t.Context(), false)
	if err != nil || len(states) != 1 || states[0].Err != nil || !states[0].Current || len(states[0].Functions) < 4 {
		t.Fatalf("load: %+v, %v", states, err)
	}
}

// called tells how often the server has run a command.
func called(t *testing.T, boss *redis.Client, command string) (n int) {
	t.Helper()
	stats := boss.InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_"+command)
	_, _ = fmt.Sscanf(stats, "calls=%d", &n)
	return n
}

// The whole suite by functions, as a user who may run no script at all.
func TestStoreKeepsTheContractByFunctions(t *testing.T) {
	server := servers.Redis(t)
	load(t, server.Addr())
	boss := admin(t, server.Addr())
	scripts := called(t, boss, "evalsha") + called(t, boss, "eval")
	rights := []string{"+fcall"}
	for _, right := range neededCommands {
		if right != "+eval" && right != "+evalsha" {
			rights = append(rights, right)
		}
	}
	for name, store := range map[string]*redisstore.Store{
		"anybody":                open(t, redisstore.Config{Addrs: []string{server.Addr()}, Functions: true}),
		"a user without scripts": openUser(t, server, redisstore.Config{Functions: true}, rights),
	} {
		t.Run(name, func(t *testing.T) {
			backendtest.Run(t, "redis-server "+version(t, server.Addr())+", functions", store, backendtest.Options{})
		})
	}
	if n := called(t, boss, "evalsha") + called(t, boss, "eval") - scripts; n != 0 || called(t, boss, "fcall") < 100 {
		t.Errorf("%d scripts were run, %d functions", n, called(t, boss, "fcall"))
	}
}

// A server that lost the functions, or never had them, gets scripts; the log says so once,
// and they are used again when they are there.
func TestServerWithoutFunctionsGetsScripts(t *testing.T) {
	server := servers.Redis(t)
	boss := admin(t, server.Addr())
	var log bytes.Buffer
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}, Functions: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	pair := func() {
		t.Helper()
		hold := newHold(t, minute)
		take(t, store, hold, tierlock.Granted)
		give(t, store, hold, tierlock.Released)
	}
	warnings := func() int { return strings.Count(log.String(), "lacks the functions") }
	for range 3 {
		pair()
	}
	if asked := called(t, boss, "fcall"); asked != 1 || warnings() != 1 {
		t.Errorf("%d calls of functions and %d warnings, want one each:\n%s", asked, warnings(), &log)
	}
	ctx, _ := within(t, time.Second)
	if err := store.Probe(ctx, ""); err != nil {
		t.Errorf("probe: %v", err)
	}

	load(t, server.Addr())
	store.AskForFunctionsAgain()
	scripts := called(t, boss, "evalsha")
	pair()
	if n := called(t, boss, "evalsha"); n != scripts {
		t.Errorf("%d scripts after the functions are there", n-scripts)
	}

	if err := boss.FunctionFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	first := newHold(t, minute)
	take(t, store, first, tierlock.Granted)
	store.AskForFunctionsAgain()
	if answers, err := store.Renew(ctx, []tierlock.Hold{first, newHold(t, minute)}); err != nil || answers[0].Status != tierlock.Mine || answers[1].Status != tierlock.Gone {
		t.Errorf("renew: %+v, %v", answers, err)
	}
	if warnings() != 2 {
		t.Errorf("%d warnings after they were lost again, want 2", warnings())
	}
}

// Where scripts are forbidden too, the fault says what is missing.
func TestUserWithoutScriptsNeedsTheFunctions(t *testing.T) {
	server := servers.Redis(t)
	store := openUser(t, server, redisstore.Config{Functions: true}, []string{"+fcall", "+time"})
	_, err := try(t, store, newHold(t, minute))
	wantFault(t, err, tierlock.ReasonDenied, false)
	if !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("error %v", err)
	}
}

// Redis refuses what is not flagged when memory is full: whoever holds can keep the lock
// and give it back, by functions as by scripts.
func TestFunctionsWorkWithoutMemory(t *testing.T) {
	server := servers.Redis(t, "--maxmemory-policy", "noeviction")
	load(t, server.Addr())
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}, Functions: true})
	hold := newHold(t, minute)
	take(t, store, hold, tierlock.Granted)
	configure(t, admin(t, server.Addr()), "maxmemory", "1")

	_, err := try(t, store, newHold(t, minute))
	wantFault(t, err, tierlock.ReasonDenied, false)
	if !strings.Contains(err.Error(), "OOM ") {
		t.Errorf("acquire: %v", err)
	}
	ctx, _ := within(t, time.Second)
	hold.TTL = 2 * minute
	if answers, err := store.Renew(ctx, []tierlock.Hold{hold}); err != nil || answers[0].Status != tierlock.Mine {
		t.Errorf("renew: %+v, %v", answers, err)
	}
	look(t, store, hold, tierlock.Mine)
	give(t, store, hold, tierlock.Released)
	if n := called(t, admin(t, server.Addr()), "evalsha"); n != 0 {
		t.Errorf("%d scripts were run", n)
	}
}

func TestLibraryIsLoadedListedAndRemoved(t *testing.T) {
	server := servers.Redis(t)
	boss := admin(t, server.Addr())
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	only := func(states []redisstore.LibraryState, err error) redisstore.LibraryState {
		t.Helper()
		if err != nil || len(states) != 1 || states[0].Addr != server.Addr() {
			t.Fatalf("%+v, %v", states, err)
		}
		return states[0]
	}
	if has := only(store.Libraries(t.Context())); has.Version != 0 || has.Current || has.Err != nil {
		t.Errorf("at first: %+v", has)
	}
	if has := only(store.RemoveLibrary(t.Context())); has.Err != nil {
		t.Errorf("nothing to remove: %+v", has)
	}
	for range 2 {
		if has := only(store.LoadLibrary(t.Context(), false)); !has.Current || has.Version != redisstore.LibraryVersion || has.Err != nil {
			t.Errorf("loaded: %+v", has)
		}
	}
	if n := called(t, boss, "function|load"); n != 1 {
		t.Errorf("loaded %d times, want once: what is current stays", n)
	}

	// Another build of this release is replaced, a newer release is not.
	other := func(version int) string {
		return fmt.Sprintf("#!lua name=tierlock\nredis.register_function{function_name='tierlock_acquire_00000000', description='tierlock library %d', callback=function() end}", version)
	}
	for _, c := range []struct {
		version int
		force   bool
		current bool
		err     error
	}{
		{redisstore.LibraryVersion - 1, false, true, nil},
		{redisstore.LibraryVersion, false, true, nil},
		{redisstore.LibraryVersion + 1, false, false, redisstore.ErrNewerLibrary},
		{redisstore.LibraryVersion + 1, true, true, nil},
	} {
		if err := boss.FunctionLoadReplace(t.Context(), other(c.version)).Err(); err != nil {
			t.Fatal(err)
		}
		if has := only(store.Libraries(t.Context())); has.Current || has.Version != c.version || !slices.Equal(has.Functions, []string{"tierlock_acquire_00000000"}) {
			t.Errorf("%+v: listed as %+v", c, has)
		}
		has := only(store.LoadLibrary(t.Context(), c.force))
		if has.Current != c.current || !errors.Is(has.Err, c.err) {
			t.Errorf("%+v: %+v", c, has)
		}
	}
	if has := only(store.RemoveLibrary(t.Context())); has.Version != 0 || len(has.Functions) != 0 || has.Err != nil {
		t.Errorf("removed: %+v", has)
	}
	configure(t, boss, "replica-serve-stale-data", "yes")
	if err := boss.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if has := only(store.LoadLibrary(t.Context(), false)); has.Err == nil || !strings.Contains(has.Err.Error(), "READONLY") {
		t.Errorf("on a replica: %+v", has)
	}
}

// Every master of a Cluster is loaded, and none runs a script afterwards.
func TestLibraryGoesToEveryMaster(t *testing.T) {
	c := servers.Cluster(t, 3, 0)
	store := open(t, redisstore.Config{Addrs: c.Addrs()[:1], Cluster: true, Functions: true})
	ctx, _ := within(t, 10*time.Second)
	states, err := store.LoadLibrary(ctx, false)
	if err != nil || len(states) != 3 {
		t.Fatalf("%+v, %v", states, err)
	}
	for _, has := range states {
		if !has.Current || has.Err != nil || !slices.Contains(c.Addrs(), has.Addr) {
			t.Errorf("%+v", has)
		}
	}
	for range 30 {
		hold := newHold(t, minute)
		take(t, store, hold, tierlock.Granted)
		give(t, store, hold, tierlock.Released)
	}
	for _, addr := range c.Addrs() {
		boss := admin(t, addr)
		if scripts, functions := called(t, boss, "evalsha")+called(t, boss, "eval"), called(t, boss, "fcall"); scripts != 0 || functions == 0 {
			t.Errorf("%s: %d scripts, %d functions", addr, scripts, functions)
		}
	}
	c.Shards[1][0].Kill()
	if states, err = store.Libraries(ctx); err != nil || len(states) != 3 {
		t.Fatalf("%+v, %v", states, err)
	}
	for _, has := range states {
		if dead := has.Addr == c.Shards[1][0].Addr(); dead != (has.Err != nil) || dead == has.Current {
			t.Errorf("with one master dead: %+v", has)
		}
	}
}

// Behind sentinels it is the master that is loaded; its replicas get the library from it, so
// one that is promoted has it.
func TestLibraryGoesToTheMasterBehindSentinels(t *testing.T) {
	w := servers.Sentinels(t, 1)
	store := open(t, redisstore.Config{Addrs: w.Addrs(), Sentinel: &redisstore.SentinelConfig{Master: w.Name}, Functions: true})
	ctx, _ := within(t, 10*time.Second)
	states, err := store.LoadLibrary(ctx, false)
	if err != nil || len(states) != 1 || !states[0].Current || states[0].Addr != w.Master(t) {
		t.Fatalf("%+v, %v", states, err)
	}
	replica := open(t, redisstore.Config{Addrs: []string{w.Nodes[1].Addr()}})
	eventually(t, "the replica has it", func() bool {
		states, err := replica.Libraries(ctx)
		return err == nil && states[0].Current
	})
}
