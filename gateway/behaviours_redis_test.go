package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
)

// Each is in virtual time as well, on a store inside the process.

func TestMaxHoldOnARealRedis(t *testing.T) {
	t.Parallel()
	servers.Need(t, "redis-server")
	server := servers.Redis(t)
	const ttl, most = 9 * time.Second, 10 * time.Second
	g, _ := onRedis(t, server.Addr(), func(p *gateway.Policy) { p.TTL, p.MaxHold = ttl, most })
	orders := chain(t, g, "order")
	warm(t, orders)
	l, err := orders.TryLock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	work := l.Context(t.Context())
	<-work.Done()
	if took := time.Since(l.Grant().AcquiredAt); took < most {
		t.Errorf("ended after %v, want %v", took, most)
	}
	if cause := context.Cause(work); !errors.Is(cause, tierlock.ErrLost) {
		t.Errorf("cause %v", cause)
	}
	// It was renewed at two thirds of the ttl, so the store keeps it: the work may still wind up.
	if _, err := orders.TryLock(t.Context(), "a"); !errors.Is(err, tierlock.ErrHeld) {
		t.Errorf("another: %v, want held", err)
	}
	if err := l.Unlock(t.Context()); !errors.Is(err, tierlock.ErrLost) {
		t.Errorf("unlock: %v", err)
	}
	waitFor(t, "nothing is left", func() bool { return len(redisKeys(t, server.Addr())) == 0 })
}

func TestAnAbandonedLockIsNotRenewedOnARealRedis(t *testing.T) {
	t.Parallel()
	servers.Need(t, "redis-server")
	server := servers.Redis(t)
	const ttl = 3 * time.Second
	g, _ := onRedis(t, server.Addr(), func(p *gateway.Policy) { p.TTL = ttl })
	orders := chain(t, g, "order")
	warm(t, orders)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := orders.TryLock(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	pause(2 * ttl)
	if len(redisKeys(t, server.Addr())) != 1 {
		t.Fatal("it was not renewed while its caller was there")
	}
	cancel()
	waitFor(t, "the store frees it, and nobody counts it", func() bool {
		live := int64(0)
		for _, c := range g.Status().Chains {
			live += c.Live
		}
		return len(redisKeys(t, server.Addr())) == 0 && live == 0
	})
}

// Locks are taken, cancelled and given back by many at once on few keys.
func TestStormLeavesNothingOnARealRedis(t *testing.T) {
	t.Parallel()
	servers.Need(t, "redis-server")
	server := servers.Redis(t)
	g, _ := onRedis(t, server.Addr())
	orders := chain(t, g, "order")
	warm(t, orders)
	var all sync.WaitGroup
	var granted atomic.Int64
	end := time.Now().Add(2 * time.Second)
	for w := range 16 {
		all.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				ctx, cancel := context.WithCancel(t.Context())
				l, err := orders.TryLock(ctx, fmt.Sprint("k", (w+i)%8))
				if err == nil {
					granted.Add(1)
					work := l.Context(ctx)
					cancel()
					<-work.Done()
				}
				cancel()
				_ = l.Unlock(ctx)
			}
		})
	}
	all.Wait()
	if granted.Load() < 16 {
		t.Errorf("%d were granted", granted.Load())
	}
	nothingLeft(t, g, server.Addr())
}

// nothingLeft waits until no lock stands in any of the stores and g holds and doubts none.
func nothingLeft(t *testing.T, g *gateway.Gateway, addrs ...string) {
	t.Helper()
	waitFor(t, "nothing is left", func() bool {
		s := g.Status()
		for _, c := range s.Chains {
			if c.Live != 0 || c.Local != 0 {
				return false
			}
		}
		keys := 0
		for _, addr := range addrs {
			keys += len(redisKeys(t, addr))
		}
		return keys == 0 && s.InDoubt == 0
	})
}

// Thousands of one process want one key of a real server: one is inside at a time, and
// tokens rise.
func TestThousandsOnOneKeyOfARealRedis(t *testing.T) {
	t.Parallel()
	servers.Need(t, "redis-server")
	for name, change := range map[string]func(*gateway.Policy){
		"default": func(*gateway.Policy) {},
		"flow":    func(p *gateway.Policy) { *p = p.Flow() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := servers.Redis(t)
			g, _ := onRedis(t, server.Addr(), change)
			orders := chain(t, g, "order")
			warm(t, orders)
			var inside, served atomic.Int64
			var last tierlock.Token // of holders only, so the race detector judges too
			var all sync.WaitGroup
			for range 5000 {
				all.Go(func() {
					l, err := orders.Lock(t.Context(), "a", gateway.WithWait(2*time.Second))
					if err != nil { // not its turn within two seconds, on a busy machine
						if !errors.Is(err, tierlock.ErrHeld) && !errors.Is(err, tierlock.ErrTimeout) {
							t.Error(err)
						}
						return
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d inside", n)
					}
					if g := l.Grant(); g.Token <= last || g.Tier != tierlock.Shared {
						t.Errorf("token %d after %d, %v", g.Token, last, g.Tier)
					}
					last = l.Grant().Token
					served.Add(1)
					inside.Add(-1)
					_ = l.Unlock(context.Background())
				})
			}
			all.Wait()
			if t.Logf("%d served", served.Load()); served.Load() < 100 {
				t.Errorf("%d served", served.Load())
			}
			nothingLeft(t, g, server.Addr())
		})
	}
}
