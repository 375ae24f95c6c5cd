package reconcile

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// books are the counts behind Report and Stats.
type books struct {
	stats    Stats
	from, to time.Time
	entries  map[string]entry
	repairs  map[string]Result // by repair key
	periods  map[period]SwitchPeriod

	// Of more than most findings or repairs the settled ones are only counted. One that is
	// told again after that, since its partition is read again, counts twice.
	most          int
	folded        map[entry]int
	foldedRepairs map[Result]int
}

// mostBooked bounds what a job remembers one by one, some 200 bytes each.
const mostBooked = 200_000

// entry is a finding as it stands.
type entry struct {
	kind    Kind
	state   State
	certain bool
	open    bool // provisional
	cause   Cause
	gap     *Gap
}

type period struct {
	partition int
	chain     string
	version   uint64
	reason    string
}

func newBooks() books {
	return books{
		entries: map[string]entry{}, repairs: map[string]Result{}, periods: map[period]SwitchPeriod{},
		most: mostBooked, folded: map[entry]int{}, foldedRepairs: map[Result]int{},
	}
}

func (b *books) record(ev *audit.Event, partition int, fresh bool) {
	b.stats.Records++
	if !fresh {
		b.stats.Duplicates++
		return
	}
	if ev.Time().After(b.to) {
		b.to = ev.Time()
	}
	if ev.Type != audit.TypeAcquire {
		return
	}
	if b.from.IsZero() || ev.GrantedAt.Before(b.from) {
		b.from = ev.GrantedAt
	}
	if ev.Switch.Version != 0 {
		b.order(ev, partition)
	}
}

// order counts a grant under an operator's order.
func (b *books) order(ev *audit.Event, partition int) {
	id := period{partition, ev.Chain, ev.Switch.Version, ev.Switch.Reason}
	p := SwitchPeriod{
		Chain: id.chain, Version: id.version, Reason: id.reason, From: ev.GrantedAt, To: ev.GrantedAt, Grants: 1,
	}
	if ev.Tier == tierlock.Bypass {
		p.Bypass = 1
	}
	b.periods[id] = b.periods[id].join(p)
}

// join adds two partitions' or two grants' share of one period up.
func (p SwitchPeriod) join(o SwitchPeriod) SwitchPeriod {
	if p.Grants == 0 {
		return o
	}
	if o.From.Before(p.From) {
		p.From = o.From
	}
	if o.To.After(p.To) {
		p.To = o.To
	}
	p.Grants, p.Bypass = p.Grants+o.Grants, p.Bypass+o.Bypass
	return p
}

// reread forgets what will be counted again.
func (b *books) reread(partition int) {
	b.stats.Rereads++
	maps.DeleteFunc(b.periods, func(id period, _ SwitchPeriod) bool { return id.partition == partition })
}

func (b *books) switches() []SwitchPeriod {
	merged := map[period]SwitchPeriod{}
	for id, p := range b.periods {
		id.partition = 0
		merged[id] = merged[id].join(p)
	}
	return slices.SortedFunc(maps.Values(merged), func(a, b SwitchPeriod) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Chain, b.Chain))
	})
}

func (b *books) finding(f *Finding) {
	e := entry{kind: f.Kind, state: f.State, certain: f.Certain, open: f.Provisional, gap: f.Gap}
	if len(f.Causes) > 0 {
		e.cause = f.Causes[0]
	}
	b.entries[f.ID] = e
	for _, r := range f.Repairs {
		if b.repairs[r.Key] != ResultApplied {
			b.repairs[r.Key] = r.Result
		}
	}
	b.fold()
}

// fold counts half of the entries, the settled ones first, instead of keeping them.
func (b *books) fold() {
	if len(b.entries) > b.most {
		for _, settled := range []bool{true, false} {
			for id, e := range b.entries {
				if len(b.entries) > b.most/2 && e.kind == KindOverlap && (!settled || e.state.Stage() > StateWaiting.Stage()) {
					b.folded[e]++
					delete(b.entries, id)
				}
			}
		}
	}
	if len(b.repairs) > b.most {
		for key, result := range b.repairs {
			if len(b.repairs) > b.most/2 {
				b.foldedRepairs[result]++
				delete(b.repairs, key)
			}
		}
	}
}

// each goes over all findings, those that are only counted too.
func (b *books) each(do func(e *entry, n int)) {
	for _, e := range b.entries {
		do(&e, 1)
	}
	for e, n := range b.folded {
		do(&e, n)
	}
}

func (b *books) supersede(id string) {
	if e, known := b.entries[id]; known {
		e.state = StateSuperseded
		b.entries[id] = e
	}
}

// moment takes down what only the loop knows.
func (b *books) moment(j *Job) {
	s := &b.stats
	s.Partitions, s.OpenHolds, s.Watermark = len(j.windows), 0, time.Time{}
	first := true // a partition of which nothing was heard yet has the zero horizon, and holds the mark there
	for _, w := range j.windows {
		s.OpenHolds += w.open
		horizon := w.horizon
		if horizon.Equal(forever) { // the source has ended: all that came is judged
			horizon = b.to
		}
		if first || horizon.Before(s.Watermark) {
			s.Watermark, first = horizon, false
		}
	}
	s.Waiting, s.Repaired, s.Stopped = len(j.repairs.queue), j.repairs.budget.total, j.repairs.budget.stopped
	s.Failed, s.Unchanged, s.HookTimeouts = j.repairs.budget.failures, j.repairs.budget.unchanged, j.repairs.calls.timeouts
}

// sum counts findings that stand.
func (b *books) sum() {
	s := &b.stats
	s.Findings, s.Certain, s.Possible, s.Provisional, s.Gaps = 0, 0, 0, 0, 0
	b.each(func(e *entry, n int) {
		if e.open && e.state != StateSuperseded && e.state != StateWithdrawn {
			s.Provisional += n
		}
		switch {
		case e.state == StateSuperseded || e.state == StateWithdrawn:
		case e.kind != KindOverlap:
			s.Gaps += n
		case e.certain:
			s.Findings, s.Certain = s.Findings+n, s.Certain+n
		default:
			s.Findings, s.Possible = s.Findings+n, s.Possible+n
		}
	})
}

func (b *books) report(cfg *Config, now time.Time) Report {
	b.sum()
	r := Report{
		At: now, From: b.from, To: b.stats.Watermark, Blind: slices.Clone(cfg.Rule.Ignore), DryRun: !cfg.Apply, Stats: b.stats,
		Causes: map[Cause]int{}, States: map[State]int{}, Repairs: map[Result]int{},
	}
	b.each(func(e *entry, n int) {
		switch {
		case e.kind != KindOverlap:
			if e.state != StateWithdrawn {
				r.Missing = append(r.Missing, *e.gap)
			}
			return
		case e.state != StateSuperseded && e.state != StateWithdrawn:
			r.Causes[e.cause] += n
		}
		r.States[e.state] += n
	})
	maps.Copy(r.Repairs, b.foldedRepairs)
	for _, result := range b.repairs {
		r.Repairs[result]++
	}
	slices.SortFunc(r.Missing, compareGaps)
	r.Switches = b.switches()
	r.Complete = len(r.Missing) == 0 && len(r.Blind) == 0
	return r
}
