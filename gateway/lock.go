package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
)

// Lock is a lock in hand. It belongs to whoever has the pointer, not to a goroutine, and
// all methods may be called at once. Unlock, Renew and IsHeld go to what granted it,
// whatever the chain's state is by then; no flip ever turns one kind of lock into
// another. A nil *Lock holds nothing, and every method may be called on it.
//
// A lock is over by Unlock, when a renewal finds it lost, at its ExpiresAt, or after the
// policy's MaxHold. Its contexts end with it.
type Lock struct {
	chain    *Chain
	by       *granter
	ladder   *ladder
	hash     uint64          // of the key
	tier     tierlock.Tier   // with the three below in one word: it keeps a Lock in the 448 byte size class
	recorded bool            // has an acquire event; set before anybody else sees the lock
	unlocked bool            // Unlock was called; guarded by mu
	ready    bool            // may be found in the registry; guarded by its shard
	reason   tierlock.Reason // why it is below shared, or not plainly shared
	ttl      time.Duration
	every    time.Duration // between renewals; 0: none; guarded by mu once it is watched
	order    *degrade.Order
	business *audit.Business
	began    time.Time       // of the call, for the budget
	work     <-chan struct{} // closed when the ctx it was taken under has ended; nil: never

	mu      sync.Mutex
	grant   tierlock.Grant            // guarded by mu: ExpiresAt moves with renewals; key, request id and AcquiredAt stay
	until   time.Time                 // the store does not grant to another before; guarded by mu
	asked   time.Time                 // the farthest end that the holder's own renewals asked for; guarded by mu
	how     audit.How                 // empty while live; guarded by mu
	cause   error                     // why the contexts ended; guarded by mu
	outcome audit.Work                // guarded by mu
	bound   []context.CancelCauseFunc // of the contexts; guarded by mu
	timer   *time.Timer               // of the contexts, at ExpiresAt; guarded by mu

	prev, next *Lock // in the registry; guarded by its shard
	slot       slot  // in the watchdog; guarded by its mutex
}

// ErrUnlocked is the cause of a lock's contexts when Unlock ended them.
var ErrUnlocked = errors.New("gateway: lock given back")

// newLock makes the handle of a grant that came at now. It is not registered or watched yet.
func (c *Chain) newLock(ctx context.Context, r *request, by *granter, ans tierlock.Answer, now time.Time) *Lock {
	t := &by.traits
	l := &Lock{
		chain: c, by: by, ladder: r.ladder, hash: r.hash, tier: t.Tier, ttl: r.ttl,
		order: r.order, business: r.business, began: r.began, work: ctx.Done(), outcome: audit.Unknown,
		grant: tierlock.Grant{
			Chain: c.name, Key: r.key, RequestID: r.id, Tier: t.Tier, Scope: t.Scope, Exclusive: ans.Exclusive, Token: ans.Token,
			AcquiredAt: now, ExpiresAt: holdersEnd(ans.Until), Store: t.Store, Replayed: ans.Status == tierlock.Mine,
		},
		until: ans.Until,
	}
	if !r.norenew && t.Tier != tierlock.Local { // a local lock has a hard end
		l.every = c.policy.renewEvery(r.ttl)
	}
	return l
}

// attrs names the lock in a log line; never by its request id.
func (l *Lock) attrs(why error) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("chain", l.chain.name), slog.String("key", l.grant.Key.String()),
		slog.String("holder", l.grant.RequestID.Fingerprint()), slog.String("tier", l.tier.String()),
	}
	if why != nil {
		attrs = append(attrs, slog.Any("cause", why))
	}
	return attrs
}

// place is where the watchdog keeps it.
func (l *Lock) place() *slot { return &l.slot }

// hold is the lock as its backend knows it.
func (l *Lock) hold() tierlock.Hold {
	return tierlock.Hold{Key: l.grant.Key, ID: l.grant.RequestID, TTL: l.ttl}
}

// renewable tells whether the watchdog keeps it beyond its first ttl.
func (l *Lock) renewable() bool { return l.every > 0 }

// Grant is the present truth; a renewal moves its ExpiresAt.
func (l *Lock) Grant() tierlock.Grant {
	if l == nil {
		return tierlock.Grant{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.grant
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
// The default is unknown. Call it before Unlock.
func (l *Lock) Report(outcome audit.Work) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.outcome = outcome
	l.mu.Unlock()
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
	pass := l.counted()
	ans, err = l.by.Lookup(tierlock.Until(ctx, time.Now().Add(l.chain.policy.Attempt)), l.hold())
	pass.Exit(err)
	return ans, err
}

// failed makes the error of an operation on the lock.
func (l *Lock) failed(op string, reason tierlock.Reason, cause error) *tierlock.Error {
	v := l.chain.policy.Ladder.Refusal(reason)
	v.Tier = l.tier
	if v.Advice == tierlock.AdviseOptimistic {
		v.Advice = 0 // no advice for work that already runs
	}
	return &tierlock.Error{Op: op, Chain: l.chain.name, Key: l.grant.Key, Verdict: v, Err: cause}
}

func (l *Lock) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.how != ""
}

// storeEnd is until when the store may still hold the key for this lock.
func (l *Lock) storeEnd() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// storeFrees is when the store has freed the key by itself, whatever became of the
// renewals: those of the watchdog ask for ttl, the holder's own for whatever he said.
func (l *Lock) storeFrees(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return later(now.Add(l.ttl), later(l.until, l.asked))
}
