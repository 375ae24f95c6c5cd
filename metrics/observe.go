package metrics

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/reconcile"
)

// refused stands for a tier where new requests get none.
const refused = "refused"

// Observe adds what is read at scrape time: where gw's chains stand, what log has on its
// disk, what job has found. Any of them may be nil. It also makes the series of gw's
// chains, so that they start at 0. Call it once; the error is the registerer's.
func (m *Metrics) Observe(gw *gateway.Gateway, log *audit.Log, job *reconcile.Job) error {
	var all []prometheus.Collector
	if gw != nil {
		all = append(all, newReader(func(r *reader) { r.gateway(gw.Status()) },
			heldLocks, inDoubt, hookPanics, tierActive, healthState, occupancy, wireShare, switchVersion, switchMode, switchUntil, switchDryRun, policyInfo))
		for _, c := range gw.Status().Chains {
			m.begin(c.Chain)
		}
	}
	if log != nil {
		all = append(all, newReader(func(r *reader) { r.log(log.Stats(), time.Now()) },
			spoolRecords, spoolBytes, spoolQuota, spoolOldest, spoolWritable, spoolShed, spoolGaps, spoolDamaged, spoolTorn,
			eventsWritten, eventsSent, eventsFailed, eventsDead))
	}
	if job != nil {
		all = append(all, newReader(func(r *reader) { r.job(job.Stats()) },
			reconcileRecords, reconcileMalformed, reconcileFindings, reconcileRepairs, reconcileTimeouts, reconcileStores, reconcileWaiting, reconcilePending, reconcileOpen, reconcileMark))
	}
	for _, c := range all {
		if err := m.reg.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// reader is a collector of metrics that are read, and not counted, by us. The fields
// after descs are of one scrape; every scrape works on its own copy.
type reader struct {
	read  func(*reader)
	names []string
	rows  map[string]Metric
	descs map[string]*prometheus.Desc
	out   chan<- prometheus.Metric
}

func newReader(read func(*reader), names ...string) *reader {
	r := &reader{read: read, names: names, rows: map[string]Metric{}, descs: map[string]*prometheus.Desc{}}
	for _, name := range names {
		m := row(name)
		r.rows[name] = m
		r.descs[name] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	}
	return r
}

// Describe implements prometheus.Collector.
func (r *reader) Describe(out chan<- *prometheus.Desc) {
	for _, name := range r.names {
		out <- r.descs[name]
	}
}

// Collect implements prometheus.Collector.
func (r *reader) Collect(out chan<- prometheus.Metric) {
	scrape := *r
	scrape.out = out
	r.read(&scrape)
}

func (r *reader) put(name string, value float64, labels ...string) {
	kind := prometheus.GaugeValue
	if r.rows[name].Kind == Counter {
		kind = prometheus.CounterValue
	}
	m, err := prometheus.NewConstMetric(r.descs[name], kind, value, labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(r.descs[name], err) // the scrape shows it; a test scrapes everything
	}
	r.out <- m
}

// one puts 1 for the word that is, and 0 for every other one of words.
func (r *reader) one(name, is string, words []string, labels ...string) {
	for _, w := range words {
		r.put(name, truth(w == is), append(labels[:len(labels):len(labels)], w)...)
	}
}

func (r *reader) gateway(s gateway.Status) {
	r.put(inDoubt, float64(s.InDoubt))
	r.put(hookPanics, float64(s.HookPanics))
	r.put(switchVersion, float64(s.Applied))
	r.put(policyInfo, 1, s.PolicyHash)
	for _, c := range s.Chains {
		r.put(heldLocks, float64(c.Live), c.Chain)
		r.one(switchMode, orderWord(c.Order.Mode), modeWords(), c.Chain)
		r.put(switchUntil, seconds(c.Order.Until), c.Chain)
		r.dryRun(c.Chain, c.DryRun)
		for _, t := range c.Targets {
			tier := refused
			if t.Tier != 0 {
				tier = t.Tier.String()
			}
			r.one(tierActive, tier, append(tierWords(), refused), c.Chain, t.Target)
			r.one(healthState, t.State.String(), stateWords(), c.Chain, t.Target)
			r.put(occupancy, t.Occupancy, c.Chain, t.Target)
			r.put(wireShare, float64(t.Own)/float64(t.Limit), c.Chain, t.Target)
		}
	}
}

// dryRun puts nothing where there is none.
func (r *reader) dryRun(chain string, d *gateway.Rehearsal) {
	if d == nil {
		return
	}
	for _, c := range d.Calls {
		would := refused
		if c.Would != 0 {
			would = c.Would.String()
		}
		r.put(switchDryRun, float64(c.Count), chain, would, c.Got.String())
	}
}

func (r *reader) log(s audit.Stats, now time.Time) {
	r.put(spoolRecords, float64(s.Backlog()))
	r.put(spoolBytes, float64(s.Bytes))
	r.put(spoolQuota, float64(s.Quota))
	age := 0.0
	if !s.Oldest.IsZero() {
		age = max(0, now.Sub(s.Oldest).Seconds())
	}
	r.put(spoolOldest, age)
	r.put(spoolWritable, truth(!s.Full && !s.Failed))
	r.put(spoolShed, float64(s.Overflow), "note")
	r.put(spoolShed, float64(s.Shed), "grant")
	r.put(spoolGaps, float64(s.Gaps))
	r.put(spoolDamaged, float64(s.Damaged))
	r.put(spoolTorn, float64(s.TornBytes))
	r.put(eventsWritten, float64(s.Recorded), "awaited")
	r.put(eventsWritten, float64(s.Noted), "noted")
	r.put(eventsSent, float64(s.Delivered))
	r.put(eventsFailed, float64(s.SendErrors))
	r.put(eventsDead, float64(s.Dead))
}

func (r *reader) job(s reconcile.Stats) {
	r.put(reconcileRecords, float64(s.Records))
	r.put(reconcileMalformed, float64(s.Malformed))
	r.put(reconcileFindings, float64(s.Certain), "certain")
	r.put(reconcileFindings, float64(s.Possible), "possible")
	r.put(reconcileFindings, float64(s.Gaps), "gap")
	r.put(reconcileRepairs, float64(s.Repaired), "applied")
	r.put(reconcileRepairs, float64(s.Failed), "failed")
	r.put(reconcileRepairs, float64(s.Unchanged), "unchanged")
	r.put(reconcileTimeouts, float64(s.HookTimeouts))
	r.put(reconcileStores, float64(s.StoreTimeouts))
	r.put(reconcileWaiting, float64(s.Waiting))
	r.put(reconcilePending, float64(s.Pending))
	r.put(reconcileOpen, float64(s.OpenHolds))
	r.put(reconcileMark, seconds(s.Watermark))
}

// begin makes the series of a chain that people look at before they have moved.
func (m *Metrics) begin(chain string) {
	for _, l := range []acquireLabels{
		{chain, tierlock.Shared, tierlock.Success, ""},
		{chain, tierlock.Local, tierlock.Success, tierlock.ReasonDown},
		{chain, tierlock.Local, tierlock.Success, tierlock.ReasonSaturated},
		{chain, tierlock.Bypass, tierlock.Success, tierlock.ReasonForced},
		{chain, tierlock.Shared, tierlock.Failure, tierlock.ReasonHeld},
		{chain, tierlock.Shared, tierlock.Timeout, tierlock.ReasonAttempt},
		{chain, tierlock.Optimistic, tierlock.Timeout, tierlock.ReasonSlow},
		{chain, tierlock.Shared, tierlock.SystemError, tierlock.ReasonDown},
	} {
		m.acquired.get(l)
	}
	for _, margin := range []string{"ok", "tight", "expired"} {
		m.released.get(releaseLabels{chain, tierlock.Shared, margin})
	}
	for _, result := range []string{"ok", "lost", "error"} {
		m.renewed.get([2]string{chain, result})
	}
	for _, reason := range []tierlock.Reason{tierlock.ReasonLost, tierlock.ReasonDown, tierlock.ReasonAttempt} {
		m.unlockFails.get([2]string{chain, string(reason)})
	}
	m.lost.get([2]string{chain, string(tierlock.ReasonLost)})
	m.waited.get(chain)
	m.passed.get(chain)
	m.spared.get(chain)
}

func tierWords() []string  { return words(tierlock.Shared, tierlock.Bypass) }
func modeWords() []string  { return words(tierlock.ModeAuto, tierlock.ModeReject) }
func stateWords() []string { return words(degrade.Normal, degrade.Recovering) }

// words are the texts of the closed set from first to last.
func words[T interface {
	~uint8
	String() string
}](first, last T) []string {
	var all []string
	for v := first; v <= last; v++ {
		all = append(all, v.String())
	}
	return all
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
