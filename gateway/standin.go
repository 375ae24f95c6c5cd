package gateway

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
)

// standIn asks the table of this process, or the fake. See useShared for the race with a
// shared request, and why the registry is looked into twice: before, to spare the table
// the trouble, and after, to be right.
func (c *Chain) standIn(ctx context.Context, r *request, route degrade.Route, by *granter, ttl time.Duration, deadline time.Time) (l *Lock, err *tierlock.Error, again bool) {
	local := by.traits.Tier == tierlock.Local
	if local {
		if err := c.heldShared(r); err != nil {
			return nil, err, false
		}
	}
	ans, cause := by.Acquire(ctx, tierlock.Request{Hold: r.hold(ttl), NotAfter: deadline})
	if cause != nil {
		return nil, r.because(faultReason(cause), cause), false
	}
	switch ans.Status {
	case tierlock.Granted, tierlock.Mine:
	case tierlock.Held:
		return nil, r.wasHeld(time.Now(), ans, by.traits.Waiter), false
	default:
		return nil, r.because(tierlock.ReasonLate, nil), false
	}
	l = c.newLock(ctx, r, by, ans, time.Now())
	l.ttl, l.reason = ttl, route.Reason
	c.gw.locks.add(l.lease)
	if local {
		if err := c.heldShared(r); err != nil {
			c.unused(l)
			return nil, err, false
		}
	}
	if reason, moved := r.moved(route, time.Now()); moved {
		c.unused(l)
		return nil, r.because(reason, nil), true
	}
	if err := c.record(ctx, r, l, deadline); err != nil {
		c.unused(l)
		return nil, err, false
	}
	if c.policy.Audit.Waits(l.tier) { // the disk took its time: the order may be over
		if reason, moved := r.moved(route, time.Now()); moved {
			c.unused(l)
			return nil, r.because(reason, nil), true
		}
	}
	return c.handOut(l), nil, false
}

// heldShared refuses a key that this process still holds in the shared store.
func (c *Chain) heldShared(r *request) *tierlock.Error {
	now := time.Now()
	until, ok := c.gw.locks.shared(r.key, r.hash, now)
	if !ok {
		return nil
	}
	return r.wasHeld(now, tierlock.Answer{Status: tierlock.Held, Remaining: until.Sub(now)}, nil)
}
