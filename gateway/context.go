package gateway

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
)

// Context returns a child of ctx that ends before the store can give the lock to somebody
// else, and when the lock is over for any other reason. Put it in the place of ctx:
//
//	ctx = lock.Context(ctx)
//
// context.Cause tells why it ended: [ErrUnlocked], an error that matches
// [tierlock.ErrLost], or what ended ctx. It carries the lock: see [LockOf], and a call for
// the same key under it enters the lock once more instead of waiting for it.
//
// What nobody can see in time is not promised: a release by somebody who knows the request
// id, or by an operator (noticed at the next renewal), a suspended process, a step of the
// store's clock.
func (l *Lock) Context(ctx context.Context) context.Context {
	if l == nil {
		return ctx
	}
	child, cancel := context.WithCancelCause(&carrier{Context: ctx, lock: l})
	l.bind(cancel)
	return child
}

// binding is a context that ends with a lock, or with one entry into it.
type binding struct {
	to     *Lock
	cancel context.CancelCauseFunc
}

// bind has cancel called when the lock is over, or the entry given back: at once if it is.
func (l *Lock) bind(cancel context.CancelCauseFunc) {
	l.mu.Lock()
	over, cause := l.how != "", l.cause
	if !over && l.unlocked {
		over, cause = true, ErrUnlocked
	}
	if !over {
		t := l.tiesLocked()
		t.bound = append(t.bound, binding{l, cancel})
		if t.timer == nil {
			// A context is a promise to the millisecond, so it gets a timer of its own.
			// A lock nobody made a context of only owes an end event: the watchdog
			// brings that, and ten thousand locks need no timers.
			t.timer = time.AfterFunc(time.Until(l.grant.ExpiresAt), l.expire)
		}
	}
	l.mu.Unlock()
	if over {
		cancel(cause)
	}
}

// LockOf returns the lock whose [Lock.Context] ctx is, or descends from: the innermost, and
// of those of a [Chain.LockAll] the first.
func LockOf(ctx context.Context) (*Lock, bool) {
	c := carrierOf(ctx)
	if c == nil {
		return nil, false
	}
	return c.lock, true
}

type carrierKey struct{}

// carrier is ctx with a lock in it, or with those of one LockAll.
type carrier struct {
	context.Context
	lock *Lock
	rest []*Lock // of a LockAll, after the first
}

// Value returns the carrier itself to those who look for one.
func (c *carrier) Value(key any) any {
	if key == (carrierKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// carrierOf is the innermost carrier that ctx descends from; nil: there is none.
func carrierOf(ctx context.Context) *carrier {
	c, _ := ctx.Value(carrierKey{}).(*carrier)
	return c
}

// carried is the lock of key that ctx carries, the innermost first; nil: it carries none.
func carried(ctx context.Context, of *Chain, key tierlock.Key) *lease {
	for c := carrierOf(ctx); c != nil; c = carrierOf(c.Context) {
		if c.lock.chain == of && c.lock.grant.Key == key {
			return c.lock.lease
		}
		for _, l := range c.rest {
			if l.chain == of && l.grant.Key == key {
				return l.lease
			}
		}
	}
	return nil
}
