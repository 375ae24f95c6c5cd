package gateway

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// maxEntry bounds the name of an entry, so that it is exact as a JSON number.
const maxEntry = 1<<53 - 1

// newEntry draws a name: with thousands of entries into one lock, two of the same name are
// still out of the question.
func newEntry() uint64 { return 1 + rand.Uint64N(maxEntry) }

// errNoEntries is why a lock of another process cannot be entered.
var errNoEntries = errors.New("not a lock of this process, and the store keeps no entries")

// errRetaken says why an entry is over: its backend had no other one, and freed the key.
var errRetaken = errors.New("somebody else gave its entries back")

// reenter answers a call that enters a lock already in hand; nil, nil if there is none and
// the call did not insist.
//
// Every entry of this process counts in its lease. The backend is told of each too, so
// that an Unlock by key and request id from elsewhere — another daemon, this one after a
// restart — frees nothing that is still in use. Entering waits for nobody, asks no ladder
// and extends nothing: the lock is already there, whatever the chain's state is by now.
func (c *Chain) reenter(ctx context.Context, r *request) (*Lock, *tierlock.Error) {
	var h *lease
	switch {
	case r.reenters:
		h = c.gw.locks.find(r.key, r.hash, r.id)
	case !r.named:
		h = carried(ctx, c, r.key)
	}
	if h == nil && !r.reenters || h != nil && r.sharedOnly && h.tier != tierlock.Shared {
		return nil, nil
	}
	if canceled(ctx, r.began) {
		return nil, r.because(tierlock.ReasonCanceled, context.Cause(ctx))
	}
	if r.entry == 0 {
		r.entry = newEntry()
	}
	if h == nil {
		return c.enterElsewhere(ctx, r)
	}
	r.id = h.grant.RequestID
	l, added, live := h.join(r.entry, ctx.Done())
	switch {
	case live:
		return c.enter(ctx, r, l, added)
	case r.reenters:
		return nil, r.because(tierlock.ReasonLost, h.endedBy())
	}
	r.id, r.entry = tierlock.NewRequestID(), 0
	return nil, nil // it ended this moment: the key is to be had like any other
}

// join adds an entry to a live lock, or finds the one of that name.
func (h *lease) join(entry uint64, work <-chan struct{}) (l *Lock, added, live bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.how != "" || h.own.unlocked && len(h.moreLocked()) == 0 { // over, or its last one is leaving
		return nil, false, false
	}
	if l = h.entryLocked(entry); l != nil && !l.unlocked {
		return l, false, true
	}
	l = &Lock{lease: h, entry: entry, gives: entry, work: work}
	t := h.tiesLocked()
	t.more = append(t.more, l)
	return l, true, true
}

// handle is the entry of that name, or one for an entry that was made elsewhere: it counts
// in no lease, and giving it back tells the backend.
func (h *lease) handle(entry uint64) *Lock {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.entryLocked(entry); l != nil {
		return l
	}
	return &Lock{lease: h, entry: entry, gives: entry, told: true}
}

// entryLocked is the entry of that name, the first one also when it was given back; nil:
// there is none.
func (h *lease) entryLocked(entry uint64) *Lock {
	for _, l := range h.moreLocked() {
		if l.entry == entry {
			return l
		}
	}
	if h.own.entry == entry {
		return &h.own
	}
	return nil
}

// enter tells the backend of an entry that has joined. Where that does not answer, an entry
// which the caller did not name counts in this process alone: whichever entry the backend
// knows is kept for it, see leave. One with a name is refused, since its caller may give
// it back elsewhere.
func (c *Chain) enter(ctx context.Context, r *request, l *Lock, added bool) (*Lock, *tierlock.Error) {
	switch {
	case !l.by.traits.Entries: // a store without them, or the fake, which remembers nobody
		return l, nil
	case l.tier == tierlock.Shared && !r.reenters && l.ladder.down():
		return l, nil
	}
	ask := tierlock.Request{Hold: tierlock.Hold{Key: r.key, ID: r.id, Entry: l.entry, TTL: l.ttl}, NotAfter: r.deadline(ctx, time.Now())}
	if r.reenters {
		if err := c.takeDebt(ctx, r, ask.NotAfter); err != nil {
			return l.notEntered(ctx, err, added)
		}
		defer c.payDebt(r)
	}
	pass := l.counted(time.Now())
	ans, cause := l.by.Acquire(tierlock.Until(ctx, ask.NotAfter), ask)
	pass.Exit(cause)
	switch {
	case cause == nil && ans.Status == tierlock.Mine:
		r.debt = nil
		if twice, ok := l.confirm(); ok {
			c.gw.ledger.add(twice)
		}
		return l, nil
	case cause == nil && ans.Status != tierlock.Late:
		l.lose(audit.Lost, errGone)
		return nil, r.because(tierlock.ReasonLost, errGone)
	}
	if f, ok := errors.AsType[*tierlock.Fault](cause); l.tier == tierlock.Shared && cause != nil && (!ok || f.InDoubt) {
		c.gw.ledger.add(c.inDoubt(r, ask.NotAfter))
	}
	if !r.reenters {
		return l, nil
	}
	if cause == nil {
		return l.notEntered(ctx, r.because(tierlock.ReasonLate, nil), added)
	}
	return l.notEntered(ctx, r.because(faultReason(cause), cause), added)
}

// notEntered takes an entry out again that the call has added, unless another call of the
// same name was answered meanwhile.
func (l *Lock) notEntered(ctx context.Context, err *tierlock.Error, added bool) (*Lock, *tierlock.Error) {
	l.mu.Lock()
	known := l.told && l.gives == l.entry
	l.mu.Unlock()
	if known {
		return l, nil
	}
	if added {
		_ = l.Unlock(ctx)
	}
	return nil, err
}

// confirm takes in that the backend knows the entry. If another one was left to it
// meanwhile, it answers for two: that one goes back.
func (l *Lock) confirm() (twice *entry, ok bool) {
	l.mu.Lock()
	left := l.gives
	inherited := l.told && left != l.entry
	l.gives, l.told = l.entry, true
	l.mu.Unlock()
	if !inherited {
		return nil, false
	}
	twice = l.chain.putOff(l)
	twice.hold.Entry = left
	return twice, true
}

// leaving is what has to be done for an entry that leaves.
type leaving uint8

const (
	leftBefore   leaving = iota // nothing: it had left
	leftSilently                // nothing: the backend keeps what it knows
	leftOthers                  // the backend is to be told; the lock goes on
	leftLast                    // the lock ends, or is over already
)

// leave takes an entry out, and returns the contexts that end with it alone.
//
// The backend must know one entry as long as this process has any, or it would free the
// key under those it was not told of. So where the last one that it knows leaves, one of
// the others takes over its name there, and the backend is told nothing.
func (l *Lock) leave() (leaving, []binding) {
	h := l.lease
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.unlocked {
		return leftBefore, nil
	}
	l.unlocked = true
	i := slices.Index(h.moreLocked(), l)
	if i >= 0 {
		h.ties.more = slices.Delete(h.ties.more, i, i+1)
	}
	rest := h.moreLocked()
	if !h.own.unlocked {
		rest = append(rest[:len(rest):len(rest)], &h.own)
	}
	counted := i >= 0 || l == &h.own
	if h.how != "" || counted && len(rest) == 0 {
		return leftLast, nil
	}
	alone := l.unbindLocked()
	knows := func(other *Lock) bool { return other.told }
	switch {
	case !l.told:
		return leftSilently, alone
	case counted && !slices.ContainsFunc(rest, knows):
		rest[0].gives, rest[0].told = l.gives, true
		return leftSilently, alone
	}
	return leftOthers, alone
}

// unbindLocked takes out the contexts of this entry.
func (l *Lock) unbindLocked() (own []binding) {
	if l.ties == nil {
		return nil
	}
	l.ties.bound = slices.DeleteFunc(l.ties.bound, func(b binding) bool {
		if b.to == l {
			own = append(own, b)
		}
		return b.to == l
	})
	return own
}

// abandonedLocked tells whether whoever took the lock, and whoever entered it since, is
// gone: nobody renews for them.
func (h *lease) abandonedLocked() bool {
	if !h.own.unlocked && !ended(h.own.work) {
		return false
	}
	return !slices.ContainsFunc(h.moreLocked(), func(l *Lock) bool { return !ended(l.work) })
}

// enterElsewhere enters a lock that another process holds in the shared store.
func (c *Chain) enterElsewhere(ctx context.Context, r *request) (*Lock, *tierlock.Error) {
	if !c.store.traits.Entries {
		return nil, r.because(tierlock.ReasonLost, errNoEntries)
	}
	deadline := r.deadline(ctx, time.Now())
	if err := c.takeDebt(ctx, r, deadline); err != nil {
		return nil, err
	}
	defer c.payDebt(r)
	pass := r.ladder.count(time.Now())
	ans, cause := c.store.Acquire(tierlock.Until(ctx, deadline), tierlock.Request{
		Hold: r.hold(r.ttl), NotAfter: deadline, Fenced: c.policy.Fencing && c.store.traits.Fences, // the first token comes back
	})
	pass.Exit(cause)
	now := time.Now()
	switch {
	case cause != nil:
		l, err, _ := c.unanswered(ctx, r, deadline, cause)
		return l, err
	case ans.Status == tierlock.Late:
		return nil, r.because(tierlock.ReasonLate, nil)
	case ans.Status != tierlock.Mine || !now.Before(holdersEnd(ans.Until)):
		return nil, r.because(tierlock.ReasonLost, errGone)
	}
	r.debt = nil
	l := c.newLock(ctx, r, &c.store.granter, ans, now)
	l.recorded = c.policy.Audit.Records(tierlock.Shared) // its own process wrote the beginning down
	c.gw.locks.add(l.lease)
	return c.handOut(l), nil
}
