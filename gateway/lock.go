package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// Lock is a lock in hand: one entry into it. It belongs to whoever has the pointer, not to
// a goroutine, and all methods may be called at once. Unlock, Renew and IsHeld go to what
// granted it, whatever the chain's state is by then; no flip ever turns one kind of lock
// into another. A nil *Lock holds nothing, and every method may be called on it.
//
// A call under the lock's [Lock.Context] enters it once more, see [Reenter]: each entry is
// a Lock of its own, and the key is free when the last of them is given back, in whatever
// order. A lock is over for all of them then, when a renewal finds it lost, at its
// ExpiresAt, or after the policy's MaxHold. Its contexts end with it.
type Lock struct {
	*lease
	entry    uint64          // its name among the entries; 0: the acquisition's own
	gives    uint64          // the entry that it gives back; guarded by mu
	told     bool            // its backend knows that entry; guarded by mu
	unlocked bool            // Unlock was called; guarded by mu
	work     <-chan struct{} // closed when the ctx it was taken under has ended; nil: never
}

// ErrUnlocked is the cause of a lock's contexts when Unlock ended them.
var ErrUnlocked = errors.New("gateway: lock given back")

// newLock makes the handle of a grant that came at now. It is not registered or watched yet.
func (c *Chain) newLock(ctx context.Context, r *request, by *granter, ans tierlock.Answer, now time.Time) *Lock {
	t := &by.traits
	h := &lease{
		chain: c, by: by, ladder: r.ladder, hash: r.hash, tier: t.Tier, ttl: r.ttl,
		streak: r.streak, order: r.order, business: r.business, about: r.about, took: now.Sub(r.began),
		grant: tierlock.Grant{
			Chain: c.name, Key: r.key, RequestID: r.id, Tier: t.Tier, Scope: t.Scope, Exclusive: ans.Exclusive, Token: ans.Token,
			AcquiredAt: now, ExpiresAt: holdersEnd(ans.Until), Store: t.Store, Replayed: ans.Status == tierlock.Mine,
		},
	}
	if !r.norenew && t.Tier != tierlock.Local { // a local lock has a hard end
		h.every = c.policy.renewEvery(r.ttl)
	}
	h.own = Lock{lease: h, entry: r.entry, gives: r.entry, told: true, work: ctx.Done()}
	return &h.own
}

// hold is the entry as its backend knows it.
func (l *Lock) hold() tierlock.Hold {
	h := l.whole()
	l.mu.Lock()
	h.Entry = l.gives
	l.mu.Unlock()
	return h
}

// Grant is the present truth; a renewal moves its ExpiresAt.
func (l *Lock) Grant() tierlock.Grant {
	if l == nil {
		return tierlock.Grant{}
	}
	return l.now()
}

// Reason is why the grant is below shared, or the store was slow or recovering when it
// was made; empty on a plain shared grant.
func (l *Lock) Reason() tierlock.Reason {
	if l == nil {
		return ""
	}
	return l.reason
}

// Report tells the audit trail how the caller's work ended; it travels in the end event.
// The default is unknown. Call it before Unlock. Of several answers, of one caller or of several
// entries, rolled back counts only where all say it, and committed where any does: what one of them
// has left stands, and is looked for by that word.
func (l *Lock) Report(outcome audit.Work) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.outcome = joinWork(l.outcome, outcome)
	l.mu.Unlock()
}

// joinWork is how two pieces of work under one lock ended together; empty: nobody has told.
func joinWork(a, b audit.Work) audit.Work {
	switch {
	case a == "" || a == b:
		return b
	case a == audit.Committed || b == audit.Committed:
		return audit.Committed
	}
	return audit.Unknown
}

// IsHeld asks what granted the lock, not the clock. A lock that is over is not held; an
// error means that there was no answer within the policy's attempt.
func (l *Lock) IsHeld(ctx context.Context) (bool, error) {
	if l == nil || l.isOver() {
		return false, nil
	}
	ans, err := l.lookup(ctx)
	if err != nil {
		return false, l.failed("lookup", faultReason(err), err)
	}
	return ans.Status == tierlock.Mine, nil
}

func (l *Lock) lookup(ctx context.Context) (ans tierlock.Answer, err error) {
	now := time.Now()
	pass := l.counted(now)
	ans, err = l.by.Lookup(tierlock.Until(ctx, now.Add(l.chain.policy.Attempt)), l.hold())
	pass.Exit(err)
	return ans, err
}
