package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/switchcfg"
)

// tight is what must be left of the ttl at unlock for the margin to be ok; the public
// threshold of requirement "released with under 100 ms left".
const tight = 100 * time.Millisecond

// fetchOK is the result of an answer that is in force; the others are switchcfg's whys.
const fetchOK = "ok"

// acquireLabels are the labels of one verdict.
type acquireLabels struct {
	chain   string
	tier    tierlock.Tier
	outcome tierlock.Outcome
	reason  tierlock.Reason
}

// acquireChild is what one verdict moves; found together, with one lookup.
type acquireChild struct {
	took  prometheus.Observer
	count prometheus.Counter
}

func (l acquireLabels) child(took *prometheus.HistogramVec, count *prometheus.CounterVec) acquireChild {
	tier, outcome := tierWord(l.tier), l.outcome.String()
	return acquireChild{
		took:  took.WithLabelValues(l.chain, tier, outcome),
		count: count.WithLabelValues(l.chain, tier, outcome, reasonWord(l.reason)),
	}
}

// observedLabels are the labels of what the ladder of a chain on observe would have done.
type observedLabels struct {
	chain  string
	tier   tierlock.Tier
	reason tierlock.Reason
}

func (l observedLabels) child(count *prometheus.CounterVec) prometheus.Counter {
	tier := refused
	if l.tier != 0 {
		tier = l.tier.String()
	}
	return count.WithLabelValues(l.chain, tier, reasonWord(l.reason))
}

// releaseLabels are the labels of one end of a lock.
type releaseLabels struct {
	chain  string
	tier   tierlock.Tier
	margin string
}

// releaseChild is what one end of a lock moves.
type releaseChild struct {
	held, ratio prometheus.Observer
	count       prometheus.Counter
}

func (l releaseLabels) child(held, ratio *prometheus.HistogramVec, count *prometheus.CounterVec) releaseChild {
	return releaseChild{
		held:  held.WithLabelValues(l.chain, tierWord(l.tier)),
		ratio: ratio.WithLabelValues(l.chain),
		count: count.WithLabelValues(l.chain, l.margin),
	}
}

// Hooks returns what feeds the metrics from a gateway; give it to gateway.Config.Hooks,
// joined with your own. A call costs some map lookups and no allocation.
func (m *Metrics) Hooks() gateway.Hooks {
	return gateway.Hooks{
		Acquired: m.onAcquired,
		Released: m.onReleased,
		Renewed:  m.onRenewed,
		Lost: func(i gateway.LostInfo) {
			m.lost.get([2]string{i.Grant.Chain, errorWord(i.Cause)}).Inc()
		},
		Stepped: func(i gateway.StepInfo) {
			m.stepped.get([5]string{i.Chain, i.Target, i.From.String(), i.To.String(), reasonWord(i.Reason)}).Inc()
			m.dwelt.get([2]string{i.Chain, i.From.String()}).Observe(i.Dwell.Seconds())
		},
		Replaced: func(i gateway.ReplaceInfo) { m.replaced.get([2]string{i.Store, i.Target}).Inc() },
		Ordered: func(i gateway.OrderInfo) {
			m.ordered.get([2]string{i.Chain, orderWord(i.Order.Mode)}).Inc()
		},
		Reported: func(r switchcfg.Report) {
			result := fetchOK
			if r.Fault != nil {
				result = string(r.Fault.Why)
			}
			m.fetched.get(result).Inc()
		},
		Settled: func(i gateway.SettleInfo) {
			m.settled.get([2]string{i.Chain, settledWord(i.Status)}).Inc()
		},
	}
}

// AuditHooks returns what feeds the fsync histogram from a log; give it to
// audit.Config.Hooks.
func (m *Metrics) AuditHooks() audit.Hooks {
	return audit.Hooks{Synced: func(i audit.SyncInfo) { m.fsync.Observe(i.Took.Seconds()) }}
}

func (m *Metrics) onAcquired(i gateway.AcquireInfo) {
	v := &i.Verdict
	c := m.acquired.get(acquireLabels{i.Chain, v.Tier, v.Outcome, v.Reason})
	c.count.Inc()
	c.took.Observe((i.Took - i.Waited).Seconds())
	if i.Observed != "" {
		m.observed.get(observedLabels{i.Chain, i.Instead, i.Observed}).Inc()
	}
	if i.Spared {
		m.spared.get(i.Chain).Inc()
	}
	if i.Waited > 0 {
		m.waited.get(i.Chain).Observe(i.Waited.Seconds())
	}
}

func (m *Metrics) onReleased(i gateway.ReleaseInfo) {
	c := m.released.get(releaseLabels{i.Grant.Chain, i.Grant.Tier, marginWord(i.Left)})
	c.count.Inc()
	c.held.Observe(i.Held.Seconds())
	if i.TTL > 0 {
		c.ratio.Observe(i.Held.Seconds() / i.TTL.Seconds())
	}
	if i.Passed {
		m.passed.get(i.Grant.Chain).Inc()
	}
	if i.Err != nil {
		m.unlockFails.get([2]string{i.Grant.Chain, errorWord(i.Err)}).Inc()
	}
}

func (m *Metrics) onRenewed(i gateway.RenewInfo) {
	result := "ok"
	switch {
	case errors.Is(i.Err, tierlock.ErrLost):
		result = "lost"
	case i.Err != nil:
		result = "error"
	}
	m.renewed.get([2]string{i.Grant.Chain, result}).Inc()
}

func marginWord(left time.Duration) string {
	switch {
	case left <= 0:
		return "expired"
	case left < tight:
		return "tight"
	}
	return "ok"
}

// errorWord is the reason in err, from the closed set of tierlock.Reasons.
func errorWord(err error) string {
	if e, ok := errors.AsType[*tierlock.Error](err); ok {
		return reasonWord(e.Reason)
	}
	if f, ok := errors.AsType[*tierlock.Fault](err); ok {
		return reasonWord(f.Reason)
	}
	if errors.Is(err, tierlock.ErrLost) {
		return string(tierlock.ReasonLost)
	}
	return "other"
}

// reasonWord and tierWord say "none" for nothing: to Prometheus an empty label value is no
// label at all.
func reasonWord(r tierlock.Reason) string {
	if r == "" {
		return "none"
	}
	return string(r)
}

func tierWord(t tierlock.Tier) string {
	if t == 0 {
		return "none"
	}
	return t.String()
}

func orderWord(m tierlock.Mode) string {
	if m == 0 {
		return tierlock.ModeAuto.String()
	}
	return m.String()
}

func settledWord(s tierlock.Status) string {
	if s == 0 {
		return "given_up"
	}
	return s.String()
}
