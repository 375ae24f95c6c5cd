package metrics

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierlock/tierlock/switchcfg"
)

// Metrics is the table on one registerer. All methods may be called at once from any
// goroutine. Make one per process and registerer.
type Metrics struct {
	reg prometheus.Registerer

	acquired    *cache[acquireLabels, acquireChild]
	released    *cache[releaseLabels, releaseChild]
	renewed     *cache[[2]string, prometheus.Counter]  // chain, result
	waited      *cache[string, prometheus.Observer]    // chain
	unlockFails *cache[[2]string, prometheus.Counter]  // chain, reason
	passed      *cache[string, prometheus.Counter]     // chain
	spared      *cache[string, prometheus.Counter]     // chain
	lost        *cache[[2]string, prometheus.Counter]  // chain, reason
	settled     *cache[[2]string, prometheus.Counter]  // chain, status
	stepped     *cache[[5]string, prometheus.Counter]  // chain, target, from, to, reason
	dwelt       *cache[[2]string, prometheus.Observer] // chain, state
	observed    *cache[observedLabels, prometheus.Counter]
	replaced    *cache[[2]string, prometheus.Counter] // store, target
	ordered     *cache[[2]string, prometheus.Counter] // chain, mode
	fetched     *cache[string, prometheus.Counter]    // result
	fsync       prometheus.Observer
	build       *prometheus.GaugeVec
}

// New makes the metrics that hooks feed and puts them on reg. What is read at scrape time
// joins with [Metrics.Observe]. The error is reg's: a name that is taken.
func New(reg prometheus.Registerer) (*Metrics, error) {
	b := builder{reg: reg}
	m := &Metrics{reg: reg}
	durations, counts := b.histogram(acquireDuration), b.counter(acquires)
	m.acquired = newCache(func(l acquireLabels) acquireChild { return l.child(durations, counts) })
	holds, ratios, ends := b.histogram(holdDuration), b.histogram(holdRatio), b.counter(releases)
	m.released = newCache(func(l releaseLabels) releaseChild { return l.child(holds, ratios, ends) })
	m.renewed = pairs(b.counter(renewals))
	waits := b.histogram(waitDuration)
	m.waited = newCache(func(chain string) prometheus.Observer { return waits.WithLabelValues(chain) })
	m.unlockFails = pairs(b.counter(unlockFailures))
	passes := b.counter(handOvers)
	m.passed = newCache(func(chain string) prometheus.Counter { return passes.WithLabelValues(chain) })
	calls := b.counter(spared)
	m.spared = newCache(func(chain string) prometheus.Counter { return calls.WithLabelValues(chain) })
	m.lost = pairs(b.counter(losses))
	m.settled = pairs(b.counter(settled))
	edges := b.counter(transitions)
	m.stepped = newCache(func(k [5]string) prometheus.Counter { return edges.WithLabelValues(k[:]...) })
	dwells := b.histogram(dwell)
	m.dwelt = newCache(func(k [2]string) prometheus.Observer { return dwells.WithLabelValues(k[:]...) })
	otherwise := b.counter(observed)
	m.observed = newCache(func(l observedLabels) prometheus.Counter { return l.child(otherwise) })
	m.replaced = pairs(b.counter(replaced))
	m.ordered = pairs(b.counter(switchOrders))
	fetches := b.counter(switchFetches)
	m.fetched = newCache(func(result string) prometheus.Counter { return fetches.WithLabelValues(result) })
	for _, why := range switchcfg.Whys() {
		m.fetched.get(string(why))
	}
	m.fetched.get(fetchOK)
	m.fsync = b.histogram(spoolFsync).WithLabelValues()
	m.build = b.gauge(buildInfo)
	return m, errors.Join(b.errs...)
}

// Build tells which build this is: the version of the program that embeds Tierlock.
func (m *Metrics) Build(version string) { m.build.WithLabelValues(version, runtime.Version()).Set(1) }

func pairs(v *prometheus.CounterVec) *cache[[2]string, prometheus.Counter] {
	return newCache(func(k [2]string) prometheus.Counter { return v.WithLabelValues(k[:]...) })
}

// builder makes the vectors of the table's rows and registers them.
type builder struct {
	reg  prometheus.Registerer
	errs []error
}

func (b *builder) counter(name string) *prometheus.CounterVec {
	m := row(name)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
	b.add(v)
	return v
}

func (b *builder) gauge(name string) *prometheus.GaugeVec {
	m := row(name)
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.Labels)
	b.add(v)
	return v
}

func (b *builder) histogram(name string) *prometheus.HistogramVec {
	m := row(name)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.Buckets}, m.Labels)
	b.add(v)
	return v
}

func (b *builder) add(c prometheus.Collector) {
	if err := b.reg.Register(c); err != nil {
		b.errs = append(b.errs, fmt.Errorf("register metrics: %w", err))
	}
}

// row is the table's row of that name. The names are constants of this package, and a
// test looks every one of them up.
func row(name string) Metric {
	for _, m := range Table() {
		if m.Name == name {
			return m
		}
	}
	return Metric{Name: name}
}
