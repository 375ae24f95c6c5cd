package incident

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
)

// ledger is the source as the job reads it, and keeps count of what passes. The job judges
// overlaps; the ledger counts requests, producers and records, each event once, whatever
// is read again.
type ledger struct {
	reconcile.Source
	cfg    *Config
	parser audit.Parser

	read      map[int]*Partition
	producers map[string]*producer
	told      map[place]*progress
	requests  map[chainTier]*Requests
	open      map[holdKey]*openHold
	answers   map[chainReason]*Optimistic
	orders    map[orderKey]*orderCount
	degraded  stretches
	refusals  refusals
	health    []Health
	unshown   int // changes of health beyond mostStretches
	records   records
	losses    []reconcile.Loss
	malformed []Malformed
	unread    int
	opened    time.Time // what was appended later is not read
}

type chainTier struct {
	chain string
	tier  tierlock.Tier
}

type chainReason struct {
	chain  string
	reason tierlock.Reason
}

// holdKey names one acquisition: whoever attached to a lock tells another grant time.
type holdKey struct{ key, holder string }

// openHold is a grant of the period whose last end may be still to come.
type openHold struct {
	row  *Requests
	how  audit.How // "" while there is none
	work audit.Work
}

func newLedger(cfg *Config) *ledger {
	return &ledger{
		Source: cfg.Source, cfg: cfg, read: map[int]*Partition{}, producers: map[string]*producer{}, told: map[place]*progress{},
		requests: map[chainTier]*Requests{}, open: map[holdKey]*openHold{}, answers: map[chainReason]*Optimistic{},
		orders: map[orderKey]*orderCount{}, degraded: newStretches(cfg), refusals: newRefusals(cfg), records: newRecords(cfg),
		opened: time.Now(),
	}
}

// Next implements [reconcile.Source].
func (l *ledger) Next(ctx context.Context) (reconcile.Batch, error) {
	b, err := l.Source.Next(ctx)
	for _, m := range b.Assigned {
		l.partition(m.Partition, m.Offset)
	}
	l.losses = append(l.losses, b.Lost...)
	for i := range b.Records {
		l.record(&b.Records[i])
	}
	return b, err
}

func (l *ledger) partition(number int, from int64) *Partition {
	p := l.read[number]
	if p == nil {
		p = &Partition{Partition: number, Oldest: from, From: from, To: from}
		l.read[number] = p
	}
	return p
}

// record takes one record, once: what comes again after a rewind has a lower offset.
func (l *ledger) record(r *reconcile.Record) {
	p := l.partition(r.Partition, r.Offset)
	if r.Offset < p.To {
		return
	}
	p.To = r.Offset + 1
	p.Records++
	ev, err := l.parser.Parse(r.Value)
	if err != nil {
		const most = 100
		if l.unread++; len(l.malformed) < most {
			l.malformed = append(l.malformed, Malformed{r.Partition, r.Offset, err.Error()})
		}
		return
	}
	l.progress(&ev, r.Partition)
	if !l.producer(&ev) {
		return // a copy
	}
	switch ev.Type {
	case audit.TypeAcquire:
		l.acquire(&ev)
	case audit.TypeEnd:
		l.end(&ev)
	case audit.TypeOptimistic:
		l.optimistic(&ev)
	case audit.TypeHeartbeat:
		l.heartbeat(&ev)
	case audit.TypeHello, audit.TypeSeal:
		l.degraded.end(ev.Producer)
	}
}

func (l *ledger) acquire(ev *audit.Event) {
	l.records.hold(ev)
	if !l.cfg.holds(ev.GrantedAt) {
		return
	}
	row := l.row(ev)
	row.Granted++
	l.order(ev)
	id := holdKey{ev.Key.String(), ev.Holder}
	h := l.open[id]
	if h != nil && h.row != nil { // another acquisition of the same id counts for itself
		h.row.how(h.how)
		h.row.work(h.work)
		h = nil
	}
	if h == nil {
		h = &openHold{}
		l.open[id] = h
	}
	h.row = row
	if h.how != "" { // its end came first
		l.close(id, h)
	}
}

// end closes a hold. An expiry may be followed by the unlock of whoever had it, which is
// then the last word: such a hold stays open to it.
func (l *ledger) end(ev *audit.Event) {
	l.records.end(ev)
	id := holdKey{ev.Key.String(), ev.Holder}
	h := l.open[id]
	if h == nil {
		if !l.cfg.holds(ev.GrantedAt) {
			return
		}
		h = &openHold{}
		l.open[id] = h
	}
	h.how, h.work = ev.How, ev.Outcome
	if h.row != nil {
		l.close(id, h)
	}
}

func (l *ledger) close(id holdKey, h *openHold) {
	if h.how != audit.Released && h.how != audit.Forced {
		return
	}
	h.row.how(h.how)
	h.row.work(h.work)
	delete(l.open, id)
}

// settle counts the holds that no last word came for. Ends whose acquire is not there are
// a gap's, and told there.
func (l *ledger) settle() {
	for _, h := range l.open {
		if h.row != nil {
			h.row.how(h.how)
			h.row.work(h.work)
		}
	}
	clear(l.open)
}

func (l *ledger) row(ev *audit.Event) *Requests {
	id := chainTier{ev.Chain, ev.Tier}
	row := l.requests[id]
	if row == nil {
		row = &Requests{Chain: ev.Chain, Tier: ev.Tier}
		l.requests[id] = row
	}
	return row
}

func (l *ledger) optimistic(ev *audit.Event) {
	l.records.answer(ev)
	if !l.cfg.holds(ev.GrantedAt) {
		return
	}
	l.order(ev)
	id := chainReason{ev.Chain, ev.Reason}
	row := l.answers[id]
	if row == nil {
		row = &Optimistic{Chain: ev.Chain, Reason: ev.Reason}
		l.answers[id] = row
	}
	row.Answers++
	switch ev.Outcome {
	case audit.Committed:
		row.Committed++
	case audit.RolledBack:
		row.RolledBack++
	default:
		row.Untold++
	}
}

func (l *ledger) heartbeat(ev *audit.Event) {
	l.degraded.hear(ev)
	l.refusals.hear(ev)
	for i := range ev.Steps {
		l.step(ev, &ev.Steps[i])
	}
	if l.cfg.holds(ev.At) && ev.Applied != 0 {
		l.count(orderKey{version: ev.Applied}, ev.At, ev.Producer)
	}
}
