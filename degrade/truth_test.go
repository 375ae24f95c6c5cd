package degrade_test

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
)

// epoch is where the clock of every test here starts.
var epoch = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

// answer is what a caller sees of one attempt, as the truth table words it.
type answer struct {
	tier    tierlock.Tier // that is asked; 0: nobody
	outcome tierlock.Outcome
	advice  tierlock.Advice
}

var (
	held       = answer{tierlock.Shared, tierlock.Failure, tierlock.AdviseRetry}
	optimistic = answer{tierlock.Optimistic, tierlock.Timeout, tierlock.AdviseOptimistic}
	local      = answer{tier: tierlock.Local}
	bypass     = answer{tier: tierlock.Bypass}
	refused    = answer{0, tierlock.SystemError, tierlock.AdviseFail}
	// An attempt that went to the store, or would have, and got no answer.
	timeout         = answer{tierlock.Shared, tierlock.Timeout, tierlock.AdviseFail}
	askedOptimistic = answer{tierlock.Shared, tierlock.Timeout, tierlock.AdviseOptimistic}
)

// TestTruthTable walks the table that says what one attempt meets and what its caller
// gets. Rows where the store or the sensor answers take the refusal for their reason.
func TestTruthTable(t *testing.T) {
	guarded := degrade.Strong()
	guarded.VersionGuard = true
	classes := []struct {
		name   string
		policy degrade.Policy
	}{{"strong", degrade.Strong()}, {"strong with version guard", guarded}, {"weak", degrade.Weak()}}

	rows := []struct {
		target string
		run    []degrade.Signals // one look each, 200 ms apart unless At is set
		order  tierlock.Mode
		asked  tierlock.Reason // what the store or the sensor then says; empty: nobody was asked
		admit  degrade.Admit
		reason tierlock.Reason
		want   [3]answer
	}{
		{target: "answers held", asked: tierlock.ReasonHeld, want: [3]answer{held, held, held}},
		{
			target: "no answer, probes fine, fewer than 5 in 1 s", run: looks(1, degrade.Signals{Timeouts: 4, Probes: 1}),
			asked: tierlock.ReasonAttempt, want: [3]answer{timeout, askedOptimistic, askedOptimistic},
		},
		{
			target: "slow, not among the few that try", run: looks(1, degrade.Signals{Timeouts: 5, Probes: 1}),
			asked: tierlock.ReasonSlow, admit: degrade.AdmitTrickle, reason: tierlock.ReasonSlow,
			want: [3]answer{timeout, askedOptimistic, askedOptimistic},
		},
		{
			target: "slow with a full wire stays slow", run: looks(60, degrade.Signals{Timeouts: 5, Occupancy: 1}),
			asked: tierlock.ReasonSlow, admit: degrade.AdmitTrickle, reason: tierlock.ReasonSlow,
			want: [3]answer{timeout, askedOptimistic, askedOptimistic},
		},
		{
			target: "full wire for less than 5 s", run: looks(25, degrade.Signals{Occupancy: .95}),
			asked: tierlock.ReasonSaturated, want: [3]answer{timeout, askedOptimistic, askedOptimistic},
		},
		{
			target: "saturated", run: looks(26, degrade.Signals{Occupancy: .95}), reason: tierlock.ReasonSaturated,
			want: [3]answer{refused, optimistic, local},
		},
		{
			target: "down at the first refusal", run: looks(1, degrade.Signals{Refused: true}), reason: tierlock.ReasonDown,
			want: [3]answer{refused, optimistic, local},
		},
		{
			target: "4 resets are no outage", run: looks(1, degrade.Signals{Failures: 4}), asked: tierlock.ReasonHeld,
			want: [3]answer{held, held, held},
		},
		{
			target: "down by 5 resets", run: looks(1, degrade.Signals{Failures: 5}), reason: tierlock.ReasonBroken,
			want: [3]answer{refused, optimistic, local},
		},
		{
			target: "down by one failed probe", run: looks(1, degrade.Signals{ProbeFailed: true}), reason: tierlock.ReasonDown,
			want: [3]answer{refused, optimistic, local},
		},
		{
			target: "down by a second of silence, though attempts time out", reason: tierlock.ReasonDown,
			run:  looks(1, degrade.Signals{Timeouts: 64, Unanswered: time.Second}),
			want: [3]answer{refused, optimistic, local},
		},
		{
			target: "breaker open", run: looks(1, degrade.Signals{Open: true, Failures: 5}), reason: tierlock.ReasonOpen,
			want: [3]answer{refused, optimistic, local},
		},
		{
			target: "recovering, not admitted", run: append(looks(1, degrade.Signals{Refused: true}), looks(1, degrade.Signals{Probes: 1})...),
			asked: tierlock.ReasonRecovering, admit: degrade.AdmitRamp, reason: tierlock.ReasonRecovering,
			want: [3]answer{timeout, askedOptimistic, askedOptimistic},
		},
		{
			target: "ordered to bypass, broken glass on strong chains", order: tierlock.ModeBypass, reason: tierlock.ReasonForced,
			want: [3]answer{bypass, bypass, bypass},
		},
		{
			target: "ordered to local over a store that is down", order: tierlock.ModeLocal, run: looks(1, degrade.Signals{Refused: true}),
			reason: tierlock.ReasonForced, want: [3]answer{local, local, local},
		},
		{
			target: "ordered to optimistic", order: tierlock.ModeOptimistic, reason: tierlock.ReasonForced,
			want: [3]answer{optimistic, optimistic, optimistic},
		},
		{
			target: "ordered to reject", order: tierlock.ModeReject, reason: tierlock.ReasonForced,
			want: [3]answer{refused, refused, refused},
		},
		{
			target: "ordered to shared over a store that is down", order: tierlock.ModeShared, run: looks(1, degrade.Signals{Refused: true}),
			asked: tierlock.ReasonHeld, reason: tierlock.ReasonForced, want: [3]answer{held, held, held},
		},
	}
	for _, row := range rows {
		t.Run(row.target, func(t *testing.T) {
			for i, class := range classes {
				p := class.policy
				m, at := follow(&p, row.run)
				o := degrade.Order{Mode: row.order, Until: at.Add(time.Minute)}
				r := degrade.Decide(&p, &o, &m, at, 42)
				if got := see(&p, r, row.asked); got != row.want[i] {
					t.Errorf("%s: got %+v, want %+v (route %+v)", class.name, got, row.want[i], r)
				}
				if r.Admit != row.admit || r.Reason != row.reason {
					t.Errorf("%s: admit %d for %q, want %d for %q", class.name, r.Admit, r.Reason, row.admit, row.reason)
				}
			}
		})
	}
}

// see is what the caller gets: the route's own verdict, or that of what was asked.
func see(p *degrade.Policy, r degrade.Route, asked tierlock.Reason) answer {
	v := r.Verdict
	if r.Tier == tierlock.Shared {
		v = p.Refusal(asked)
	}
	return answer{r.Tier, v.Outcome, v.Advice}
}

// looks repeats s.
func looks(n int, s degrade.Signals) []degrade.Signals {
	run := make([]degrade.Signals, n)
	for i := range run {
		run[i] = s
	}
	return run
}

// follow takes a new machine through run, 200 ms from look to look, and returns it with
// the time of the last.
func follow(p *degrade.Policy, run []degrade.Signals) (degrade.Machine, time.Time) {
	m, at := degrade.Start(epoch), epoch
	for i, s := range run {
		if i > 0 {
			at = at.Add(200 * time.Millisecond)
		}
		s.At = at
		m, _, _ = m.Step(p, s)
	}
	return m, at
}

func TestWeakChainFollowsItsFallbacks(t *testing.T) {
	for _, c := range []struct {
		fallback degrade.Fallback
		want     answer
		asked    tierlock.Outcome // for reason down, where an order keeps the chain on shared
	}{
		{degrade.FallbackLocal, local, tierlock.SystemError},
		{degrade.FallbackOptimistic, optimistic, tierlock.Timeout},
		{degrade.FallbackFail, refused, tierlock.SystemError},
	} {
		t.Run(c.fallback.String(), func(t *testing.T) {
			down, full := degrade.Weak(), degrade.Weak()
			down.OnDown, full.OnSaturated = c.fallback, c.fallback
			m, at := follow(&down, looks(1, degrade.Signals{Refused: true}))
			if got := see(&down, degrade.Decide(&down, nil, &m, at, 0), ""); got != c.want {
				t.Errorf("down: got %+v, want %+v", got, c.want)
			}
			m, at = follow(&full, looks(26, degrade.Signals{Occupancy: 1}))
			if got := see(&full, degrade.Decide(&full, nil, &m, at, 0), ""); got != c.want {
				t.Errorf("saturated: got %+v, want %+v", got, c.want)
			}
			if got := down.Refusal(tierlock.ReasonDown); got.Outcome != c.asked {
				t.Errorf("refusal for down: %+v, want %v", got, c.asked)
			}
			broken := tierlock.Timeout
			if c.fallback == degrade.FallbackFail {
				broken = tierlock.SystemError
			}
			if got := down.Refusal(tierlock.ReasonBroken); got.Outcome != broken {
				t.Errorf("refusal for broken: %+v, want %v", got, broken)
			}
		})
	}
}

// A wire that is full is met one call at a time for each key, where the chain says so, and
// only while it is full; whoever finds no place is told what a full wire is told.
func TestCoalescingStaysWithTheStore(t *testing.T) {
	p := degrade.Weak()
	p.OnSaturated = degrade.FallbackCoalesce
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	full := looks(26, degrade.Signals{Occupancy: 1})
	m, at := follow(&p, full)
	want := degrade.Route{Tier: tierlock.Shared, Admit: degrade.AdmitOne, Reason: tierlock.ReasonSaturated}
	if got := degrade.Decide(&p, nil, &m, at, 0); got != want {
		t.Errorf("saturated: %+v, want %+v", got, want)
	}
	if got := p.Refusal(tierlock.ReasonSaturated); got.Outcome != tierlock.Timeout || got.Advice != tierlock.AdviseOptimistic {
		t.Errorf("without a place: %+v", got)
	}
	forced := degrade.Order{Mode: tierlock.ModeShared, Until: at.Add(time.Minute)}
	if got := degrade.Decide(&p, &forced, &m, at, 0); got.Admit != degrade.AdmitAll {
		t.Errorf("ordered to the store: %+v", got)
	}
	p.Observe = true
	if got := degrade.Decide(&p, nil, &m, at, 0); got.Admit != degrade.AdmitAll || got.Observed != tierlock.ReasonSaturated || got.Instead != tierlock.Shared {
		t.Errorf("on observe: %+v", got)
	}
	p.Observe = false
	m, at = follow(&p, append(full, looks(12, degrade.Signals{})...))
	if got := degrade.Decide(&p, nil, &m, at, 0); got != (degrade.Route{Tier: tierlock.Shared}) {
		t.Errorf("two seconds after: %+v", got)
	}
	m, at = follow(&p, append(full, degrade.Signals{Refused: true}))
	if got := degrade.Decide(&p, nil, &m, at, 0); got.Tier != tierlock.Local {
		t.Errorf("down: %+v", got)
	}
}

func TestRefusalCoversEveryReason(t *testing.T) {
	strong, guarded, weak := degrade.Strong(), degrade.Strong(), degrade.Weak()
	guarded.VersionGuard = true
	const (
		failure, timeout, system = tierlock.Failure, tierlock.Timeout, tierlock.SystemError
		retry, optimistic, fail  = tierlock.AdviseRetry, tierlock.AdviseOptimistic, tierlock.AdviseFail
	)
	type pair struct {
		outcome tierlock.Outcome
		advice  tierlock.Advice
	}
	want := map[tierlock.Reason][3]pair{}
	for _, r := range []tierlock.Reason{"attempt_timeout", "late", "slow", "saturated", "recovering"} {
		want[r] = [3]pair{{timeout, fail}, {timeout, optimistic}, {timeout, optimistic}}
	}
	for _, r := range []tierlock.Reason{"broken", "denied"} {
		want[r] = [3]pair{{system, fail}, {timeout, optimistic}, {timeout, optimistic}}
	}
	for _, r := range []tierlock.Reason{"down", "breaker_open"} {
		want[r] = [3]pair{{system, fail}, {timeout, optimistic}, {system, fail}}
	}
	for _, r := range []tierlock.Reason{"wrong_type", "forced", "unrecorded", "full"} {
		want[r] = [3]pair{{system, fail}, {system, fail}, {system, fail}}
	}
	want["held"] = [3]pair{{failure, retry}, {failure, retry}, {failure, retry}}
	want["lost"] = [3]pair{{failure, 0}, {failure, 0}, {failure, 0}}
	want["canceled"] = [3]pair{{timeout, 0}, {timeout, 0}, {timeout, 0}}
	alerts := map[tierlock.Outcome]tierlock.Alert{failure: tierlock.AlertInfo, timeout: tierlock.AlertWarn, system: tierlock.AlertPage}

	for _, r := range tierlock.Reasons() {
		for i, p := range []*degrade.Policy{&strong, &guarded, &weak} {
			v := p.Refusal(r)
			if got := (pair{v.Outcome, v.Advice}); got != want[r][i] {
				t.Errorf("%s for policy %d: %+v, want %+v", r, i, got, want[r][i])
			}
			alert := alerts[v.Outcome]
			if r == tierlock.ReasonCanceled {
				alert = 0
			}
			if v.Alert != alert || v.Reason != r || v.Tier == 0 {
				t.Errorf("%s for policy %d: %+v, want alert %v", r, i, v, alert)
			}
			if (v.Advice == optimistic) != (v.Tier == tierlock.Optimistic) {
				t.Errorf("%s for policy %d: tier %v with advice %v", r, i, v.Tier, v.Advice)
			}
		}
	}
}
