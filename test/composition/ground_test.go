package composition

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/internal/way"
	"github.com/tierlock/tierlock/switchcfg"
)

const (
	// attempt is long, so that a busy machine does not make a timeout of an answer; late is
	// beyond it, and early enough for a probe, which has a second.
	attempt = 500 * time.Millisecond
	late    = 650 * time.Millisecond
	// soon bounds each wait for something that comes by itself.
	soon = 30 * time.Second
	long = time.Hour // where a state is to stay
)

// process is one instance on the Redis, by a way of its own.
type process struct {
	*gateway.Gateway
	*gateway.Chain
	way   *way.Way
	store *redisstore.Store
}

func (p process) state() degrade.State { return p.Status().Chains[0].Targets[0].State }

// ground is where one row happens: two processes on a Redis, one that takes a lock and one
// that looks on, and a third one that all rows share, whose way is never broken. It fails the
// test from whatever goroutine.
type ground struct {
	*testing.T
	direct   *redis.Client
	own, far process
	other    process
	version  uint64
}

func (g *ground) Fatalf(format string, args ...any) {
	g.Helper()
	g.Errorf(format, args...)
	runtime.Goexit()
}

// newProcess starts an instance with one chain, named after its class.
func newProcess(redisAddr string, policy gateway.Policy, tune func(*redisstore.Config)) (p process, end func(), err error) {
	if p.way, err = way.To(redisAddr); err != nil {
		return p, nil, err
	}
	cfg := redisstore.Config{Addrs: []string{p.way.Addr()}, PoolSize: 16, Timeout: attempt, Dial: 2 * time.Second}
	tune(&cfg)
	if p.store, err = redisstore.New(cfg); err != nil {
		p.way.Close()
		return p, nil, err
	}
	name := policy.Ladder.Class.String()
	p.Gateway, err = gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{name: policy}, Logger: slog.New(slog.DiscardHandler),
		Stores: map[string]tierlock.Backend{"main": p.store}, Audit: new(gatewaytest.Audit),
	})
	if err != nil {
		_ = p.store.Close()
		p.way.Close()
		return p, nil, err
	}
	p.Chain, err = p.Gateway.Chain(name)
	return p, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = p.Close(ctx)
		_ = p.store.Close()
		p.way.Close()
	}, err
}

// policyOf is a policy of the class under which nothing below ends by its ttl.
func policyOf(class degrade.Class) gateway.Policy {
	p := gateway.Weak("one claim of a coupon per user at a time", gateway.Reconcile)
	if class == degrade.ClassStrong {
		p = gateway.Strong("one sale of a sku at a time", gateway.Fence)
	}
	p.TTL, p.Local.TTL, p.Local.Permits = 5*time.Minute, 4*time.Minute, 1
	p.Fencing, p.Attempt, p.LockDelay = true, attempt, -1
	return p
}

// order puts the taker's chain on a mode.
func (g *ground) order(mode tierlock.Mode) {
	g.Helper()
	g.version++
	doc := switchcfg.Document{Version: g.version, Chains: map[string]switchcfg.Directive{
		g.own.Name(): {Mode: mode, Until: time.Now().Add(time.Hour), Reason: "test", By: "test", BreakGlass: true},
	}}
	if err := g.own.Apply(doc); err != nil {
		g.Fatalf("%v: %v", mode, err)
	}
}

// become drives the taker's chain into a state, with calls of other ids if that takes any,
// and fails when it does not come there.
func (g *ground) become(want degrade.State, callers int) {
	g.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	for i := range callers {
		calls.Go(func() {
			for n := 0; ctx.Err() == nil && g.own.state() != want; n++ {
				l, _ := g.own.TryLock(ctx, fmt.Sprintf("other-%d-%d", i, n), gateway.WithoutRenew())
				_ = l.Unlock(ctx)
			}
		})
	}
	g.until("the chain is "+want.String(), func() bool { return g.own.state() == want })
}

// until waits for something that comes by itself.
func (g *ground) until(what string, ok func() bool) {
	g.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(soon); !ok(); <-tick.C {
		if time.Now().After(end) {
			g.Fatalf("not within %v: %s; it is %v", soon, what, g.own.state())
		}
	}
}

// keys counts what the store has of the lock.
func (g *ground) keys(key tierlock.Key) int64 {
	g.Helper()
	n, err := g.direct.Exists(context.Background(), key.String(), "{"+key.String()+"}:depth").Result()
	if err != nil {
		g.Fatalf("%v", err)
	}
	return n
}

// doubtful tells whether the taker's process has still to give something of the key back.
func (g *ground) doubtful(key tierlock.Key) bool {
	g.Helper()
	x, err := g.own.Explain(context.Background(), key)
	if err != nil {
		g.Fatalf("%v", err)
	}
	return x.Doubtful > 0
}

// left is what a lock has left behind: in its process, and in the store where what stands
// there is its own.
func (g *ground) left(key tierlock.Key, own bool) string {
	g.Helper()
	var rest []string
	if c := g.own.Status().Chains[0]; c.Live != 0 || c.Local != 0 {
		rest = append(rest, fmt.Sprintf("%d live, %d local", c.Live, c.Local))
	}
	switch {
	case g.doubtful(key):
		rest = append(rest, "a release that goes on")
	case own && g.keys(key) > 0:
		rest = append(rest, "its key")
	}
	if len(rest) == 0 {
		return "nothing"
	}
	return strings.Join(rest, "; ")
}
