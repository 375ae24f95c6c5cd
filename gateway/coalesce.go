package gateway

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
)

// Where the wire is full and the chain's on_saturated says coalesce, a key's line is the gate
// to the store for all calls of this process, also for those that wait for no holder: the
// first of the line is the one that is out with a question, and who holds hands over to it.
// Every grant is the store's, so a key has one holder among all processes as ever.

// coalesces tells whether calls go to the store by route one at a time for each key.
func coalesces(route degrade.Route) bool { return route.Admit == degrade.AdmitOne }

// inTurn is one attempt of a call without a place: it takes one in its key's line, until the
// deadline. It waits for no holder, only for the question of another call, whose answer is
// as good as its own would be if that one is told, or becomes, who holds the key.
func (c *Chain) inTurn(ctx context.Context, r *request, now, deadline time.Time) (*Lock, *tierlock.Error) {
	if err := c.heldHere(r, now); err != nil {
		return nil, err
	}
	outer, end, once := r.waiting, r.end, r.once
	r.waiting, r.end, r.once = waiting{at: now, turn: ask, since: now}, deadline, true
	var first bool
	if r.place, first = c.gw.lines.join(r.key, r.hash, r.want(ctx)); !first {
		r.turn = rest
	}
	l, err := r.run(ctx)
	r.unline(l)
	r.waiting, r.end, r.once = outer, end, once
	return l, err
}

// heldHere refuses a key that a lock of this process has in the store, of another request:
// the store need not be asked.
func (c *Chain) heldHere(r *request, now time.Time) *tierlock.Error {
	holder, until := c.gw.locks.holder(r.key, r.hash, now)
	if holder == nil || holder.grant.RequestID == r.id {
		return nil
	}
	return r.wasHeld(now, tierlock.Answer{Status: tierlock.Held, Remaining: until.Sub(now)}, nil)
}

// behindOwn parks a call that is the first of its line behind a lock of this process: it
// will be handed that, and asks for itself only when none is to come; see askAt.
func (r *request) behindOwn(ctx context.Context) bool {
	holder, _ := r.chain.gw.locks.holder(r.key, r.hash, r.at)
	if holder == nil || holder.grant.RequestID == r.id {
		return false
	}
	r.place.park(r.want(ctx))
	return true
}

// answeredBy tells whether a call that waits for no holder is answered by what its line
// knows: somebody had the key after it came, or whoever is before it waits for a holder.
// Anything older would keep a key for held that is long free, where the line never ends.
func (r *request) answeredBy(see view) bool {
	return see.behind || !see.held.IsZero() && !see.held.Before(r.since)
}

// spared tells whether the call was answered without a question of its own to a store whose
// wire is full.
func (r *request) spared() bool { return r.coalesced && !r.asked }
