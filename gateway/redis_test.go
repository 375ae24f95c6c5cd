package gateway_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/internal/servers"
)

// onRedis is a gateway with a strong and a weak chain on a Redis at addr.
func onRedis(t *testing.T, addr string, change ...func(*gateway.Policy)) (*gateway.Gateway, *gatewaytest.Audit) {
	t.Helper()
	order := strong()
	for _, c := range change {
		c(&order)
	}
	store, err := redisstore.New(redisstore.Config{Addrs: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	rec := new(gatewaytest.Audit)
	g, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{"order": order, "coupon": weak()},
		Stores: map[string]tierlock.Backend{"main": store}, Audit: rec,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = g.Close(ctx)
	})
	return g, rec
}

func chain(t *testing.T, g *gateway.Gateway, name string) *gateway.Chain {
	t.Helper()
	c, err := g.Chain(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The main paths over the real client and its scripts, on the Redis inside the process.
func TestOnMiniredis(t *testing.T) {
	server := miniredis.RunT(t)
	g, rec := onRedis(t, server.Addr())
	orders, coupons := chain(t, g, "order"), chain(t, g, "coupon")
	ctx := t.Context()

	l, err := orders.TryLock(ctx, "10086")
	if err != nil {
		t.Fatal(err)
	}
	if grant := l.Grant(); grant.Tier != tierlock.Shared || grant.Token == 0 || grant.Store != "redis" || !grant.Exclusive {
		t.Errorf("grant %+v", grant)
	}
	if _, err := orders.Lock(ctx, "10086", gateway.WithWait(50*time.Millisecond)); !errors.Is(err, tierlock.ErrHeld) {
		t.Errorf("second holder: %v", err)
	}
	if err := l.Renew(ctx, 2*time.Minute); err != nil {
		t.Errorf("renew: %v", err)
	}
	if ok, err := l.IsHeld(ctx); !ok || err != nil {
		t.Errorf("held: %v, %v", ok, err)
	}
	if err := l.Unlock(ctx); err != nil || server.Exists("biz:order:lock:10086") {
		t.Errorf("unlock: %v, key there: %v", err, server.Exists("biz:order:lock:10086"))
	}

	server.Close() // from here on, connections are refused
	local, err := coupons.TryLock(ctx, "u42-c7")
	if err != nil || local.Grant().Tier != tierlock.Local {
		t.Fatalf("weak, server gone: %+v, %v", local.Grant(), err)
	}
	if _, err := orders.TryLock(ctx, "10086"); !errors.Is(err, tierlock.ErrSystem) {
		t.Errorf("strong, server gone: %v", err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "shared again", func() bool {
		l, err := coupons.TryLock(ctx, "u43-c7")
		defer func() { _ = l.Unlock(ctx) }()
		return err == nil && l.Grant().Tier == tierlock.Shared
	})
	if _, err := coupons.TryLock(ctx, "u42-c7"); !errors.Is(err, tierlock.ErrHeld) {
		t.Errorf("a key with a local holder: %v", err)
	}
	if err := local.Unlock(ctx); err != nil {
		t.Errorf("unlock of the local lock: %v", err)
	}
	if n := len(rec.Of(local.Grant().RequestID)); n != 2 {
		t.Errorf("%d events of the local lock, want 2", n)
	}
}

// A real server that freezes: every answer in time, the weak chain on its local lock, and
// no key of a caller who gave up is left once it thaws.
func TestARealRedisFreezes(t *testing.T) {
	servers.Need(t, "redis-server")
	server := servers.Redis(t)
	g, _ := onRedis(t, server.Addr())
	orders, coupons := chain(t, g, "order"), chain(t, g, "coupon")
	warm(t, orders, coupons)

	server.Freeze()
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	end := time.Now().Add(3 * time.Second)
	for w := range 16 {
		all.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				began := time.Now()
				l, _ := []*gateway.Chain{orders, coupons}[w%2].TryLock(t.Context(), strconv.Itoa(w*10_000+i))
				d := time.Since(began)
				_ = l.Unlock(t.Context())
				mu.Lock()
				took = append(took, d)
				mu.Unlock()
				if d < time.Millisecond { // answered at once: leave the machine to others
					pause(time.Millisecond)
				}
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	if p99 := took[len(took)*99/100]; p99 > 220*time.Millisecond {
		t.Errorf("p99 of %d answers is %v", len(took), p99)
	}
	if l, err := coupons.TryLock(t.Context(), "frozen"); err != nil || l.Grant().Tier != tierlock.Local {
		t.Errorf("weak after 3 s: %v, %v", l.Grant().Tier, err)
	}
	server.Thaw()
	waitFor(t, "nothing in doubt", func() bool { return g.Status().InDoubt == 0 })
	waitFor(t, "strong served", func() bool { return served(t, orders) })
	if keys := redisKeys(t, server.Addr()); len(keys) != 0 {
		t.Errorf("keys left: %v", keys)
	}
}

// A real server that is killed and comes back empty.
func TestARealRedisIsKilled(t *testing.T) {
	servers.Need(t, "redis-server")
	server := servers.Redis(t)
	g, _ := onRedis(t, server.Addr())
	orders, coupons := chain(t, g, "order"), chain(t, g, "coupon")
	warm(t, orders, coupons)
	held, err := orders.TryLock(t.Context(), "held", gateway.WithTTL(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	work := held.Context(t.Context())

	server.Kill()
	if l, err := coupons.TryLock(t.Context(), "a"); err != nil || l.Grant().Tier != tierlock.Local {
		// what was broken under way is one timeout; the next one must know
		if l, err = coupons.TryLock(t.Context(), "a"); err != nil || l.Grant().Tier != tierlock.Local {
			t.Errorf("weak, server killed: %v, %v", l.Grant().Tier, err)
		}
	}
	if _, err := orders.TryLock(t.Context(), "b"); !errors.Is(err, tierlock.ErrSystem) {
		t.Errorf("strong, server killed: %v", err)
	}
	<-work.Done()
	if !errors.Is(context.Cause(work), tierlock.ErrLost) {
		t.Errorf("the holder's context ended by %v", context.Cause(work))
	}
	server.Restart()
	back := time.Now()
	waitFor(t, "strong served", func() bool { return served(t, orders) })
	if took := time.Since(back); took > 5*time.Second {
		t.Errorf("strong served after %v", took)
	}
}

// warm makes connections and loads scripts, so that a fault meets a running system.
func warm(t *testing.T, chains ...*gateway.Chain) {
	t.Helper()
	for _, c := range chains {
		waitFor(t, "a first lock", func() bool { return served(t, c) })
	}
}

func served(t *testing.T, c *gateway.Chain) bool {
	l, err := c.TryLock(t.Context(), "served")
	defer func() { _ = l.Unlock(t.Context()) }()
	return err == nil && l.Grant().Tier == tierlock.Shared
}

// pause waits in real time.
func pause(d time.Duration) { <-time.After(d) }

// redisKeys lists the locks in the store, read straight from it.
func redisKeys(t *testing.T, addr string) []string {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	keys, err := client.Keys(t.Context(), "biz:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
