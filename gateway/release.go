package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/breaker"
)

// Unlock gives the lock back; of a lock that was entered several times, this entry: the
// last one frees the key. It is idempotent, does nothing on nil, works under a canceled
// ctx, of which it takes the values only, and returns within the policy's attempt. Its error never means that the work failed: ErrLost tells that the lock had
// ended before, any other that the store did not answer — or was known to be down, and
// not asked — and that the release goes on behind the caller until it is answered or the
// lock's ttl is over. A second Unlock returns nil.
func (l *Lock) Unlock(ctx context.Context) error {
	if l == nil {
		return nil
	}
	if ctx == nil { // what is deferred must give back whatever went wrong before
		ctx = context.Background()
	}
	now := time.Now()
	switch rest, bound := l.leave(); rest {
	case leftBefore:
		return nil
	case leftSilently, leftOthers:
		for _, b := range bound {
			b.cancel(ErrUnlocked)
		}
		if rest == leftSilently {
			return nil
		}
		return l.unlockOne(ctx, now)
	}
	e, ended := l.finish(audit.Released, ErrUnlocked, now)
	if !ended {
		return l.unlockOver(ctx, now)
	}
	info := e.info(now)
	p := l.giveOn(ctx, now)
	info.Passed, info.Deferred, info.Err = p.passed, p.deferred, p.err
	if !errors.Is(e.cause, ErrUnlocked) {
		info.Err = e.cause // it had run out a moment before
	}
	if info.Over > 0 {
		l.chain.gw.log.LogAttrs(ctx, slog.LevelWarn, "budget passed", append(l.attrs(nil), slog.Duration("over", info.Over))...)
	}
	tell(l.chain.gw, "released", l.chain.gw.hooks.Released, info)
	return info.Err
}

// unlockOne gives one entry of several back; the lock goes on.
func (l *Lock) unlockOne(ctx context.Context, now time.Time) error {
	status, _, err := l.release(ctx, now)
	switch status {
	case tierlock.Released: // the backend knew of no other one
		if l.lose(audit.Lost, errRetaken) {
			return l.endedBy()
		}
		// The last one left meanwhile, and its release overtook this one.
	case tierlock.Gone, tierlock.Held:
		l.lose(audit.Lost, errGone)
	}
	return err
}

// unlockOver gives back what is left of a lock that ended by itself: its key may stand in
// the store for a while yet, and frees up earlier this way.
func (l *Lock) unlockOver(ctx context.Context, now time.Time) error {
	l.mu.Lock()
	cause, adopted := l.cause, l.adopted
	l.mu.Unlock()
	if adopted || !errors.Is(cause, errGone) && !errors.Is(cause, errRetaken) {
		_, _, _ = l.release(ctx, now)
	}
	return cause
}

// endedBy is the cause that the lock's contexts ended with.
func (h *lease) endedBy() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// parting is how a holder was rid of its lock.
type parting struct {
	done     bool // false: it was not
	passed   bool // to the next call in line
	deferred bool // it goes on behind the caller
	err      error
}

// giveOn gives the lock to the next call in line, or back to the backend.
func (l *Lock) giveOn(ctx context.Context, now time.Time) parting {
	if p := l.handOver(ctx, now); p.done {
		return p
	}
	_, deferred, err := l.release(ctx, now)
	l.chain.gw.lines.nudge(l.grant.Key, l.hash)
	return parting{done: true, deferred: deferred, err: err}
}

// release asks the backend once, inside the attempt. A store that is known to be down is
// not asked at all, so that nobody waits for it.
func (l *Lock) release(ctx context.Context, now time.Time) (found tierlock.Status, deferred bool, err error) {
	if l.tier == tierlock.Shared && l.ladder.down() && !l.chain.gw.closed.Load() {
		l.chain.gw.ledger.add(l.chain.putOff(l))
		return 0, true, l.failed("release", tierlock.ReasonDown, nil)
	}
	pass := l.counted(now)
	ans, cause := l.by.Release(detach(ctx, now.Add(l.chain.policy.Attempt)), l.hold())
	pass.Exit(cause)
	switch {
	case cause != nil && l.tier == tierlock.Shared:
		l.chain.gw.ledger.add(l.chain.putOff(l))
		return 0, true, l.failed("release", faultReason(cause), cause)
	case cause != nil:
		return 0, false, l.failed("release", faultReason(cause), cause)
	case ans.Status == tierlock.Gone, ans.Status == tierlock.Held:
		return ans.Status, false, l.failed("release", tierlock.ReasonLost, errGone)
	}
	return ans.Status, false, nil
}

// counted counts an operation on the wire of a shared lock's target, until the pass is
// told how it went; the zero Pass of any other lock counts nothing.
func (h *lease) counted(now time.Time) breaker.Pass {
	if h.tier != tierlock.Shared {
		return breaker.Pass{}
	}
	return h.ladder.count(now)
}

// detach is ctx without its end, with a deadline and no timer.
func detach(ctx context.Context, deadline time.Time) context.Context {
	return detached{ctx, deadline}
}

type detached struct {
	parent   context.Context
	deadline time.Time
}

func (d detached) Deadline() (time.Time, bool) { return d.deadline, true }
func (d detached) Done() <-chan struct{}       { return nil }
func (d detached) Err() error                  { return nil }
func (d detached) Value(key any) any           { return d.parent.Value(key) }
