package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
)

// events are reused: a Recorder copies what it takes, so a grant and its end cost no
// allocation for them.
type events struct{ pool sync.Pool }

// get returns an event that still holds what it last told; whoever takes it overwrites it.
func (e *events) get() *audit.Event {
	if ev, ok := e.pool.Get().(*audit.Event); ok {
		return ev
	}
	return new(audit.Event)
}

func (e *events) put(ev *audit.Event) { e.pool.Put(ev) }

// newsWriter is a recorder that also writes down what changes beside the grants: [audit.Log]
// does, in a heartbeat of its own. It does not wait.
type newsWriter interface {
	Stepped(s audit.Step)
	Replaced(r audit.Replaced)
}

type noNews struct{}

func (noNews) Stepped(audit.Step)      {}
func (noNews) Replaced(audit.Replaced) {}

// record writes a grant down before the caller has it. Where the policy waits for the
// disk — always in bypass — it returns once the event is durable, by the attempt's
// deadline, or refuses: no record, no grant. Else it does not wait.
func (c *Chain) record(ctx context.Context, r *request, l *Lock, deadline time.Time) *tierlock.Error {
	if !c.policy.Audit.Records(l.tier) {
		return nil
	}
	ev := c.gw.events.get()
	defer c.gw.events.put(ev)
	var maxHold time.Duration
	if l.renewable() {
		maxHold = c.policy.MaxHold
	}
	ev.SetAcquired(&l.grant, l.ttl, maxHold) // nobody else writes the grant yet
	l.fill(ev)
	if !c.policy.Audit.Waits(l.tier) {
		c.gw.audit.Note(ev)
		l.recorded = true
		return nil
	}
	within, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if err := c.gw.audit.Record(within, ev); err != nil {
		if canceled(ctx, time.Now()) {
			return r.because(tierlock.ReasonCanceled, err)
		}
		return r.because(tierlock.ReasonUnrecorded, err)
	}
	l.recorded = true
	return nil
}

// recordEnd writes the end of a grant down, without waiting. Only what has an acquire
// event, or was attached, gets one.
func (h *lease) recordEnd(how audit.How, outcome audit.Work, at time.Time) {
	if !h.recorded {
		return
	}
	gw := h.chain.gw
	ev := gw.events.get()
	defer gw.events.put(ev)
	ev.SetEnded(&h.grant, how, outcome, at)
	ev.TTL = h.ttl
	h.fill(ev)
	gw.audit.Note(ev)
}

// fill adds what the grant itself does not say.
func (h *lease) fill(ev *audit.Event) {
	ev.Reason = h.reason
	if !h.about.IsZero() { // two ids of one shard are no conflict, wherever they were let through
		ev.Key = h.about
	}
	ev.OnFull = h.chain.policy.Audit.OnFull
	h.chain.fill(ev, h.order, h.business)
}

// fill adds what every event of the chain tells: how far the clock may be off, the order
// in force and the work, if there are any.
func (c *Chain) fill(ev *audit.Event, order *degrade.Order, business *audit.Business) {
	ev.ClockError = time.Duration(c.store.clockError.Load())
	if order != nil {
		ev.Switch = audit.Switch{Version: order.Version, Reason: order.Reason}
	}
	if business != nil {
		ev.Business = *business
	}
}

// noteOptimistic writes down an answer without a lock: a point in time, or, where Do ran
// the caller's work and knows how it ended, the span of it from at until now.
func (c *Chain) noteOptimistic(r *request, reason tierlock.Reason, outcome audit.Work, at time.Time) {
	if !c.policy.Audit.Records(tierlock.Optimistic) {
		return
	}
	ev := c.gw.events.get()
	defer c.gw.events.put(ev)
	key := r.key
	if !r.about.IsZero() {
		key = r.about
	}
	*ev = audit.Optimistic(c.name, key, r.id, reason, outcome, at)
	c.fill(ev, r.order, r.business)
	if outcome != audit.Unknown {
		ev.EndedAt = at.Add(time.Since(at))
	}
	c.gw.audit.Note(ev)
}
