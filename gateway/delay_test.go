package gateway_test

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/internal/servers"
)

func TestNothingIsGrantedAfterTheStoreForgot(t *testing.T) {
	unfenced := gateway.Strong("one sale of a sku at a time", gateway.Cancel)
	unfenced.Fencing = false
	never, said := unfenced, gateway.Strong("x", gateway.Fence)
	never.LockDelay, said.LockDelay = -1, 3*time.Second
	for name, c := range map[string]struct {
		policy gateway.Policy
		delay  time.Duration
	}{
		"strong without fencing": {unfenced, 15 * time.Second},
		"the same, never":        {never, 0},
		"strong with fencing":    {gateway.Strong("x", gateway.Fence), 0},
		"the same, 3 s":          {said, 3 * time.Second},
		"weak":                   {gateway.Weak("x", gateway.Reconcile), 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, c.policy, func(t *testing.T, k one) {
				_ = k.must("before").Unlock(t.Context())
				k.Store.Forget()
				if c.delay > 0 {
					time.Sleep(c.delay - time.Millisecond)
					asked := k.Store.Counts().Acquire
					if _, v := k.ask("a"); v.Outcome != tierlock.Timeout || v.Reason != tierlock.ReasonRecovering || v.RetryAfter != time.Millisecond {
						t.Errorf("a moment before the end: %+v", v)
					}
					if k.Store.Counts().Acquire != asked {
						t.Error("the store was asked all the same")
					}
					time.Sleep(time.Millisecond)
				}
				if tier, v := k.ask("a"); tier != tierlock.Shared {
					t.Errorf("after %v: %+v", c.delay, v)
				}
			})
		})
	}
}

// A real server that comes back empty: the grant that finds the new one out is not used.
func TestARealRedisForgets(t *testing.T) {
	servers.Need(t, "redis-server")
	server := servers.Redis(t)
	store, err := redisstore.New(redisstore.Config{Addrs: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	delayed := strong()
	delayed.LockDelay = 3 * time.Second
	g, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{"delayed": delayed, "fenced": strong()},
		Stores: map[string]tierlock.Backend{"main": store}, Audit: new(gatewaytest.Audit),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(t.Context()) })
	first := time.Now()
	waitFor(t, "a young server is old enough", func() bool { return served(t, chain(t, g, "delayed")) })
	if took := time.Since(first); took < time.Second || took > 4*time.Second { // its age is told in whole seconds
		t.Errorf("first granted after %v: not by the connection that found its age out, nor too late", took)
	}

	server.Kill()
	server.Restart()
	back := time.Now()
	for !served(t, chain(t, g, "delayed")) {
		if time.Since(back) > 10*time.Second {
			t.Fatal("nothing is granted any more")
		}
		pause(20 * time.Millisecond)
	}
	if took := time.Since(back); took < 2900*time.Millisecond {
		t.Errorf("granted %v after the restart", took)
	}
	waitFor(t, "the chain without a delay", func() bool { return served(t, chain(t, g, "fenced")) })
}
