package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
)

// request is one call on its way: what was asked for, how long it may take, and what it
// has met so far. It lives on the caller's stack and belongs to the caller's goroutine.
type request struct {
	chain  *Chain
	policy *Policy
	ladder *ladder
	key    tierlock.Key
	about  tierlock.Key // of the id, where key is a shard's; else zero
	hash   uint64       // of key
	id     tierlock.RequestID
	named  bool   // the caller gave the id: it may have been used before
	entry  uint64 // of a re-entry; 0: the call is an acquisition
	ttl    time.Duration
	wait   time.Duration
	began  time.Time
	end    time.Time // of the wait; zero: one attempt, no waiting

	norenew    bool
	reenters   bool // Reenter: into the lock of that id or not at all
	sharedOnly bool // DoShared: the shared tier or nothing, and not under an order
	business   *audit.Business
	optimistic func(context.Context) error

	tier      tierlock.Tier   // that was asked last; zero: none was
	lined     time.Time       // until when the store may keep a place in its line for this id; zero: it was not asked to
	streak    streak          // of the hand-over that it took
	once      bool            // it waits for its turn, and for no holder
	asked     bool            // it has asked the store, or for a place on its wire
	coalesced bool            // the last route let one call for each key out at a time
	order     *degrade.Order  // that decided the last route; nil: none did
	observed  tierlock.Reason // why the last route would have been another, were the chain not on observe
	instead   tierlock.Tier   // that it would have asked
	heldAt    time.Time       // of the first answer "held" or the place in line; zero: there was none
	held      tierlock.Answer
	heldBy    tierlock.Waiter // of whoever answered "held"; nil: it cannot tell when to ask again
	waiting
	debt *entry // what the ledger had under this (key, id), taken over by this request
}

// newRequest checks a call before any I/O. It fills r in place, which stays on the
// caller's stack.
func (c *Chain) newRequest(r *request, id string, opts []Option) error {
	if err := c.requestFor(r, id, opts); err != nil {
		return err
	}
	if r.entry != 0 && !r.reenters {
		return tierlock.Invalid("entry", utoa(r.entry), "names an entry of a lock: say with Reenter which")
	}
	return nil
}

func (c *Chain) requestFor(r *request, id string, opts []Option) error {
	key, about, err := c.keyOf(id)
	if err != nil {
		return err
	}
	r.chain, r.policy, r.key, r.about, r.hash = c, c.current.Load(), key, about, key.Hash()
	r.ttl, r.wait, r.began = r.policy.TTL, r.policy.Wait, time.Now()
	for i := range opts {
		if err := opts[i].apply(r); err != nil {
			return err
		}
	}
	if !r.named {
		r.id = tierlock.NewRequestID()
	}
	return nil
}

// hold is the request as a backend knows it.
func (r *request) hold(ttl time.Duration) tierlock.Hold {
	return tierlock.Hold{Key: r.key, ID: r.id, Entry: r.entry, TTL: ttl}
}

// deadline is when an attempt that starts at now must be over: after the attempt's own
// time, at the end of the wait, or with the caller's ctx, whichever comes first.
func (r *request) deadline(ctx context.Context, now time.Time) time.Time {
	d := now.Add(r.policy.Attempt)
	if !r.end.IsZero() && r.end.Before(d) {
		d = r.end
	}
	if own, ok := ctx.Deadline(); ok && own.Before(d) {
		d = own
	}
	return d
}

// want is what whoever hands a lock over to this call must know of it.
func (r *request) want(ctx context.Context) want {
	w := want{hold: r.hold(r.ttl), named: r.named, once: r.once, end: r.end, till: r.lined}
	if own, ok := ctx.Deadline(); ok && own.Before(w.end) {
		w.end = own
	}
	return w
}

// route asks the ladder where the request stands now, and remembers the order that said
// so, if one did.
func (r *request) route(now time.Time) degrade.Route {
	o := r.chain.order.Load().of()
	route := degrade.Decide(&r.policy.Ladder, o, r.ladder.now.Load(), now, r.hash)
	if r.order = o; !o.Covers(now, r.hash) {
		r.order = nil
	}
	r.observed, r.instead, r.coalesced = route.Observed, route.Instead, coalesces(route)
	return route
}

// refuse makes the error of a request that was not served. Every verdict comes from the
// policy's truth table or from an answer; none is made up here.
func (r *request) refuse(v tierlock.Verdict, cause error) *tierlock.Error {
	return &tierlock.Error{Op: "acquire", Chain: r.chain.name, Key: r.key, Verdict: v, Err: cause}
}

// because refuses by the policy's truth table.
func (r *request) because(reason tierlock.Reason, cause error) *tierlock.Error {
	return r.refuse(r.policy.Ladder.Refusal(reason), cause)
}

// wasHeld keeps the first answer "held" in mind and refuses with this one.
func (r *request) wasHeld(now time.Time, ans tierlock.Answer, by tierlock.Waiter) *tierlock.Error {
	if r.heldAt.IsZero() {
		r.heldAt = now
	}
	r.held, r.heldBy = ans, by
	v := r.policy.Ladder.Refusal(tierlock.ReasonHeld)
	v.Remaining, v.Holder = ans.Remaining, ans.Holder
	v.RetryAfter, _ = r.policy.Schedule.orDefault().pause(1)
	return r.refuse(v, nil)
}

// canceled tells whether the caller's own ctx has ended, or its deadline passed: a store
// that keeps deadlines by itself may answer a moment before ctx does.
func canceled(ctx context.Context, now time.Time) bool {
	if ctx.Err() != nil {
		return true
	}
	d, ok := ctx.Deadline()
	return ok && !now.Before(d)
}

// faultReason is why a backend did not answer; one that breaks its contract is broken.
func faultReason(err error) tierlock.Reason {
	if f, ok := errors.AsType[*tierlock.Fault](err); ok {
		return f.Reason
	}
	return tierlock.ReasonBroken
}

// inDoubt tells whether what was asked may have happened, or may still; of a backend that
// breaks its contract, the worst is believed.
func inDoubt(err error) bool {
	f, ok := errors.AsType[*tierlock.Fault](err)
	return !ok || f.InDoubt
}
