package drills

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
)

// servedAgain is how soon a store that is back serves whoever has no local holder in the way.
// A short run may have a busy machine, and is judged by that it comes to it.
func servedAgain() time.Duration { return lasts(20*time.Second, 5*time.Second) }

// instance is one gateway as an instance of a service has it: strong payments, orders with a
// version guard, and weak coupons, on one Redis behind a way of its own.
type instance struct {
	t                         *testing.T
	way                       *way.Way
	gw                        *gateway.Gateway
	trail                     *gatewaytest.Audit
	payments, orders, coupons *gateway.Chain
	heard                     heard
}

// pool is how many connections an instance may have, where nothing else is said.
const pool = 16

// setup changes what an instance is made of.
type setup struct {
	store   func(*redisstore.Config)
	policy  func(name string, p *gateway.Policy)
	gateway func(*gateway.Config)
}

// newInstance opens an instance and has each of its chains served once.
func newInstance(t *testing.T, server *servers.RedisServer, with setup) *instance {
	t.Helper()
	w, err := way.To(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return behind(t, w, with)
}

// behind opens an instance behind a way that there is.
func behind(t *testing.T, w *way.Way, with setup) *instance {
	t.Helper()
	i := &instance{t: t, way: w, trail: new(gatewaytest.Audit)}
	cfg := redisstore.Config{Addrs: []string{w.Addr()}, PoolSize: pool}
	if with.store != nil {
		with.store(&cfg)
	}
	store, err := redisstore.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	orders := gateway.Strong("one sale of a sku at a time", gateway.Fence)
	orders.Ladder.VersionGuard = true
	coupons := gateway.Weak("one claim of a coupon per user at a time", gateway.Reconcile)
	coupons.Local.Permits = 1
	chains := map[string]gateway.Policy{
		"payment": gateway.Strong("one payment of an order at a time", gateway.Fence), "order": orders, "coupon": coupons,
	}
	for name, p := range chains {
		p.TTL = time.Minute // so that nothing below is freed by its ttl alone
		if with.policy != nil {
			with.policy(name, &p)
		}
		chains[name] = p
	}
	all := gateway.Config{
		Chains: chains, Stores: map[string]tierlock.Backend{"main": store}, Audit: i.trail, Hooks: i.heard.hooks(),
	}
	if with.gateway != nil {
		with.gateway(&all)
	}
	i.gw, err = gateway.New(all)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = i.gw.Close(ctx)
		i.heard.whole(t)
	})
	for name, into := range map[string]**gateway.Chain{"payment": &i.payments, "order": &i.orders, "coupon": &i.coupons} {
		if *into, err = i.gw.Chain(name); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, name+" is served by the store", func() bool { return served(*into) })
	}
	return i
}

// served tells whether the chain serves on the shared tier now.
func served(c *gateway.Chain) bool {
	tier, err := once(c, "served"+tierlock.NewRequestID().Fingerprint())
	return err == nil && tier == tierlock.Shared
}

// once locks and unlocks, and tells on which tier.
func once(c *gateway.Chain, id string) (tierlock.Tier, error) {
	l, err := c.TryLock(context.Background(), id)
	tier := l.Grant().Tier
	_ = l.Unlock(context.Background())
	return tier, err
}

// reasonOf is the reason of a verdict; empty for a grant.
func reasonOf(err error) tierlock.Reason {
	if e, ok := errors.AsType[*tierlock.Error](err); ok {
		return e.Reason
	}
	return ""
}

// state is the health of the one store as the chain of that name sees it.
func (i *instance) state(chain string) degrade.State {
	for _, c := range i.gw.Status().Chains {
		if c.Chain == chain {
			return c.Targets[0].State
		}
	}
	return 0
}

// serves waits until every chain is served by the store.
func (i *instance) serves(within time.Duration) {
	i.t.Helper()
	for _, c := range []*gateway.Chain{i.payments, i.orders, i.coupons} {
		eventually(i.t, within, c.Name()+" is served by the store", func() bool { return served(c) })
	}
}

// crowd has n callers do the same until stop is called, which waits for them.
func crowd(n int, each func(caller, turn int)) (stop func()) {
	over := make(chan struct{})
	var all sync.WaitGroup
	for caller := range n {
		all.Go(func() {
			for turn := 0; ; turn++ {
				select {
				case <-over:
					return
				default:
					each(caller, turn)
				}
			}
		})
	}
	return sync.OnceFunc(func() { close(over); all.Wait() })
}

// ids of one caller never meet another's.
func own(caller, turn int) string { return strconv.Itoa(caller) + "-" + strconv.Itoa(turn) }
