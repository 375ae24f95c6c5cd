package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// margin is what a holder stops before the store may grant the lock to another: time for
// its work to notice that its context ended. The backend has taken the drift of the
// clocks (1 % and 2 ms) off already. From the design's formula of V.
const margin = 50 * time.Millisecond

// holdersEnd is V: when the holder must have stopped, if the store cannot grant to
// another before until.
func holdersEnd(until time.Time) time.Time { return until.Add(-margin) }

// The causes of a lock that is lost, inside the error that the contexts end with.
var (
	errExpired = errors.New("its time ran out")
	errGone    = errors.New("the store no longer has it for this request")
	errMaxHold = errors.New("held for as long as max_hold allows")
)

// Context returns a child of ctx that ends before the store can give the lock to somebody
// else, and when the lock is over for any other reason. Put it in the place of ctx:
//
//	ctx = lock.Context(ctx)
//
// context.Cause tells why it ended: [ErrUnlocked], an error that matches
// [tierlock.ErrLost], or what ended ctx. It carries the lock: see [LockOf].
//
// What nobody can see in time is not promised: a release by somebody who knows the request
// id, or by an operator (noticed at the next renewal), a suspended process, a step of the
// store's clock.
func (l *Lock) Context(ctx context.Context) context.Context {
	if l == nil {
		return ctx
	}
	child, cancel := context.WithCancelCause(carrier{ctx, l})
	l.bind(cancel)
	return child
}

// bind has cancel called when the lock is over, at once if it is.
func (l *Lock) bind(cancel context.CancelCauseFunc) {
	l.mu.Lock()
	over, cause := l.how != "", l.cause
	if !over {
		l.bound = append(l.bound, cancel)
		if l.timer == nil {
			// A context is a promise to the millisecond, so it gets a timer of its own.
			// A lock nobody made a context of only owes an end event: the watchdog
			// brings that, and ten thousand locks need no timers.
			l.timer = time.AfterFunc(time.Until(l.grant.ExpiresAt), l.expire)
		}
	}
	l.mu.Unlock()
	if over {
		cancel(cause)
	}
}

// LockOf returns the lock whose [Lock.Context] ctx is, or descends from.
func LockOf(ctx context.Context) (*Lock, bool) {
	l, ok := ctx.Value(lockKey{}).(*Lock)
	return l, ok
}

type lockKey struct{}

// carrier is ctx with a lock in it.
type carrier struct {
	context.Context
	lock *Lock
}

func (c carrier) Value(key any) any {
	if key == (lockKey{}) {
		return c.lock
	}
	return c.Context.Value(key)
}

// extend moves the end to what a good renewal promised; it never moves it back. It tells
// whether the lock was still live.
func (l *Lock) extend(until time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.how != "" {
		return false
	}
	if until.After(l.until) {
		l.until, l.grant.ExpiresAt = until, holdersEnd(until)
		if l.timer != nil {
			l.timer.Reset(time.Until(l.grant.ExpiresAt))
		}
	}
	return true
}

// expire ends the lock if its time has run out. The contexts' timer and the watchdog both
// call it; the first one counts.
func (l *Lock) expire() { l.lose(audit.Expired, errExpired) }

// lose ends a lock that its holder did not give back, and tells everybody: the contexts
// first, since work must stop before anything else. It tells whether the lock was live.
func (l *Lock) lose(how audit.How, why error) bool {
	now := time.Now()
	lost := l.failed("renew", tierlock.ReasonLost, why)
	e, ok := l.finish(how, lost, now)
	if !ok {
		return false
	}
	l.chain.gw.log.LogAttrs(context.Background(), slog.LevelWarn, "lock lost", l.attrs(why)...)
	info := e.info(now)
	info.Err = lost
	tell(l.chain.gw.hooks.Lost, LostInfo{Grant: l.grant, Held: info.Held, Cause: lost})
	tell(l.chain.gw.hooks.Released, info)
	return true
}

// ending is what finish found. The lock's grant never changes after its end, so it is
// read there without the mutex.
type ending struct {
	lock *Lock
	at   time.Time // the end; of a lock that ran out, when it did
}

// finish is the one way a lock ends; ok tells whether this call ended it. Contexts are
// ended after the mutex is given back, since that may run the caller's code.
func (l *Lock) finish(how audit.How, cause error, now time.Time) (e ending, ok bool) {
	l.mu.Lock()
	expires := l.grant.ExpiresAt
	switch {
	case l.how != "", how == audit.Expired && now.Before(expires): // over, or renewed just now
		l.mu.Unlock()
		return ending{}, false
	case now.After(expires): // whoever comes late finds that it ended then
		if how == audit.Released {
			how, cause = audit.Expired, l.failed("renew", tierlock.ReasonLost, errExpired)
		}
		now = expires
	}
	l.how, l.cause = how, cause
	e = ending{l, now}
	bound, timer, outcome := l.bound, l.timer, l.outcome
	l.bound, l.timer = nil, nil
	l.mu.Unlock()

	if timer != nil {
		timer.Stop()
	}
	for _, cancel := range bound {
		cancel(cause)
	}
	l.chain.gw.watchdog.forget(l)
	l.chain.gw.locks.remove(l)
	l.recordEnd(how, outcome, e.wall())
	return e, true
}

// wall is the end on the wall clock of the grant: a clock step in between moves no end
// before its beginning.
func (e *ending) wall() time.Time { return e.lock.grant.AcquiredAt.Add(e.held()) }

func (e *ending) held() time.Duration { return max(e.at.Sub(e.lock.grant.AcquiredAt), 0) }

// info is what the hooks are told of it.
func (e *ending) info(now time.Time) ReleaseInfo {
	info := ReleaseInfo{Grant: e.lock.grant, TTL: e.lock.ttl, Held: e.held(), Left: e.lock.grant.ExpiresAt.Sub(now)}
	if b := e.lock.chain.policy.Budget; b > 0 {
		info.Over = max(e.at.Sub(e.lock.began)-b, 0)
	}
	return info
}
