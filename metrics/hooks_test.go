package metrics

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
	"github.com/tierlock/tierlock/switchcfg"
)

func fresh(t testing.TB) (*Metrics, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	m, err := New(reg)
	if err != nil {
		t.Fatal(err)
	}
	return m, reg
}

// scrape is what a Prometheus server would read.
func scrape(t testing.TB, reg *prometheus.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("scrape: %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// shows compares the series of one metric.
func shows(t *testing.T, reg *prometheus.Registry, name, want string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(scrape(t, reg)) {
		if strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ") {
			got = append(got, line)
		}
	}
	if want = strings.ReplaceAll(strings.TrimSpace(want), "\t", "") + "\n"; strings.Join(got, "") != want {
		t.Errorf("%s shows\n%swant\n%s", name, strings.Join(got, ""), want)
	}
}

// sums returns sum and count of a histogram's only series.
func sums(t *testing.T, reg *prometheus.Registry, name string) (sum float64, count uint64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			h := f.GetMetric()[0].GetHistogram()
			return h.GetSampleSum(), h.GetSampleCount()
		}
	}
	t.Fatalf("no %s", name)
	return 0, 0
}

func TestEveryHookMovesItsMetrics(t *testing.T) {
	m, reg := fresh(t)
	h := m.Hooks()
	held := tierlock.Verdict{Outcome: tierlock.Failure, Tier: tierlock.Shared, Reason: tierlock.ReasonHeld}
	h.Acquired(gateway.AcquireInfo{Chain: "order", Verdict: held, Took: 320 * time.Millisecond, Waited: 300 * time.Millisecond})
	h.Acquired(gateway.AcquireInfo{Chain: "order", Verdict: tierlock.Verdict{Outcome: tierlock.SystemError, Reason: tierlock.ReasonDown}})
	g := tierlock.Grant{Chain: "order", Tier: tierlock.Shared}
	lost := &tierlock.Error{Op: "release", Verdict: tierlock.Verdict{Outcome: tierlock.Failure, Reason: tierlock.ReasonLost}}
	for _, left := range []time.Duration{time.Second, 100 * time.Millisecond, 99 * time.Millisecond, 0, -time.Second} {
		h.Released(gateway.ReleaseInfo{Grant: g, TTL: 10 * time.Second, Held: 10*time.Second - left, Left: left})
	}
	h.Released(gateway.ReleaseInfo{Grant: g, Left: time.Second, Err: lost})
	h.Released(gateway.ReleaseInfo{Grant: g, Left: time.Second, Passed: true})
	h.Released(gateway.ReleaseInfo{Grant: g, Left: time.Second, Err: &tierlock.Fault{Reason: tierlock.ReasonBroken}})
	h.Renewed(gateway.RenewInfo{Grant: g})
	h.Renewed(gateway.RenewInfo{Grant: g, Err: lost})
	h.Renewed(gateway.RenewInfo{Grant: g, Err: errors.New("no answer")})
	h.Lost(gateway.LostInfo{Grant: g, Cause: tierlock.ErrLost})
	h.Stepped(gateway.StepInfo{Chain: "order", Transition: degrade.Transition{From: degrade.Normal, To: degrade.Down, Reason: tierlock.ReasonDown, Dwell: 40 * time.Second}})
	h.Acquired(gateway.AcquireInfo{Chain: "trial", Verdict: held, Observed: tierlock.ReasonDown, Instead: tierlock.Local})
	h.Acquired(gateway.AcquireInfo{Chain: "trial", Verdict: held, Observed: tierlock.ReasonSaturated})
	h.Acquired(gateway.AcquireInfo{Chain: "trial", Verdict: held, Spared: true})
	h.Ordered(gateway.OrderInfo{Chain: "order", Order: degrade.Order{Mode: tierlock.ModeBypass}})
	h.Ordered(gateway.OrderInfo{Chain: "order"})
	h.Settled(gateway.SettleInfo{Chain: "order", Status: tierlock.Released})
	h.Settled(gateway.SettleInfo{Chain: "order"})
	h.Reported(switchcfg.Report{Version: 1})
	h.Reported(switchcfg.Report{Fault: &switchcfg.Fault{Why: switchcfg.WhyOlder}})
	m.AuditHooks().Synced(audit.SyncInfo{Took: 3 * time.Millisecond})

	shows(t, reg, acquires, `
		tierlock_acquires_total{chain="order",outcome="failure",reason="held",tier="shared"} 1
		tierlock_acquires_total{chain="order",outcome="system_error",reason="down",tier="none"} 1
		tierlock_acquires_total{chain="trial",outcome="failure",reason="held",tier="shared"} 3`)
	shows(t, reg, spared, `
		tierlock_spared_total{chain="trial"} 1`)
	shows(t, reg, observed, `
		tierlock_observed_total{chain="trial",reason="down",tier="local"} 1
		tierlock_observed_total{chain="trial",reason="saturated",tier="refused"} 1`)
	shows(t, reg, releases, `
		tierlock_releases_total{chain="order",margin="expired"} 2
		tierlock_releases_total{chain="order",margin="ok"} 5
		tierlock_releases_total{chain="order",margin="tight"} 1`)
	shows(t, reg, renewals, `
		tierlock_renewals_total{chain="order",result="error"} 1
		tierlock_renewals_total{chain="order",result="lost"} 1
		tierlock_renewals_total{chain="order",result="ok"} 1`)
	shows(t, reg, unlockFailures, `
		tierlock_unlock_failures_total{chain="order",reason="broken"} 1
		tierlock_unlock_failures_total{chain="order",reason="lost"} 1`)
	shows(t, reg, handOvers, `tierlock_hand_overs_total{chain="order"} 1`)
	shows(t, reg, losses, `tierlock_lost_total{chain="order",reason="lost"} 1`)
	shows(t, reg, transitions, `tierlock_transitions_total{chain="order",from="normal",reason="down",target="",to="down"} 1`)
	shows(t, reg, switchOrders, `
		tierlock_switch_orders_total{chain="order",mode="auto"} 1
		tierlock_switch_orders_total{chain="order",mode="bypass"} 1`)
	shows(t, reg, switchFetches, `
		tierlock_switch_fetches_total{result="conflict"} 0
		tierlock_switch_fetches_total{result="empty"} 0
		tierlock_switch_fetches_total{result="expired"} 0
		tierlock_switch_fetches_total{result="invalid"} 0
		tierlock_switch_fetches_total{result="ok"} 1
		tierlock_switch_fetches_total{result="older"} 1
		tierlock_switch_fetches_total{result="refused"} 0
		tierlock_switch_fetches_total{result="unanswered"} 0
		tierlock_switch_fetches_total{result="unreadable"} 0
		tierlock_switch_fetches_total{result="unsigned"} 0`)
	shows(t, reg, settled, `
		tierlock_settled_total{chain="order",status="given_up"} 1
		tierlock_settled_total{chain="order",status="released"} 1`)
	for name, want := range map[string]struct {
		sum   float64
		count uint64
	}{
		acquireDuration: {.02, 1}, // without the 300 ms spent waiting for the holder
		waitDuration:    {.3, 1},
		holdRatio:       {.9 + .99 + .9901 + 1 + 1.1, 5},
		spoolFsync:      {.003, 1},
		dwell:           {40, 1},
	} {
		if sum, count := sums(t, reg, name); sum < want.sum-1e-6 || sum > want.sum+1e-6 || count != want.count {
			t.Errorf("%s: sum %v of %d, want %v of %d", name, sum, count, want.sum, want.count)
		}
	}
}

// TestAGatewayIsObserved: every metric of the table shows after one look at a live
// gateway, a log and a job, lints clean, and starts at zero for every chain.
func TestAGatewayIsObserved(t *testing.T) {
	m, reg := fresh(t)
	m.Build("v1.2.3")
	kit := gatewaytest.New(t, map[string]gateway.Policy{"coupon": gateway.Weak("one claim at a time", gateway.Reconcile)}, m.Hooks())
	if err := m.Observe(kit.Gateway, nil, nil); err != nil {
		t.Fatal(err)
	}
	c, err := kit.Chain("coupon")
	if err != nil {
		t.Fatal(err)
	}
	shows(t, reg, releases, `
		tierlock_releases_total{chain="coupon",margin="expired"} 0
		tierlock_releases_total{chain="coupon",margin="ok"} 0
		tierlock_releases_total{chain="coupon",margin="tight"} 0`)
	l, err := c.TryLock(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	shows(t, reg, heldLocks, `tierlock_held_locks{chain="coupon"} 1`)
	if err := l.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	kit.Force("coupon", tierlock.ModeBypass)
	shows(t, reg, switchVersion, `tierlock_switch_version 1`)
	shows(t, reg, tierActive, `
		tierlock_tier_active{chain="coupon",target="",tier="bypass"} 1
		tierlock_tier_active{chain="coupon",target="",tier="local"} 0
		tierlock_tier_active{chain="coupon",target="",tier="optimistic"} 0
		tierlock_tier_active{chain="coupon",target="",tier="refused"} 0
		tierlock_tier_active{chain="coupon",target="",tier="shared"} 0`)
	shows(t, reg, switchMode, `
		tierlock_switch_mode{chain="coupon",mode="auto"} 0
		tierlock_switch_mode{chain="coupon",mode="bypass"} 1
		tierlock_switch_mode{chain="coupon",mode="local"} 0
		tierlock_switch_mode{chain="coupon",mode="optimistic"} 0
		tierlock_switch_mode{chain="coupon",mode="reject"} 0
		tierlock_switch_mode{chain="coupon",mode="shared"} 0`)
}

// TestEveryRowOfTheTableShows: no row is a promise nobody keeps.
func TestEveryRowOfTheTableShows(t *testing.T) {
	m, reg := fresh(t)
	m.Build("v1")
	hooks := m.Hooks()
	hooks.Stepped(gateway.StepInfo{Chain: "coupon", Transition: degrade.Transition{From: degrade.Normal, To: degrade.Slow}})
	hooks.Acquired(gateway.AcquireInfo{Chain: "coupon", Observed: tierlock.ReasonDown})
	hooks.Ordered(gateway.OrderInfo{Chain: "coupon"})
	hooks.Settled(gateway.SettleInfo{Chain: "coupon"})
	hooks.Replaced(gateway.ReplaceInfo{Store: "main"})
	kit := gatewaytest.New(t, map[string]gateway.Policy{"coupon": gateway.Weak("one claim at a time", gateway.Reconcile)})
	rehearse(t, kit)
	log, err := audit.Open(audit.Config{Dir: t.TempDir(), Hooks: m.AuditHooks()})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close(t.Context())
	job, err := reconcile.New(reconcile.Config{Source: nothing{}, Findings: []reconcile.Findings{nothing{}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Observe(kit.Gateway, log, job); err != nil {
		t.Fatal(err)
	}
	text := scrape(t, reg)
	if want := `tierlock_switch_dry_run_calls{chain="coupon",outcome="success",tier="bypass"} 1`; !strings.Contains(text, want) {
		t.Errorf("the scrape lacks %s", want)
	}
	if want := `tierlock_policy_info{hash="` + kit.PolicyHash() + `"} 1`; !strings.Contains(text, want) {
		t.Errorf("the scrape lacks %s", want)
	}
	for _, row := range Table() {
		if !strings.Contains(text, "# TYPE "+row.Name+" "+row.Kind.String()+"\n") {
			t.Errorf("%s does not show", row.Name)
		}
	}
	servers.Need(t, "promtool")
	lint := exec.Command("promtool", "check", "metrics")
	lint.Stdin = strings.NewReader(text)
	if out, err := lint.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// rehearse begins a dry run and makes a call that it counts.
func rehearse(t *testing.T, kit *gatewaytest.Kit) {
	t.Helper()
	if err := kit.Apply(switchcfg.Document{Version: 1, Chains: map[string]switchcfg.Directive{"coupon": {
		Mode: tierlock.ModeBypass, Until: time.Now().Add(time.Hour), Reason: "r", By: "b", DryRun: true,
	}}}); err != nil {
		t.Fatal(err)
	}
	c, err := kit.Chain("coupon")
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.TryLock(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// nothing is a source and a store of findings that a job may have and not use.
type nothing struct {
	reconcile.Source
	reconcile.Findings
}

func TestATakenRegistererIsAnError(t *testing.T) {
	_, reg := fresh(t)
	if _, err := New(reg); err == nil {
		t.Error("a second table on one registerer was accepted")
	}
}

func BenchmarkHooks(b *testing.B) {
	m, _ := fresh(b)
	h := m.Hooks()
	acquired := gateway.AcquireInfo{Chain: "order", Verdict: tierlock.Verdict{Outcome: tierlock.Success, Tier: tierlock.Shared}, Took: time.Millisecond}
	released := gateway.ReleaseInfo{Grant: tierlock.Grant{Chain: "order", Tier: tierlock.Shared}, TTL: 15 * time.Second, Held: time.Second, Left: 14 * time.Second}
	b.ReportAllocs()
	for b.Loop() {
		h.Acquired(acquired)
		h.Released(released)
	}
}

func TestHooksAllocateNothing(t *testing.T) {
	m, _ := fresh(t)
	h := m.Hooks()
	info := gateway.AcquireInfo{Chain: "order", Verdict: tierlock.Verdict{Outcome: tierlock.Success, Tier: tierlock.Shared}, Took: time.Millisecond, Waited: time.Microsecond}
	end := gateway.ReleaseInfo{Grant: tierlock.Grant{Chain: "order", Tier: tierlock.Shared}, TTL: 15 * time.Second, Held: time.Second, Left: 14 * time.Second}
	if n := testing.AllocsPerRun(100, func() { h.Acquired(info); h.Released(end); h.Renewed(gateway.RenewInfo{Grant: end.Grant}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
