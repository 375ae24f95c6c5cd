package redisstore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/backendtest"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// What docs/redis-acl.md lists: all that a user of its own needs.
var (
	neededCommands = []string{"+evalsha", "+eval", "+time", "+get", "+set", "+pttl", "+pexpire", "+del", "+hget", "+hset", "+hdel", "+hlen"}
	usefulCommands = []string{"+script|load", "+info", "+mget", "+exists", "+zadd", "+zrem", "+zpopmin", "+publish", "+subscribe", "&tierlock:inbox:*"}
	clusterRights  = []string{"+cluster|slots", "+cluster|info", "+asking"}
	sentinelRights = []string{"+sentinel|get-master-addr-by-name", "+sentinel|master", "+subscribe", "&+switch-master"}
	neededKeys     = []string{"~biz:*", "~{biz:*", "~tierlock:probe:*", "~{tierlock:probe:*"}
)

func TestUserWithFewRightsPassesTheSuite(t *testing.T) {
	for name, commands := range map[string][]string{
		"needed":            neededCommands,
		"needed and useful": slices.Concat(neededCommands, usefulCommands),
	} {
		t.Run(name, func(t *testing.T) {
			server := servers.Redis(t)
			backendtest.Run(t, "redis-server with a user of few rights", openAs(t, server, commands), backendtest.Options{})
		})
	}
}

// None of the needed rights can be left out: some question is refused by name.
func TestUserNeedsEachOfItsRights(t *testing.T) {
	server := servers.Redis(t)
	for i, left := range neededCommands {
		t.Run("without "+left, func(t *testing.T) {
			store := openAs(t, server, slices.Delete(slices.Clone(neededCommands), i, i+1))
			if err := admin(t, server.Addr()).ScriptFlush(t.Context()).Err(); err != nil { // so that bodies are needed
				t.Fatal(err)
			}
			wantFault(t, askAll(t, store), tierlock.ReasonDenied, false)
		})
	}
}

// askAll takes a lock, lets another ask for it, renews it, enters it and gives all back; it
// returns the first error.
func askAll(t *testing.T, store *redisstore.Store) error {
	t.Helper()
	hold := newHold(t, minute)
	if _, err := try(t, store, hold); err != nil {
		return err
	}
	ctx, _ := within(t, 5*time.Second)
	if _, err := store.Lookup(ctx, tierlock.Hold{Key: hold.Key, ID: tierlock.NewRequestID(), TTL: minute}); err != nil {
		return err
	}
	hold.TTL = 2 * minute
	if _, err := store.Renew(ctx, []tierlock.Hold{hold}); err != nil {
		return err
	}
	entry := hold
	entry.Entry = 7
	if _, err := store.Acquire(ctx, tierlock.Request{Hold: entry, NotAfter: time.Now().Add(time.Second)}); err != nil {
		return err
	}
	if _, err := store.Release(ctx, entry); err != nil {
		return err
	}
	_, err := store.Release(ctx, hold)
	return err
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
