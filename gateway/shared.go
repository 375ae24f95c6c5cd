package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
)

// shared asks the store once, on the caller's goroutine; the store keeps the deadline.
func (c *Chain) shared(ctx context.Context, r *request, route degrade.Route, now, deadline time.Time) (l *Lock, err *tierlock.Error, again bool) {
	if err := c.heldLocally(r, now); err != nil {
		return nil, err, false
	}
	if err := r.tooYoung(now); err != nil {
		return nil, err, false
	}
	if r.named {
		if err := c.takeDebt(ctx, r, deadline); err != nil {
			return nil, err, false
		}
		defer c.payDebt(r)
		now = time.Now() // the ledger may have had to ask the store
	}
	pass, err, again := r.admit(ctx, route, now, deadline)
	if err != nil {
		return nil, err, again
	}
	req := c.wanted(r.hold(r.ttl), deadline)
	if c.store.traits.Waiter != nil && !r.once && r.end.Sub(now) > askRoom {
		req.WaitTill, r.lined = r.end, r.end
	}
	ans, cause := c.store.Acquire(tierlock.Until(ctx, deadline), req)
	pass.Exit(cause)
	return c.answered(ctx, r, route, ans, cause, deadline)
}

// wanted is what the store is asked for.
func (c *Chain) wanted(hold tierlock.Hold, deadline time.Time) tierlock.Request {
	return tierlock.Request{Hold: hold, NotAfter: deadline, Fenced: c.policy.Fencing && c.store.traits.Fences}
}

// answered makes a lock or a verdict of what the store said to a request that was good
// until deadline.
func (c *Chain) answered(ctx context.Context, r *request, route degrade.Route, ans tierlock.Answer, cause error, deadline time.Time) (l *Lock, err *tierlock.Error, again bool) {
	if cause != nil {
		return c.unanswered(ctx, r, deadline, cause)
	}
	switch ans.Status {
	case tierlock.Granted, tierlock.Mine:
		return c.useShared(ctx, r, route, ans, deadline)
	case tierlock.Held:
		return nil, r.wasHeld(time.Now(), ans, c.store.traits.Waiter), false
	}
	return nil, r.because(tierlock.ReasonLate, nil), false
}

// unanswered makes a verdict of a missing answer. What may still happen in the store is
// settled behind the caller. A fault that is no timeout was counted by pass.Exit, which
// stepped the ladder, so another look may find a lower tier.
func (c *Chain) unanswered(ctx context.Context, r *request, deadline time.Time, cause error) (l *Lock, err *tierlock.Error, again bool) {
	f, ok := errors.AsType[*tierlock.Fault](cause)
	if !ok { // a backend that breaks its contract: believe the worst
		f = &tierlock.Fault{Reason: tierlock.ReasonBroken, InDoubt: true, Err: cause}
	}
	if f.InDoubt {
		c.gw.ledger.add(c.inDoubt(r, deadline))
	}
	timeout := f.Reason == tierlock.ReasonAttempt
	switch {
	case f.Reason == tierlock.ReasonCanceled, timeout && canceled(ctx, time.Now()):
		return nil, r.because(tierlock.ReasonCanceled, cause), false
	case timeout:
		return nil, r.because(tierlock.ReasonAttempt, cause), false
	}
	return nil, r.because(f.Reason, cause), true
}

// useShared hands out what the store granted, unless the chain has left the shared tier
// meanwhile or the key is held locally: then it is given back, never used.
//
// The race with a local request of this process on the same key, step by step. A shared
// request (1) registers its hold, then (2) looks into the table. A local request (3)
// enters the table, then (4) looks into the registry. All four are under locks, so one
// of the two pairs is first: if 1 comes before 4, the local request sees the shared hold
// and gives its permit back; if not, 3 came before 4 and 4 before 1, hence before 2, and
// the shared request sees the local hold and gives its lock back. Both may see each
// other, and both step back; no order of events lets both keep the key. Looking before
// registering, or before entering, would let both pass.
func (c *Chain) useShared(ctx context.Context, r *request, route degrade.Route, ans tierlock.Answer, deadline time.Time) (l *Lock, err *tierlock.Error, again bool) {
	r.debt = nil // this answer is newer than what the ledger had to find out
	now := time.Now()
	l = c.newLock(ctx, r, &c.store.granter, ans, now)
	l.reason = route.Reason
	c.gw.locks.add(l.lease)
	if reason, moved := r.moved(route, now); moved {
		c.unused(l)
		return nil, r.because(reason, nil), true
	}
	err = c.heldLocally(r, now)
	if err == nil {
		err = r.tooYoung(now)
	}
	if err != nil {
		c.unused(l)
		return nil, err, false
	}
	if !now.Before(l.grant.ExpiresAt) { // a repeat that found little left of its first grant
		c.unused(l)
		return nil, r.because(tierlock.ReasonLate, nil), false
	}
	if err := c.record(ctx, r, l, deadline); err != nil {
		c.unused(l)
		return nil, err, false
	}
	return c.handOut(l), nil, false
}

// heldLocally refuses a key that a local holder of this process still has.
func (c *Chain) heldLocally(r *request, now time.Time) *tierlock.Error {
	if c.table.Live() == 0 {
		return nil
	}
	until, ok := c.table.Holds(r.key)
	if !ok {
		return nil
	}
	// Not the table's Waiter: it wakes whoever would find a free permit, and a shared
	// request waits for the last holder.
	return r.wasHeld(now, tierlock.Answer{Status: tierlock.Held, Remaining: max(until.Sub(now), 0)}, nil)
}

// handOut makes a decided grant the caller's. Where the same request was served twice at
// once, both callers get the first handle. If both stand for the one hold, that is all, or
// one is an entry into the other's; a hold on another tier is the loser's own, and is given
// back.
func (c *Chain) handOut(l *Lock) *Lock {
	first := c.gw.locks.publish(l.lease)
	switch {
	case first == l.lease:
		c.gw.watchdog.watch(first, first.grant.AcquiredAt)
		return l
	case first.by != l.by:
		c.unused(l)
		return &first.own
	}
	same, _, live := first.join(l.entry, l.work)
	switch {
	case live && first.adopt():
		if twice, ok := same.confirm(); ok {
			c.gw.ledger.add(twice)
		}
	case l.entry != 0: // all others leave this moment, this entry is the store's last
		c.gw.locks.force(l.lease)
		c.gw.watchdog.watch(l.lease, l.grant.AcquiredAt)
		return l
	default: // first ended this moment, and may have been rid of its hold before l had one
		c.gw.locks.remove(first)
		c.unused(l)
		return &first.own
	}
	l.recorded = false // its end is the other's to tell
	_, _ = l.finish(audit.Released, ErrUnlocked, time.Now())
	return same
}

// unused gives a grant back that nobody has seen: the shared one behind the caller, who
// has better to do. Where another call of the same request was granted the same hold, it
// stays with that one: finish takes a lock out of the registry before the other is looked
// for, so of two that step back at once the last gives the hold back.
func (c *Chain) unused(l *Lock) {
	// Forced, where the trail has its beginning already: reconciliation must not take it
	// for a hold that somebody worked under.
	if _, ok := l.finish(audit.Forced, ErrUnlocked, time.Now()); !ok {
		return
	}
	if c.gw.locks.twin(l.lease) {
		return
	}
	if l.tier == tierlock.Shared {
		c.gw.ledger.add(c.putOff(l))
		return
	}
	_, _ = l.by.Release(context.Background(), l.hold()) // in this process: nothing can fail
}
