package gateway

import (
	"context"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
)

// ChainOf returns the chain that key belongs to, and what its id is there. An unknown
// chain, or a key of another shape than <prefix>:<chain>:lock:<id>, is ErrInvalid.
func (g *Gateway) ChainOf(key tierlock.Key) (c *Chain, id string, err error) {
	rest, ok := strings.CutPrefix(key.String(), g.prefix+":")
	name, id, cut := strings.Cut(rest, ":lock:")
	if !ok || !cut || id == "" {
		return nil, "", tierlock.Invalid("key", key.String(), "want "+g.prefix+":<chain>:lock:<id>")
	}
	if c = g.chains[name]; c == nil {
		return nil, "", tierlock.Invalid("key", key.String(), "chain "+name+" is not configured; there are "+names(g.chains))
	}
	return c, id, nil
}

// Attach returns the handle of a lock by key and request id: the one this process gave
// out, on whatever tier, or, after one Lookup, one of a lock that another process or
// language was granted by the shared store. ErrLost if it is not that request's any
// more; ErrTimeout or ErrSystem if the store did not answer.
func (g *Gateway) Attach(ctx context.Context, key tierlock.Key, id tierlock.RequestID, opts ...Option) (*Lock, error) {
	c, business, err := g.ChainOf(key)
	if err != nil {
		return nil, err
	}
	if id.IsZero() {
		return nil, tierlock.Invalid("request_id", "", "is all zero")
	}
	var r request
	if err := c.requestFor(&r, business, append(opts[:len(opts):len(opts)], WithRequestID(id))); err != nil {
		return nil, err
	}
	if !g.enter() {
		return nil, tierlock.ErrClosed
	}
	defer g.leave()
	if h := g.locks.find(r.key, r.hash, id); h != nil {
		return h.handle(r.entry), nil
	}
	return c.attach(ctx, &r)
}

// attach looks a lock up that this process did not grant.
func (c *Chain) attach(ctx context.Context, r *request) (*Lock, error) {
	r.ladder = c.ladderOf(r.key)
	now := time.Now()
	pass := r.ladder.count(now)
	ans, cause := c.store.Lookup(tierlock.Until(ctx, r.deadline(ctx, now)), r.hold(r.ttl))
	pass.Exit(cause)
	now = time.Now()
	switch {
	case cause != nil && canceled(ctx, now):
		return nil, r.looked(tierlock.ReasonCanceled, cause)
	case cause != nil:
		return nil, r.looked(faultReason(cause), cause)
	case ans.Status != tierlock.Mine || !now.Before(holdersEnd(ans.Until)):
		return nil, r.looked(tierlock.ReasonLost, errGone)
	}
	l := c.newLock(ctx, r, &c.store.granter, ans, now)
	l.recorded = c.policy.Audit.Records(tierlock.Shared) // its own process wrote the beginning down
	c.gw.locks.add(l.lease)
	return c.handOut(l), nil
}

func (r *request) looked(reason tierlock.Reason, cause error) *tierlock.Error {
	e := r.because(reason, cause)
	e.Op = "lookup"
	if e.Advice == tierlock.AdviseOptimistic {
		e.Advice = 0 // nothing was asked for that a version could stand in for
	}
	return e
}

// replay answers a repeated request of this process from the registry: the lock it
// already holds, with what is left of it and its first token; nothing is extended.
func (c *Chain) replay(r *request) (*Lock, *tierlock.Error) {
	if !r.named || r.reenters {
		return nil, nil
	}
	h := c.gw.locks.find(r.key, r.hash, r.id)
	if h == nil {
		return nil, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.how != "" || h.own.unlocked || h.own.entry != 0 {
		return nil, nil
	}
	h.grant.Replayed = true
	return &h.own, nil
}

// DoShared runs fn under the real lock of key: on the shared tier or not at all, and not
// while an operator's order is on the chain. Repairs use it.
func (g *Gateway) DoShared(ctx context.Context, key tierlock.Key, fn func(context.Context, tierlock.Grant) error) error {
	c, id, err := g.ChainOf(key)
	if err != nil {
		return err
	}
	var r request
	if err := c.requestFor(&r, id, nil); err != nil {
		return err
	}
	r.sharedOnly = true
	return c.do(ctx, &r, fn)
}
