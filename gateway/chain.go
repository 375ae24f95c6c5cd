package gateway

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/localfallback"
)

// Chain is one business flow: its policy, its store and where it stands on the ladder.
// All methods may be called at once from any goroutine.
type Chain struct {
	gw     *Gateway
	name   string
	prefix string // of every key: "biz:order:lock:"
	policy Policy // as New filled it; never changes
	store  *store
	table  *localfallback.Table
	local  granter // the table
	bypass granter // the fake

	current  atomic.Pointer[Policy] // policy with what a switch document has changed; what it cannot change may be read from either
	orders   orders
	order    atomic.Pointer[order]     // nil: none; changed by orders.change only
	dry      atomic.Pointer[rehearsal] // nil: none
	live     atomic.Int64              // locks in hand
	unserved unserved

	mu      sync.RWMutex
	ladders map[string]*ladder // by target; guarded by mu
}

// Name is the chain's name.
func (c *Chain) Name() string { return c.name }

// Policy is the chain's policy in force: as New filled it, with what a switch document has
// changed since.
func (c *Chain) Policy() Policy { return *c.current.Load() }

// TryLock asks once and waits for no holder. id is what the chain's keys end in:
// "10086" stands for biz:order:lock:10086. The answer comes within the policy's attempt
// (200 ms) and 20 ms, whatever hangs.
//
// The error is a [*tierlock.Error] with the verdict (ErrHeld, ErrTimeout, ErrOptimistic,
// ErrSystem), ErrInvalid for an id or option that breaks a rule, or ErrClosed.
//
// The lock is renewed by itself until Unlock, the policy's MaxHold, or the end of ctx:
// a lock whose request is over is left to its ttl. To bound the waiting alone, use
// [WithWait] and not a ctx of its own.
func (c *Chain) TryLock(ctx context.Context, id string, opts ...Option) (*Lock, error) {
	var r request
	if err := c.newRequest(&r, id, opts); err != nil {
		return nil, err
	}
	return c.call(ctx, &r, false)
}

// Lock is TryLock that waits for a holder, up to the policy's Wait (300 ms), all attempts
// included. A lock still held when the wait ends is ErrHeld.
func (c *Chain) Lock(ctx context.Context, id string, opts ...Option) (*Lock, error) {
	var r request
	if err := c.newRequest(&r, id, opts); err != nil {
		return nil, err
	}
	return c.call(ctx, &r, true)
}

// Do locks id as Lock does, runs fn and unlocks. fn's ctx ends, with the cause, before the
// store can give the lock to somebody else. Where the answer is optimistic, Do runs the
// function given by [Optimistically] instead, or returns the error without one. The
// error of fn, or of that function, comes back as it is, and tells the audit trail how
// the work ended: nil committed, an error rolled back, a panic or an ended ctx unknown. An
// error with which the resource refused the lock's token ends the lock as lost, see
// [Lock.Refused].
func (c *Chain) Do(ctx context.Context, id string, fn func(context.Context, tierlock.Grant) error, opts ...Option) error {
	var r request
	if err := c.newRequest(&r, id, opts); err != nil {
		return err
	}
	return c.do(ctx, &r, fn)
}

func (c *Chain) do(ctx context.Context, r *request, fn func(context.Context, tierlock.Grant) error) error {
	if fn == nil {
		return tierlock.Invalid("fn", "nil", "want the work to do under the lock")
	}
	l, err := c.call(ctx, r, true)
	if err != nil {
		if r.optimistic != nil && errors.Is(err, tierlock.ErrOptimistic) {
			return c.optimistically(ctx, r, err)
		}
		return err
	}
	outcome := audit.Unknown
	defer func() {
		l.Report(outcome)
		l.Refused(err)    // its resource may know better than the store
		_ = l.Unlock(ctx) // hooks count it; the work is done
	}()
	err = fn(l.Context(ctx), l.Grant())
	outcome = outcomeOf(err)
	return err
}

// optimistically runs the caller's version-guarded work and records how it ended.
func (c *Chain) optimistically(ctx context.Context, r *request, answer error) (err error) {
	at, outcome := time.Now(), audit.Unknown
	defer func() { c.noteOptimistic(r, reasonOf(answer), outcome, at) }()
	err = r.optimistic(ctx)
	outcome = outcomeOf(err)
	return err
}

// outcomeOf reads the outcome of the caller's work from its error. An ended ctx says
// nothing of what the database did with the last statement.
func outcomeOf(err error) audit.Work {
	switch {
	case err == nil:
		return audit.Committed
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return audit.Unknown
	}
	return audit.RolledBack
}

// reasonOf is the reason in a verdict.
func reasonOf(err error) tierlock.Reason {
	if e, ok := errors.AsType[*tierlock.Error](err); ok {
		return e.Reason
	}
	return ""
}

// call is one call from its start to its verdict: refused if the gateway is closed,
// answered from the registry if the same request already holds the lock, an entry if the
// lock is in hand already, else acquired; told in every case.
func (c *Chain) call(ctx context.Context, r *request, waits bool) (*Lock, error) {
	if !c.gw.enter() {
		return nil, tierlock.ErrClosed
	}
	defer c.gw.leave()
	r.ladder = c.ladderOf(r.key)
	if waits && r.wait > 0 {
		r.end = r.began.Add(r.wait)
	}
	l, err := c.replay(r)
	if l == nil && err == nil {
		l, err = c.reenter(ctx, r)
	}
	if l == nil && err == nil {
		l, err = c.acquireWithin(ctx, r)
	}
	c.told(r, l, err)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// told tells the verdict: to the audit trail where the answer was optimistic and nobody
// will record how the work ended, and to the hooks.
func (c *Chain) told(r *request, l *Lock, err *tierlock.Error) {
	c.rehearse(r, err)
	if err != nil {
		c.unserved.note(err)
	}
	if err != nil && r.optimistic == nil && err.Is(tierlock.ErrOptimistic) {
		c.noteOptimistic(r, err.Reason, audit.Unknown, time.Now())
	}
	if c.gw.hooks.Acquired == nil {
		return
	}
	now := time.Now()
	info := AcquireInfo{Chain: c.name, Key: r.key, Ordered: r.order != nil, Entered: r.entry != 0, Spared: r.spared(), Took: now.Sub(r.began), Observed: r.observed, Instead: r.instead}
	if err != nil {
		info.Verdict = err.Verdict
	} else {
		info.Grant = l.Grant()
		info.Verdict = tierlock.Verdict{Outcome: tierlock.Success, Tier: l.tier, Reason: l.reason}
	}
	if !r.heldAt.IsZero() {
		info.Waited = now.Sub(r.heldAt)
	}
	tell(c.gw, "acquired", c.gw.hooks.Acquired, info)
}
