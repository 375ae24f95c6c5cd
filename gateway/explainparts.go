package gateway

import (
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
)

// explain is the order as a key with that hash meets it; nil: there is none.
func (o *order) explain(hash uint64, now time.Time) *ExplainedOrder {
	if o == nil || !now.Before(o.Until) {
		return nil
	}
	x := explainOrder(o.Order)
	x.Covers = o.Covers(now, hash)
	return &x
}

// explain is the dry run as a key with that hash meets it; nil: there is none.
func (d *rehearsal) explain(hash uint64, now time.Time) *ExplainedOrder {
	if d == nil {
		return nil
	}
	return (&order{Order: d.Order}).explain(hash, now)
}

func explainOrder(o degrade.Order) ExplainedOrder {
	x := ExplainedOrder{Mode: o.Mode, Percent: o.Percent, Version: o.Version, Reason: o.Reason, By: o.By}
	if !o.Until.IsZero() {
		x.Until = o.Until.UTC().Round(time.Microsecond)
	}
	if x.Mode == 0 { // none
		x.Mode = tierlock.ModeAuto
	}
	return x
}

// explain is where the ladder stands, and what makes it stand there.
func (l *ladder) explain(r *request, now time.Time) ExplainedHealth {
	m := l.now.Load()
	x := ExplainedHealth{
		Store: l.target.store.name, Target: l.target.name,
		State: m.State, Reason: m.Reason, Since: m.Since.UTC().Round(time.Microsecond), Steps: m.Epoch,
		Out: l.target.sensor.Out(), Own: l.wire.Out(), Limit: l.target.sensor.Limit(),
		Sensed: explainSignals(signals(l.target.sensor.Read(now), now)),
	}
	if young := r.tooYoung(now); young != nil {
		x.LockDelay = young.RetryAfter.Milliseconds()
	}
	return x
}

// pastSteps are the last changes of health.
func (l *ladder) pastSteps() []ExplainedStep {
	l.mu.Lock()
	edges := l.past.all()
	l.mu.Unlock()
	steps := make([]ExplainedStep, len(edges))
	for i, e := range edges {
		steps[i] = ExplainedStep{At: e.At.UTC().Round(time.Microsecond), From: e.From, To: e.To, Reason: e.Reason}
	}
	return steps
}

// explain lists the published locks of key.
func (r *registry) explain(key tierlock.Key, hash uint64, now time.Time) (holders []ExplainedHolder, held int) {
	var some [mostExplained]*lease
	s := r.of(hash)
	s.mu.Lock()
	for l := s.head[key]; l != nil; l = l.next {
		if !l.ready {
			continue
		}
		if held < len(some) {
			some[held] = l
		}
		held++
	}
	s.mu.Unlock()
	holders = []ExplainedHolder{}
	for _, l := range some[:min(held, len(some))] {
		holders = append(holders, l.explain(now))
	}
	return holders, held
}

func (h *lease) explain(now time.Time) ExplainedHolder {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := ExplainedHolder{
		Holder: h.grant.RequestID.Fingerprint(), Tier: h.tier, Exclusive: h.grant.Exclusive, Token: h.grant.Token,
		AcquiredAt: h.grant.AcquiredAt.UTC().Round(time.Microsecond), Expires: max(h.grant.ExpiresAt.Sub(now), 0).Milliseconds(),
		Entries: len(h.moreLocked()), Renews: h.every.Milliseconds(), Reason: h.reason,
	}
	if !h.own.unlocked {
		x.Entries++
	}
	return x
}

// count is how many calls stand in key's line.
func (ls *lines) count(key tierlock.Key, hash uint64) (n int) {
	s := &ls.shards[hash%uint64(len(ls.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := s.first[key]; p != nil; p = p.next {
		n++
	}
	return n
}

// explain lists what of key is still to be given back. It looks at every entry: there are
// many in an outage only, when a person asks now and then.
func (g *ledger) explain(key tierlock.Key) (doubts []ExplainedDoubt, all int) {
	doubts = []ExplainedDoubt{}
	g.mu.Lock()
	defer g.mu.Unlock()
	for who, e := range g.entries {
		if who.key != key {
			continue
		}
		if all++; len(doubts) < mostExplained {
			doubts = append(doubts, ExplainedDoubt{
				Holder: who.id.Fingerprint(), Since: e.added.UTC().Round(time.Microsecond), Until: e.giveUp.UTC().Round(time.Microsecond), Asking: e.out > 0,
			})
		}
	}
	return doubts, all
}
