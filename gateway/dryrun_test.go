package gateway_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/switchcfg"
)

// rehearse is a document whose order on c nobody obeys.
func rehearse(mode tierlock.Mode, percent uint8, version uint64, span time.Duration) switchcfg.Document {
	return switchcfg.Document{Version: version, Chains: map[string]switchcfg.Directive{"c": {
		Mode: mode, Percent: &percent, Until: time.Now().Add(span), Reason: "before the sale", By: "oncall", DryRun: true,
	}}}
}

func TestADryRunCountsWhatWouldHaveHappenedAndChangesNothing(t *testing.T) {
	var hook heard[gateway.OrderInfo]
	bubble(t, weak(), func(t *testing.T, k one) {
		if err := k.Apply(rehearse(tierlock.ModeBypass, 100, 1, time.Hour)); err != nil {
			t.Fatal(err)
		}
		held := k.must("held")
		for range 3 {
			if tier, _ := k.ask("a"); tier != tierlock.Shared {
				t.Fatalf("tier %v: it is obeyed", tier)
			}
		}
		if _, v := k.ask("held"); v.Outcome != tierlock.Failure {
			t.Fatalf("%v", v.Outcome)
		}
		_ = held.Unlock(t.Context())
		s := k.Status().Chains[0]
		want := []gateway.RehearsedCalls{{Would: tierlock.Bypass, Got: tierlock.Success, Count: 4}, {Would: tierlock.Bypass, Got: tierlock.Failure, Count: 1}}
		if s.Order.Mode != 0 || s.DryRun == nil || len(s.DryRun.Calls) != 2 || s.DryRun.Calls[0] != want[0] || s.DryRun.Calls[1] != want[1] {
			t.Errorf("%+v", s.DryRun)
		}
		if orders := hook.told(); len(orders) != 0 {
			t.Errorf("told of orders: %+v", orders)
		}
		if err := k.Apply(rehearse(tierlock.ModeReject, 100, 2, time.Hour)); err != nil {
			t.Fatal(err)
		}
		k.ask("a")
		if c := k.Status().Chains[0].DryRun.Calls; len(c) != 1 || c[0] != (gateway.RehearsedCalls{Would: 0, Got: tierlock.Success, Count: 1}) {
			t.Errorf("another dry run: %+v", c)
		}
		if err := k.Apply(bypassFor(time.Hour, 3)); err != nil {
			t.Fatal(err)
		}
		if tier, _ := k.ask("a"); tier != tierlock.Bypass || k.Status().Chains[0].DryRun != nil {
			t.Errorf("in earnest: tier %v, %+v", tier, k.Status().Chains[0].DryRun)
		}
	}, gateway.Hooks{Ordered: hook.hear})
}

func TestADryRunCoversItsShareOfKeysAndIsJudgedLikeAnOrder(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		if err := k.Apply(rehearse(tierlock.ModeLocal, 30, 1, time.Hour)); err != nil {
			t.Fatal(err)
		}
		var want int64
		for range 300 {
			id := tierlock.NewRequestID().Fingerprint()
			l := k.must(id)
			if l.Grant().Key.Hash()%100 < 30 {
				want++
			}
			_ = l.Unlock(t.Context())
		}
		c := k.Status().Chains[0].DryRun.Calls
		if want == 0 || len(c) != 1 || c[0] != (gateway.RehearsedCalls{Would: tierlock.Local, Got: tierlock.Success, Count: want}) {
			t.Errorf("%+v, want %d", c, want)
		}
	})
	bubble(t, strong(), func(t *testing.T, k one) {
		if err := k.Apply(rehearse(tierlock.ModeBypass, 100, 1, time.Hour)); err == nil || !strings.Contains(err.Error(), "break_glass") {
			t.Errorf("%v, want what the order itself would meet", err)
		}
	})
}

func TestADryRunEndsByItselfAndTellsItsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out safeBuffer
		g, err := gateway.New(gateway.Config{
			Chains: map[string]gateway.Policy{"c": weak()}, Stores: map[string]tierlock.Backend{"m": gatewaytest.NewStore()},
			Audit: new(gatewaytest.Audit), Logger: slog.New(slog.NewTextHandler(&out, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		c, _ := g.Chain("c")
		if err := g.Apply(rehearse(tierlock.ModeBypass, 100, 7, time.Minute)); err != nil {
			t.Fatal(err)
		}
		l, err := c.TryLock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Unlock(t.Context())
		time.Sleep(61 * time.Second)
		if g.Status().Chains[0].DryRun != nil {
			t.Error("it goes on")
		}
		if !strings.Contains(out.String(), `msg="dry run ended" chain=c mode=bypass version=7 would_bypass_got_success=1`) {
			t.Errorf("log:\n%s", out.String())
		}
		_ = g.Close(context.Background())
	})
}
