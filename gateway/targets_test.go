package gateway_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

// parts is a store of two parts that fail alone: keys that end in "2" live in the second.
type parts struct{ one, two *gatewaytest.Store }

func (p *parts) Target(key tierlock.Key) string {
	if strings.HasSuffix(key.String(), "2") {
		return "two"
	}
	return "one"
}

func (p *parts) of(key tierlock.Key) *gatewaytest.Store {
	if p.Target(key) == "two" {
		return p.two
	}
	return p.one
}

func (p *parts) Traits() tierlock.Traits {
	t := p.one.Traits()
	t.Sharder, t.Prober, t.Wired = p, p, nil
	return t
}

func (p *parts) Probe(ctx context.Context, target string) error {
	if target == "two" {
		return p.two.Probe(ctx, "")
	}
	return p.one.Probe(ctx, "")
}

func (p *parts) Acquire(ctx context.Context, r tierlock.Request) (tierlock.Answer, error) {
	return p.of(r.Key).Acquire(ctx, r)
}

func (p *parts) Renew(ctx context.Context, holds []tierlock.Hold) ([]tierlock.Answer, error) {
	return p.of(holds[0].Key).Renew(ctx, holds) // the gateway never mixes targets in one Renew
}

func (p *parts) Release(ctx context.Context, h tierlock.Hold) (tierlock.Answer, error) {
	return p.of(h.Key).Release(ctx, h)
}

func (p *parts) Lookup(ctx context.Context, h tierlock.Hold) (tierlock.Answer, error) {
	return p.of(h.Key).Lookup(ctx, h)
}

func TestTargetsFailAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &parts{gatewaytest.NewStore(), gatewaytest.NewStore()}
		p := weak()
		p.TTL = 3 * time.Second
		g, err := gateway.New(gateway.Config{Chains: map[string]gateway.Policy{"c": p}, Stores: map[string]tierlock.Backend{"m": store}, Audit: new(gatewaytest.Audit)})
		if err != nil {
			t.Fatal(err)
		}
		c, _ := g.Chain("c")
		lock := func(id string) *gateway.Lock {
			l, err := c.TryLock(t.Context(), id)
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			return l
		}
		a1, a2 := lock("a1"), lock("a2")
		time.Sleep(10 * time.Second) // renewals go to the target of each
		if store.one.Keys() != 1 || store.two.Keys() != 1 {
			t.Fatalf("%d and %d keys held", store.one.Keys(), store.two.Keys())
		}
		store.two.Down(true)
		if tier := lock("b2").Grant().Tier; tier != tierlock.Local {
			t.Errorf("on the target that is down: tier %v", tier)
		}
		if tier := lock("b1").Grant().Tier; tier != tierlock.Shared {
			t.Errorf("on the other: tier %v", tier)
		}
		s := g.Status().Chains[0]
		if len(s.Targets) != 2 || s.Targets[0].State != degrade.Normal || s.Targets[1].State != degrade.Down || s.Tier() != tierlock.Local {
			t.Errorf("status %+v", s)
		}
		if err := a1.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		if err := a2.Unlock(t.Context()); err == nil {
			t.Error("unlock on the target that is down told nothing")
		}
		store.two.Mend()
		if err := g.Close(t.Context()); err != nil { // waits for the release that was put off
			t.Error(err)
		}
		if n := store.two.Keys(); n != 0 {
			t.Errorf("%d keys left", n)
		}
	})
}

func TestALineOfHealthSaysNothingTwice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		whole bool // the store has no parts
		line  string
	}{
		"a store of parts": {false, `level=WARN msg="health changed" chain=c store=main target=one from=normal to=down after=0s`},
		"a whole store":    {true, `level=WARN msg="health changed" chain=c store=main from=normal to=down after=0s`},
	} {
		synctest.Test(t, func(t *testing.T) {
			one := gatewaytest.NewStore()
			var store tierlock.Backend = one
			if !c.whole {
				store = &parts{one, gatewaytest.NewStore()}
			}
			var out bytes.Buffer
			g, err := gateway.New(gateway.Config{
				Chains: map[string]gateway.Policy{"c": weak()}, Stores: map[string]tierlock.Backend{"main": store},
				Audit: new(gatewaytest.Audit), Logger: slog.New(slog.NewTextHandler(&out, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			chain, _ := g.Chain("c")
			one.Down(true)
			lock, _ := chain.TryLock(t.Context(), "1")
			_ = lock.Unlock(t.Context())
			one.Mend()
			_ = g.Close(t.Context())
			if !strings.Contains(out.String(), c.line+"\n") {
				t.Errorf("%s:\n%s", name, out.String())
			}
		})
	}
}
