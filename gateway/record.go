package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
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

// record writes a grant down before the caller has it. Where the policy waits for the
// disk — always in bypass — it returns once the event is durable, by the attempt's
// deadline, or refuses: no record, no grant. Else it does not wait.
func (c *Chain) record(ctx context.Context, r *request, l *Lock, deadline time.Time) *tierlock.Error {
	if !c.policy.Audit.Records(l.tier) {
		return nil
	}
	ev := c.gw.events.get()
	defer c.gw.events.put(ev)
	ttl, maxHold := l.ttl, time.Duration(0)
	if l.renewable() {
		maxHold = c.policy.MaxHold
	}
	*ev = audit.Acquired(l.grant, ttl, maxHold) // nobody else writes the grant yet
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
func (l *Lock) recordEnd(how audit.How, outcome audit.Work, at time.Time) {
	if !l.recorded {
		return
	}
	gw := l.chain.gw
	ev := gw.events.get()
	defer gw.events.put(ev)
	*ev = audit.Ended(l.grant, how, outcome, at)
	ev.TTL = l.ttl
	l.fill(ev)
	gw.audit.Note(ev)
}

// fill adds what the grant itself does not say.
func (l *Lock) fill(ev *audit.Event) {
	ev.ClockError = time.Duration(l.chain.store.clockError.Load())
	ev.Reason = l.reason
	ev.OnFull = l.chain.policy.Audit.OnFull
	if l.order != nil {
		ev.Switch = audit.Switch{Version: l.order.Version, Reason: l.order.Reason}
	}
	if l.business != nil {
		ev.Business = *l.business
	}
}

// noteOptimistic writes down an answer without a lock: a point in time, or, where Do ran
// the caller's work, the span of it and how it ended.
func (c *Chain) noteOptimistic(r *request, reason tierlock.Reason, outcome audit.Work, at time.Time) {
	if !c.policy.Audit.Records(tierlock.Optimistic) {
		return
	}
	ev := c.gw.events.get()
	defer c.gw.events.put(ev)
	*ev = audit.Optimistic(c.name, r.key, r.id, reason, outcome, at)
	ev.ClockError = time.Duration(c.store.clockError.Load())
	if r.order != nil {
		ev.Switch = audit.Switch{Version: r.order.Version, Reason: r.order.Reason}
	}
	if r.business != nil {
		ev.Business = *r.business
	}
	if outcome != audit.Unknown {
		ev.EndedAt = at.Add(time.Since(at))
	}
	c.gw.audit.Note(ev)
}
