package gateway_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
)

// Two processes enter one lock on a real server; the last of all frees it.
func TestARealRedisKeepsEntries(t *testing.T) {
	servers.Need(t, "redis-server")
	server := servers.Redis(t)
	g1, _ := onRedis(t, server.Addr())
	g2, _ := onRedis(t, server.Addr())
	here, there := chain(t, g1, "order"), chain(t, g2, "order")
	warm(t, here, there)
	boss := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = boss.Close() }()
	depth := func() int64 { return boss.HLen(t.Context(), "{biz:order:lock:a}:depth").Val() }

	outer, err := here.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	inner, err := here.Lock(outer.Context(t.Context()), "a")
	if err != nil {
		t.Fatal(err)
	}
	away, err := there.Lock(t.Context(), "a", gateway.Reenter(outer.Grant().RequestID))
	if err != nil || away.Grant().Token != outer.Grant().Token {
		t.Fatalf("entered elsewhere: %+v, %v", away.Grant(), err)
	}
	if n := depth(); n != 4 { // three entries and the tag
		t.Errorf("%d fields", n)
	}
	for _, l := range []*gateway.Lock{outer, inner, away} {
		if _, err := there.TryLock(t.Context(), "a"); !errors.Is(err, tierlock.ErrHeld) {
			t.Errorf("another got it: %v", err)
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if keys := redisKeys(t, server.Addr()); len(keys) != 0 || depth() != 0 {
		t.Errorf("left: %v, %d entries", keys, depth())
	}
	if _, err := here.TryLock(t.Context(), "a", gateway.Reenter(outer.Grant().RequestID)); !errors.Is(err, tierlock.ErrLost) {
		t.Errorf("entered a lock that is over: %v", err)
	}
}
