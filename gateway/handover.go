package gateway

import (
	"context"
	"math"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
)

// How long a process may keep a key to itself, from the design: then it is given back for
// real, and whoever waits longest in the store's line has its chance.
const (
	mostPasses = 8                     // hand-overs in a row
	streakSpan = 50 * time.Millisecond // since the first of them
)

// streak counts hand-overs in a row, the one that brought this lock included. It is small,
// so that a Lock is no bigger for it.
type streak struct {
	passes uint8
	age    uint16 // of the streak when the lock was handed over, in microseconds; streakSpan fits
}

// end is when a lock that came at that time may be handed on no more.
func (s streak) end(acquired time.Time) time.Time {
	switch {
	case s.passes == 0:
		return acquired.Add(maxTTL + maxWait) // the first hand-over may come when it likes
	case s.passes >= mostPasses:
		return acquired
	}
	return acquired.Add(streakSpan - time.Duration(s.age)*time.Microsecond)
}

// on is the streak of the next lock, to which this one is handed after it was held so long.
func (s streak) on(held time.Duration) streak {
	next := streak{passes: s.passes + 1}
	if s.passes > 0 {
		next.age = uint16(min(int64(s.age)+held.Microseconds(), math.MaxUint16))
	}
	return next
}

// gift is what came of a hand-over, for the call that it was for.
type gift struct {
	route    degrade.Route // it was made under
	answer   tierlock.Answer
	cause    error     // there was no answer
	deadline time.Time // after which it takes no effect
	streak   streak
}

// handOver gives the lock to the next call of this process that waits for its key, in one
// step in the store, so that nobody else's turn comes in between and nothing is asked
// twice. Where it is not done, the lock is to be released. It looks at the
// ladder as an acquire does, and whoever takes the gift looks again.
//
// In doubt, either id may hold the key: the ledger gives back whichever does, the old one
// from here and the new one from the call that got the fault, like any acquire in doubt.
func (l *Lock) handOver(ctx context.Context, now time.Time) parting {
	c := l.chain
	passer := c.store.traits.Passer
	if l.tier != tierlock.Shared || passer == nil || !now.Before(l.streak.end(l.grant.AcquiredAt)) {
		return parting{}
	}
	order := c.order.Load().of()
	route := degrade.Decide(&c.current.Load().Ladder, order, l.ladder.now.Load(), now, l.hash)
	plain := route == degrade.Route{Tier: tierlock.Shared} || coalesces(route)
	if order.Covers(now, l.hash) || !plain || c.gw.closed.Load() {
		return parting{}
	}
	p, want := c.gw.lines.claim(l.grant.Key, l.hash, func(w want) bool {
		return w.hold.ID != l.grant.RequestID && w.end.Sub(now) > askRoom
	})
	if p == nil {
		return parting{}
	}
	if want.named && c.gw.ledger.has(ownerOf(want.hold)) {
		p.letGo() // what the ledger still has to release would end the new lock
		return parting{}
	}
	deadline := now.Add(c.policy.Attempt)
	if want.end.Before(deadline) {
		deadline = want.end
	}
	req := c.wanted(want.hold, deadline)
	req.WaitTill = want.till
	pass := l.counted(now)
	ans, cause := passer.Pass(detach(ctx, deadline), l.hold(), req)
	pass.Exit(cause)
	g := gift{route: route, answer: ans, cause: cause, deadline: deadline, streak: l.streak.on(now.Sub(l.grant.AcquiredAt))}
	return l.handed(p, want, g)
}

// handed takes in what came of the hand-over to p.
func (l *Lock) handed(p *place, want want, g gift) parting {
	c := l.chain
	switch {
	case g.cause != nil && inDoubt(g.cause):
		if !p.give(g) {
			c.gw.ledger.add(c.entryOf(l.ladder, want.hold, g.deadline))
		}
		c.gw.ledger.add(c.putOff(l))
		return parting{done: true, deferred: true, err: l.failed("release", faultReason(g.cause), g.cause)}
	case g.cause != nil:
		p.letGo()
		c.gw.ledger.add(c.putOff(l))
		return parting{done: true, deferred: true, err: l.failed("release", faultReason(g.cause), g.cause)}
	case g.answer.Status == tierlock.Granted:
		if !p.give(g) {
			c.gw.ledger.add(c.entryOf(l.ladder, want.hold, time.Now()))
		}
		return parting{done: true, passed: true}
	}
	p.letGo()
	switch g.answer.Status {
	case tierlock.Late:
		return parting{}
	case tierlock.Mine: // entries of others remain; this one is given back
		return parting{done: true}
	}
	return parting{done: true, err: l.failed("release", tierlock.ReasonLost, errGone)}
}

// take makes a lock, or a verdict, of what was handed over.
func (c *Chain) take(ctx context.Context, r *request, g gift) (*Lock, *tierlock.Error) {
	r.tier, r.order, r.streak = tierlock.Shared, nil, g.streak
	l, err, again := c.answered(ctx, r, g.route, g.answer, g.cause, g.deadline)
	r.streak = streak{}
	if !again {
		return l, err
	}
	return c.askAnew(ctx, r, g.route, r.deadline(ctx, time.Now()), err)
}
