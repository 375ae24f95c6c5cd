package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
)

// margin is what a holder stops before the store may grant the lock to another: time for
// its work to notice that its context ended. The backend has taken the drift of the
// clocks (1 % and 2 ms) off already. From the design's formula of V.
const margin = 50 * time.Millisecond

// holdersEnd is V: when the holder must have stopped, if the store cannot grant to
// another before until.
func holdersEnd(until time.Time) time.Time { return until.Add(-margin) }

// storesEnd is that until again.
func storesEnd(expires time.Time) time.Time { return expires.Add(margin) }

// The causes of a lock that is lost, inside the error that the contexts end with.
var (
	errExpired = errors.New("its time ran out")
	errGone    = errors.New("the store no longer has it for this request")
	errMaxHold = errors.New("held for as long as max_hold allows")
)

// lease is what all entries of this process into one lock share: the grant, its end and
// what became of it. Registry and watchdog know leases; callers know entries.
type lease struct {
	own      Lock // the first entry
	chain    *Chain
	by       *granter
	ladder   *ladder
	hash     uint64          // of the key
	tier     tierlock.Tier   // with the three below in one word
	recorded bool            // has an acquire event; set before anybody else sees the lock
	ready    bool            // may be found in the registry; guarded by its shard
	streak   streak          // of hand-overs that brought it here
	reason   tierlock.Reason // why it is below shared, or not plainly shared
	ttl      time.Duration
	every    time.Duration // between renewals; 0: none; guarded by mu once it is watched
	order    *degrade.Order
	business *audit.Business
	about    tierlock.Key  // of the id, where the grant's key is a shard's; else zero
	took     time.Duration // from the call to the grant, for the budget

	mu      sync.Mutex
	grant   tierlock.Grant // guarded by mu: ExpiresAt moves with renewals; key, request id and AcquiredAt stay
	asked   time.Duration  // from AcquiredAt to the farthest end that the holder's own renewals asked for; guarded by mu
	how     audit.How      // empty while live; guarded by mu
	cause   error          // why the contexts ended; guarded by mu
	outcome audit.Work     // empty: nobody has told; guarded by mu
	adopted bool           // may stand for a later hold than its own; guarded by mu
	ties    *ties          // nil: it has none; guarded by mu

	prev, next *lease // in the registry; guarded by its shard
	slot       slot   // in the watchdog; guarded by its mutex
}

// ties are what a lock has only where somebody entered it once more, or works under a
// context of it. Most come and go without, and are that much smaller.
type ties struct {
	more  []*Lock     // entries after the first that were not given back
	bound []binding   // of the contexts
	timer *time.Timer // of the contexts, at ExpiresAt
}

// tiesLocked are those of h, which has some from now on.
func (h *lease) tiesLocked() *ties {
	if h.ties == nil {
		h.ties = new(ties)
	}
	return h.ties
}

// moreLocked are the entries after the first that were not given back.
func (h *lease) moreLocked() []*Lock {
	if h.ties == nil {
		return nil
	}
	return h.ties.more
}

// attrs names the lock in a log line; never by its request id.
func (h *lease) attrs(why error) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("chain", h.chain.name), slog.String("key", h.grant.Key.String()),
		slog.String("holder", h.grant.RequestID.Fingerprint()), slog.String("tier", h.tier.String()),
	}
	if why != nil {
		attrs = append(attrs, slog.Any("cause", why))
	}
	return attrs
}

// place is where the watchdog keeps it.
func (h *lease) place() *slot { return &h.slot }

// whole names the lock without saying which entry: what a renewal asks for.
func (h *lease) whole() tierlock.Hold {
	return tierlock.Hold{Key: h.grant.Key, ID: h.grant.RequestID, TTL: h.ttl}
}

// now is the grant as it is now.
func (h *lease) now() tierlock.Grant {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.grant
}

// renewable tells whether the watchdog keeps it beyond its first ttl.
func (h *lease) renewable() bool { return h.every > 0 }

// failed makes the error of an operation on the lock.
func (h *lease) failed(op string, reason tierlock.Reason, cause error) *tierlock.Error {
	v := h.chain.policy.Ladder.Refusal(reason)
	v.Tier = h.tier
	if v.Advice == tierlock.AdviseOptimistic {
		v.Advice = 0 // no advice for work that already runs
	}
	return &tierlock.Error{Op: op, Chain: h.chain.name, Key: h.grant.Key, Verdict: v, Err: cause}
}

func (h *lease) isOver() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.how != ""
}

// storeEnd is until when the store may still hold the key for this lock.
func (h *lease) storeEnd() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return storesEnd(h.grant.ExpiresAt)
}

// storeFrees is when the store has freed the key by itself, whatever became of the
// renewals: those of the watchdog ask for ttl, the holder's own for whatever he said. A
// live lock, of which one entry is given back, goes on being renewed until max_hold.
func (h *lease) storeFrees(now time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.how == "" {
		now = later(now, h.grant.AcquiredAt.Add(h.chain.policy.MaxHold))
	}
	return later(now.Add(h.ttl), later(storesEnd(h.grant.ExpiresAt), h.grant.AcquiredAt.Add(h.asked)))
}

// extend moves the end to what a good renewal promised; it never moves it back. It tells
// whether the lock was still live.
func (h *lease) extend(until time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.how != "" {
		return false
	}
	if end := holdersEnd(until); end.After(h.grant.ExpiresAt) {
		h.grant.ExpiresAt = end
		if h.ties != nil && h.ties.timer != nil {
			h.ties.timer.Reset(time.Until(end))
		}
	}
	return true
}

// expire ends the lock if its time has run out. The contexts' timer and the watchdog both
// call it; the first one counts.
func (h *lease) expire() { h.lose(audit.Expired, errExpired) }

// lose ends a lock that its holder did not give back, and tells everybody: the contexts
// first, since work must stop before anything else. It tells whether the lock was live.
func (h *lease) lose(how audit.How, why error) bool {
	now := time.Now()
	lost := h.failed("renew", tierlock.ReasonLost, why)
	e, ok := h.finish(how, lost, now)
	if !ok {
		return false
	}
	h.chain.gw.log.LogAttrs(context.Background(), slog.LevelWarn, "lock lost", h.attrs(why)...)
	info := e.info(now)
	info.Err = lost
	tell(h.chain.gw, "lost", h.chain.gw.hooks.Lost, LostInfo{Grant: h.grant, Held: info.Held, Cause: lost})
	tell(h.chain.gw, "released", h.chain.gw.hooks.Released, info)
	return true
}

// adopt makes h stand for the hold of a repeat of its request, which may be a later one
// than its own; false: h is over.
//
// A later one it is when the hold of h was gone before h could know:
//  1. A renewal asks, and the backend has the hold no more.
//  2. A repeat of the request is granted it anew, and is given h, which still looks alive.
//  3. The answer to the renewal ends h. The new hold is there, and only h can give it back.
func (h *lease) adopt() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.adopted = true
	return h.how == ""
}

// ending is what finish found. The lock's grant never changes after its end, so it is
// read there without the mutex.
type ending struct {
	lock  *lease
	at    time.Time // the end; of a lock that ran out, when it did
	cause error     // of its contexts' end
}

// finish is the one way a lock ends; ok tells whether this call ended it. Contexts are
// ended after the mutex is given back, since that may run the caller's code.
func (h *lease) finish(how audit.How, cause error, now time.Time) (e ending, ok bool) {
	h.mu.Lock()
	expires := h.grant.ExpiresAt
	switch {
	case h.how != "", how == audit.Expired && now.Before(expires): // over, or renewed just now
		h.mu.Unlock()
		return ending{}, false
	case now.After(expires): // whoever comes late finds that it ended then
		if how == audit.Released {
			how, cause = audit.Expired, h.failed("renew", tierlock.ReasonLost, errExpired)
		}
		now = expires
	}
	h.how, h.cause = how, cause
	e = ending{h, now, cause}
	outcome := cmp.Or(h.outcome, audit.Unknown)
	var loose ties // from h, whose entries go on being given back
	if h.ties != nil {
		loose = *h.ties
		h.ties.bound, h.ties.timer = nil, nil
	}
	h.mu.Unlock()

	if loose.timer != nil {
		loose.timer.Stop()
	}
	for _, b := range loose.bound {
		b.cancel(cause)
	}
	h.chain.gw.watchdog.forget(h)
	h.chain.gw.locks.remove(h)
	h.recordEnd(how, outcome, e.wall())
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
		info.Over = max(e.held()+e.lock.took-b, 0)
	}
	return info
}
