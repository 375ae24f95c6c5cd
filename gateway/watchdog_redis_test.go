package gateway_test

import (
	"errors"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
)

// Ten thousand locks over several of their ttls on a real server: no goroutine for them,
// and few calls.
func TestARealRedisKeepsTenThousandLocks(t *testing.T) {
	servers.Need(t, "redis-server")
	server := servers.Redis(t)
	// Other packages are tested beside this: an answer may take longer than 200 ms, and three
	// renewals without one are a lost lock.
	g, _ := onRedis(t, server.Addr(), func(p *gateway.Policy) { p.Attempt = time.Second })
	orders := chain(t, g, "order")
	warm(t, orders)
	boss := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = boss.Close() }()

	before := runtime.NumGoroutine()
	const all, ttl = 10_000, 6 * time.Second
	var held []*gateway.Locks
	for turn := 0; len(held)*100 < all; turn++ {
		ids := make([]string, 100)
		for i := range ids {
			ids[i] = "held" + strconv.Itoa(turn*100+i)
		}
		switch locks, err := orders.LockAll(t.Context(), ids, gateway.WithTTL(ttl)); {
		case err == nil:
			held = append(held, locks)
		case !errors.Is(err, tierlock.ErrTimeout) || turn > 2*all/100: // a busy machine does not make each attempt
			t.Fatal(err)
		}
	}
	most, from, calls := 0, time.Now(), scriptCalls(t, boss)
	for time.Since(from) < 2*ttl {
		pause(50 * time.Millisecond)
		most = max(most, runtime.NumGoroutine()-before)
	}
	made := scriptCalls(t, boss) - calls
	rounds := int(2 * ttl / (ttl / 3))
	t.Logf("%d goroutines more at most, %d script calls for %d renewals of %d locks", most, made, rounds, all)
	if most >= 10 {
		t.Errorf("%d goroutines more", most)
	}
	if made > rounds*all/20 {
		t.Errorf("%d calls for %d renewals: not batched", made, rounds*all)
	}
	if n := len(boss.Keys(t.Context(), "biz:order:lock:held*").Val()); n != all { // a fence record is no lock
		t.Errorf("%d of %d locks stand after two ttls", n, all)
	}
	for _, locks := range held {
		if err := locks.Unlock(t.Context()); err != nil && !errors.Is(err, tierlock.ErrTimeout) {
			t.Fatal(err)
		}
	}
}

var scriptUse = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`)

// scriptCalls is how many scripts the server has run.
func scriptCalls(t *testing.T, boss *redis.Client) int {
	t.Helper()
	m := scriptUse.FindStringSubmatch(boss.Info(t.Context(), "commandstats").Val())
	if m == nil {
		t.Fatal("no calls are counted")
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
