package redisstore_test

import (
	"context"
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

// What docs/redis-acl.md lists: all that a user of its own needs.
var (
	neededCommands = []string{"+evalsha", "+eval", "+time", "+get", "+set", "+pttl", "+pexpire", "+del", "+hget", "+hset", "+hdel", "+hlen"}
	usefulCommands = []string{"+script|load", "+info", "+ping", "+mget", "+exists", "+zadd", "+zrem", "+zpopmin", "+publish", "+subscribe", "&tierlock:inbox:*"}
	clusterNeeded  = []string{"+cluster|slots"}
	clusterUseful  = []string{"+cluster|info", "+asking"}
	sentinelRights = []string{"+sentinel|get-master-addr-by-name", "+sentinel|master", "+subscribe", "&+switch-master"}
	neededKeys     = []string{"~biz:*", "~{biz:*", "~tierlock:probe:*"}
)

// The documented rights are enough, in each topology and over TLS: with those that are
// needed the suite passes, and servers have refused nothing else than what is useful; with
// all of them no server has refused anything.
func TestUserWithFewRightsPassesTheSuite(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *estate) {
		suite := func(name string, rights []string) {
			t.Run(name, func(t *testing.T) {
				store := e.as(t, rights)
				forgetRefusals(t, e.addrs())
				backendtest.Run(t, e.name+" over TLS with a user of few rights", store, backendtest.Options{Hang: e.hang})
			})
		}
		suite("needed", e.needed)
		for _, refused := range refusals(t, e.addrs()) {
			if !slices.Contains(e.useful, "+"+refused) {
				t.Errorf("refused, and not documented: %s", refused)
			}
		}
		if len(e.nodes) == 1 && e.sentinels == nil {
			suite("needed and useful", slices.Concat(e.needed, e.useful))
			wantRefused(t, e.addrs(), "")
		}
		t.Run("none is too many", func(t *testing.T) { needsEachRight(t, e) })
		t.Run("the password changes", func(t *testing.T) { passwordChanges(t, e) })
	})
}

// needsEachRight takes each documented right away in turn. Then a server refuses just that,
// as its own log of refusals says; and what is needed is missed by a caller, too.
func needsEachRight(t *testing.T, e *estate) {
	all := slices.Concat(e.needed, e.useful)
	t.Run("with all", func(t *testing.T) {
		store := e.as(t, all)
		forgetRefusals(t, e.addrs())
		if err := e.useAll(t, store); err != nil {
			t.Error(err)
		}
		wantRefused(t, e.addrs(), "")
	})
	for i, left := range all {
		t.Run("without "+left, func(t *testing.T) {
			store := e.as(t, slices.Delete(slices.Clone(all), i, i+1))
			forgetRefusals(t, e.addrs())
			eventually(t, "it is refused", func() bool {
				err := e.useAll(t, store)
				if needed := i < len(e.needed) || left == "+asking"; needed != (err != nil) { // without asking, for keys that move
					t.Fatalf("needed %t, and the caller gets %v", needed, err)
				}
				return len(refusals(t, e.addrs())) > 0
			})
			wantRefused(t, e.addrs(), left)
		})
	}
	for i, left := range neededKeys {
		t.Run("without "+left, func(t *testing.T) {
			store := e.asWithKeys(t, all, slices.Delete(slices.Clone(neededKeys), i, i+1))
			forgetRefusals(t, e.addrs())
			wantFault(t, e.useAll(t, store), tierlock.ReasonDenied, false)
			wantRefused(t, e.addrs(), left)
		})
	}
	for i, left := range sentinelRights {
		if e.sentinels == nil {
			break
		}
		t.Run("sentinels without "+left, func(t *testing.T) {
			for _, addr := range e.sentinels {
				enroll(t, addr, slices.Delete(slices.Clone(sentinelRights), i, i+1))
			}
			forgetRefusals(t, e.sentinels)
			store := e.as(t, all)
			_, err := try(t, store, newHold(t, minute))
			if needed := strings.HasPrefix(left, "+sentinel|"); needed != (err != nil) {
				t.Fatalf("needed %t, and the caller gets %v", needed, err)
			}
			eventually(t, "it is refused", func() bool { return len(refusals(t, e.sentinels)) > 0 })
			wantRefused(t, e.sentinels, left)
		})
	}
}

// useAll does all that a store can do, twice: the second time with scripts that the servers
// have forgotten. It returns the first error.
func (e *estate) useAll(t *testing.T, store *redisstore.Store) error {
	t.Helper()
	for range 2 {
		if err := askAll(t, store); err != nil {
			return err
		}
		if err := e.askForAKeyThatMoves(t, store); err != nil {
			return err
		}
		for _, addr := range e.addrs() {
			if err := admin(t, addr).ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return nil
}

// askForAKeyThatMoves asks, in a Cluster, for a key whose slot is on its way: the server it
// comes from points to the one it goes to.
func (e *estate) askForAKeyThatMoves(t *testing.T, store *redisstore.Store) error {
	t.Helper()
	if e.cluster == nil {
		return nil
	}
	slot, keys := keysOfOneSlot(t, e.cluster, 1)
	move := newSlot{admin(t, e.nodes[0].Addr()), admin(t, e.nodes[1].Addr()), slot}
	move.begin(t)
	hold := tierlock.Hold{Key: keys[0], ID: tierlock.NewRequestID(), TTL: minute}
	ctx, deadline := within(t, time.Second)
	answer, err := store.Acquire(ctx, tierlock.Request{Hold: hold, NotAfter: deadline})
	if err == nil && answer.Status == tierlock.Granted {
		ctx, _ := within(t, 5*time.Second)
		_, err = store.Release(ctx, hold)
	}
	for _, side := range []*redis.Client{move.from, move.to} {
		move.do(t, side, "cluster", "setslot", slot, "stable")
	}
	return err
}

// wantRefused fails if the servers refused anything but what the right is for; without a
// right, anything at all.
func wantRefused(t *testing.T, addrs []string, right string) {
	t.Helper()
	kind, what := "+", ""
	if right != "" {
		kind, what = right[:1], right[1:]
	}
	for _, refused := range refusals(t, addrs) {
		if kind == "+" && refused != what || kind != "+" && !strings.HasPrefix(refused, strings.TrimSuffix(what, "*")) {
			t.Errorf("refused, without %q: %s", right, refused)
		}
	}
}

// forgetRefusals empties the servers' logs of refusals.
func forgetRefusals(t *testing.T, addrs []string) {
	t.Helper()
	for _, addr := range addrs {
		if err := admin(t, addr).ACLLogReset(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// refusals are the commands, keys and channels that servers have refused since, sorted.
func refusals(t *testing.T, addrs []string) (all []string) {
	t.Helper()
	for _, addr := range addrs {
		entries, err := admin(t, addr).ACLLog(t.Context(), 1000).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			all = append(all, entry.Object)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// askAll takes a lock, lets others look at it and wait for it, renews it, enters it, gives
// all back, hands it over, gives many back at once, and probes. It returns the first error.
func askAll(t *testing.T, store *redisstore.Store) error {
	t.Helper()
	ctx, deadline := within(t, 5*time.Second)
	hold := newHold(t, minute)
	entry, next, last := hold, other(hold), other(hold)
	entry.Entry = 7
	request := func(h tierlock.Hold) tierlock.Request {
		return tierlock.Request{Hold: h, NotAfter: deadline, Fenced: h.Entry == 0, WaitTill: deadline}
	}
	var err error
	do := func(ask func() error) {
		if err == nil {
			err = ask()
		}
	}
	acquire := func(h tierlock.Hold) func() error {
		return func() error { _, err := store.Acquire(ctx, request(h)); return err }
	}
	release := func(h tierlock.Hold) func() error {
		return func() error { _, err := store.Release(ctx, h); return err }
	}
	do(acquire(hold))
	do(func() error { _, err := store.Lookup(ctx, next); return err })
	longer := hold
	longer.TTL = 2 * minute
	do(func() error { _, err := store.Renew(ctx, []tierlock.Hold{longer}); return err })
	do(acquire(entry))
	do(release(entry))
	do(acquire(next)) // stands in line
	do(release(hold)) // and is told
	do(acquire(next)) // and leaves the line
	do(func() error { _, err := store.Pass(ctx, next, request(last)); return err })
	do(release(last))
	do(func() error { return store.Probe(ctx, "") })
	if err != nil {
		return err
	}
	return giveManyBack(ctx, t, store)
}

// giveManyBack gives so many locks of one slot back at once that some share a call.
func giveManyBack(ctx context.Context, t *testing.T, store *redisstore.Store) error {
	t.Helper()
	key := newHold(t, minute).Key
	errs := make(chan error)
	const many = 64
	for range many {
		go func() {
			_, err := store.Release(ctx, tierlock.Hold{Key: key, ID: tierlock.NewRequestID()})
			errs <- err
		}()
	}
	var first error
	for range many {
		if err := <-errs; err != nil {
			first = err
		}
	}
	return first
}

// enroll makes the user tierlock anew, with these rights only.
func enroll(t *testing.T, addr string, rights []string) {
	t.Helper()
	rules := []any{"acl", "setuser", "tierlock", "reset", "on", ">secret"}
	for _, rule := range rights {
		rules = append(rules, rule)
	}
	if err := admin(t, addr).Do(t.Context(), rules...).Err(); err != nil {
		t.Fatalf("%s: %v", strings.Join(rights, " "), err)
	}
}

// openAs makes the user tierlock anew, with these rights only, and a Store that is it.
func openAs(t *testing.T, server *servers.RedisServer, commands []string) *redisstore.Store {
	t.Helper()
	return openUser(t, server, redisstore.Config{}, commands)
}

// openUser is openAs for a Store that is something else, too.
func openUser(t *testing.T, server *servers.RedisServer, cfg redisstore.Config, commands []string) *redisstore.Store {
	t.Helper()
	enroll(t, server.Addr(), slices.Concat(commands, neededKeys))
	cfg.Addrs, cfg.Username, cfg.Password = []string{server.Addr()}, "tierlock", "secret"
	return open(t, cfg)
}
