package gateway_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

func TestNewReportsEveryFaultAtOnce(t *testing.T) {
	wrong := gateway.Strong("", 0)
	wrong.TTL, wrong.Wait, wrong.Attempt, wrong.RenewEvery, wrong.MaxHold, wrong.Budget = 100*time.Millisecond, 3*time.Second, 5*time.Second, time.Hour, 0, -1
	wrong.Ladder.OnDown, wrong.Ladder.Class = degrade.FallbackLocal, degrade.ClassStrong
	wrong.Local.Permits = -1
	lost := gateway.Weak("p", gateway.Cancel)
	lost.Store, lost.Ladder.Class = "nowhere", 0
	_, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{"order": wrong, "Coupon": lost},
		Stores: map[string]tierlock.Backend{"main": gatewaytest.NewStore()},
		Audit:  new(gatewaytest.Audit), Prefix: "a b",
	})
	if !errors.Is(err, tierlock.ErrInvalid) {
		t.Fatalf("got %v", err)
	}
	for _, field := range []string{
		"chains.order.protects", "chains.order.on_lost", "chains.order.ttl", "chains.order.wait", "chains.order.attempt",
		"chains.order.renew_every", "chains.order.max_hold", "chains.order.budget", "chains.order.on_down", "chains.order.local.permits",
		"chains.Coupon.name", "chains.Coupon.store", "chains.Coupon.class", "prefix",
	} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named in:\n%v", field, err)
		}
	}
}

func TestFaultsOfAConfigSayOnlyWhatIsKnown(t *testing.T) {
	_, err := gateway.New(gateway.Config{Chains: map[string]gateway.Policy{"order": gateway.Strong("p", 0)}, Audit: new(gatewaytest.Audit), Prefix: "a b"})
	want := []string{
		`tierlock: invalid stores: want at least one`,
		`tierlock: invalid prefix "a b": byte ' ' at 1 is not one of a-z A-Z 0-9 _ : . -`,
		`tierlock: invalid chains.order.on_lost: say cancel, fence or reconcile`,
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got\n%v", err)
	}
}

func TestPolicyLimits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*gateway.Policy)
		ok     bool
	}{
		"defaults":              {func(*gateway.Policy) {}, true},
		"shortest ttl":          {func(p *gateway.Policy) { p.TTL = time.Second }, true},
		"ttl too short":         {func(p *gateway.Policy) { p.TTL = 999 * time.Millisecond }, false},
		"longest ttl":           {func(p *gateway.Policy) { p.TTL = 10 * time.Minute }, true},
		"ttl too long":          {func(p *gateway.Policy) { p.TTL, p.MaxHold = 11*time.Minute, time.Hour }, false},
		"ttl under 3 attempts":  {func(p *gateway.Policy) { p.TTL, p.Attempt = time.Second, 400*time.Millisecond }, false},
		"ttl in microseconds":   {func(p *gateway.Policy) { p.TTL += time.Microsecond }, false},
		"no wait":               {func(p *gateway.Policy) { p.Wait = 0 }, true},
		"wait too long":         {func(p *gateway.Policy) { p.Wait = 2001 * time.Millisecond }, false},
		"never renewed":         {func(p *gateway.Policy) { p.RenewEvery = -1 }, true},
		"renewed too seldom":    {func(p *gateway.Policy) { p.RenewEvery = 8 * time.Second }, false},
		"renewed every attempt": {func(p *gateway.Policy) { p.RenewEvery = p.Attempt }, true},
		"renewed too often":     {func(p *gateway.Policy) { p.RenewEvery = time.Nanosecond }, false},
		"presets":               {func(p *gateway.Policy) { *p = p.Resource().Flow().Business() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := gateway.Weak("p", gateway.Reconcile)
			c.change(&p)
			if err := p.Validate(); (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestNewNeedsARecorderOrAuditOff(t *testing.T) {
	p := weak()
	cfg := gateway.Config{Chains: map[string]gateway.Policy{"c": p}, Stores: map[string]tierlock.Backend{"m": gatewaytest.NewStore()}}
	if _, err := gateway.New(cfg); !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), "chains.c.audit") {
		t.Errorf("got %v", err)
	}
	p.Audit.Record = audit.RecordOff
	cfg.Chains = map[string]gateway.Policy{"c": p}
	g, err := gateway.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close(context.Background()) }()
	if err := g.Apply(bypassFor(time.Hour, 1)); err != nil {
		t.Fatal(err)
	}
	c, _ := g.Chain("c")
	if _, err := c.TryLock(t.Context(), "a"); verdict(t, err).Reason != tierlock.ReasonUnrecorded {
		t.Errorf("bypass without a recorder: %v", err)
	}
}

func TestBadInputIsRefusedBeforeAnyIO(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		ctx := t.Context()
		calls := map[string]func() error{
			"id":       func() error { _, err := k.TryLock(ctx, "a b"); return err },
			"long id":  func() error { _, err := k.TryLock(ctx, strings.Repeat("x", 1<<20)); return err },
			"empty id": func() error { _, err := k.TryLock(ctx, ""); return err },
			"no work":  func() error { return k.Do(ctx, "a", nil) },
			"business": func() error {
				_, err := k.TryLock(ctx, "a", gateway.About(audit.Business{ID: strings.Repeat("x", 1<<20)}))
				return err
			},
			"NUL":               func() error { _, err := k.TryLock(ctx, "a", gateway.About(audit.Business{ID: "u\x001"})); return err },
			"no UTF-8":          func() error { _, err := k.TryLock(ctx, "a", gateway.About(audit.Business{Type: "c\xff"})); return err },
			"what was no UTF-8": func() error { _, err := k.TryLock(ctx, "a", gateway.About(audit.Business{Op: "\ufffd"})); return err },
			"ttl":               func() error { _, err := k.Lock(ctx, "a", gateway.WithTTL(time.Millisecond)); return err },
			"wait":              func() error { return k.Do(ctx, "a", nil, gateway.WithWait(time.Hour)) },
			"request id":        func() error { _, err := k.TryLock(ctx, "a", gateway.WithRequestID(tierlock.RequestID{})); return err },
			"chain":             func() error { _, err := k.Gateway.Chain("nope"); return err },
			"attach": func() error {
				key, _ := tierlock.ParseKey("biz:nope:lock:a")
				_, err := k.Attach(ctx, key, tierlock.NewRequestID())
				return err
			},
			"shape of a key": func() error {
				key, _ := tierlock.ParseKey("c:a")
				return k.DoShared(ctx, key, nil)
			},
		}
		for name, call := range calls {
			if err := call(); !errors.Is(err, tierlock.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", name, err)
			} else if len(err.Error()) > 1000 {
				t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
			}
		}
		if c := k.Store.Counts(); c.Acquire+c.Lookup != 0 {
			t.Errorf("the store was asked: %+v", c)
		}
	})
}

func TestPolicyHashTellsPoliciesApart(t *testing.T) {
	hash := func(p gateway.Policy) string {
		g, err := gateway.New(gateway.Config{Chains: map[string]gateway.Policy{"c": p}, Stores: map[string]tierlock.Backend{"m": gatewaytest.NewStore()}, Audit: new(gatewaytest.Audit)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = g.Close(context.Background()) }()
		return g.PolicyHash()
	}
	p, same, q := weak(), weak(), weak()
	q.Local.Permits = 1
	if hash(p) != hash(same) || hash(p) == hash(q) {
		t.Error("equal policies differ, or different ones do not")
	}
}
