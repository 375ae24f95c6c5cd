package gateway

import (
	"cmp"
	"context"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
)

// acquire is the story of one attempt: where does the chain stand, and ask there. What
// changed under the request — a store that failed it outright, a step down or an order
// that came while it was on its way — sends it to the ladder once more, never twice.
func (c *Chain) acquire(ctx context.Context, r *request, now time.Time) (*Lock, *tierlock.Error) {
	if canceled(ctx, now) {
		return nil, r.because(tierlock.ReasonCanceled, context.Cause(ctx))
	}
	deadline := r.deadline(ctx, now)
	route := r.route(now)
	l, err, again := c.serve(ctx, r, route, now, deadline)
	if !again {
		return l, err
	}
	return c.askAnew(ctx, r, route, deadline, err)
}

// askAnew looks at the ladder once more for a request that route did not serve well.
func (c *Chain) askAnew(ctx context.Context, r *request, route degrade.Route, deadline time.Time, err *tierlock.Error) (l *Lock, _ *tierlock.Error) {
	now := time.Now()
	if !now.Before(deadline) {
		return nil, err // no time is left to be served in
	}
	if next := r.route(now); next.Tier != tierlock.Shared || route.Tier != tierlock.Shared {
		if !r.named {
			r.id = tierlock.NewRequestID() // what the first one left, in store or trail, is over
		}
		cause := err.Err
		if l, err, _ = c.serve(ctx, r, next, now, deadline); err != nil && err.Err == nil {
			err.Err = cause // the ladder knows that the store is down, the store's own words say why
		}
	}
	return l, err
}

// serve asks on one tier. again says that another look at the ladder may find a better
// answer than err.
func (c *Chain) serve(ctx context.Context, r *request, route degrade.Route, now, deadline time.Time) (l *Lock, err *tierlock.Error, again bool) {
	if r.sharedOnly && (route.Tier != tierlock.Shared || r.order != nil) {
		return nil, r.notShared(route), false
	}
	r.tier = route.Tier
	switch route.Tier {
	case tierlock.Shared:
		if coalesces(route) && r.place == nil {
			l, err = c.inTurn(ctx, r, now, deadline)
			return l, err, false
		}
		r.asked = true
		return c.shared(ctx, r, route, now, deadline)
	case tierlock.Local:
		return c.standIn(ctx, r, route, &c.local, min(r.ttl, r.policy.Local.TTL), deadline)
	case tierlock.Bypass:
		return c.standIn(ctx, r, route, &c.bypass, r.ttl, deadline)
	}
	return nil, r.refuse(route.Verdict, nil), false
}

// notShared refuses a request that wants the shared tier or nothing.
func (r *request) notShared(route degrade.Route) *tierlock.Error {
	reason := route.Reason
	if r.order != nil {
		reason = tierlock.ReasonForced
	}
	e := r.because(reason, nil)
	if e.Advice == tierlock.AdviseOptimistic {
		e.Advice = tierlock.AdviseFail // whoever needs the real lock has no version to compare
	}
	return e
}

// moved tells whether the ladder stands elsewhere at now than where route sent the
// request, and why a grant made there is not used.
func (r *request) moved(route degrade.Route, now time.Time) (tierlock.Reason, bool) {
	order := r.order
	next := r.route(now)
	if next.Tier == route.Tier {
		r.order = order // the one that the grant was made under
		return "", false
	}
	return cmp.Or(next.Reason, tierlock.ReasonRecovering), true
}
