package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// maxAll is how many locks one LockAll takes: as many as a store's wire usually carries at
// once, and more than any order has lines.
const maxAll = 128

// Locks are the locks of one [Chain.LockAll], in the order of their keys. A nil *Locks
// holds nothing, and every method may be called on it, from any goroutine.
type Locks struct {
	all []*Lock
}

// LockAll locks every one of ids, or none: 1 to 128 of them, a repeated one once, each with
// a token of its own. One wait, the policy's or [WithWait]'s, is for all of them together;
// with a wait of zero each is tried once. The error is that of [Chain.Lock], for one of the
// keys that was not to be had; what the others had been granted is given back behind the
// caller, also where the store hangs.
//
// All that may be free are asked for at once. Where one is held, what lies behind it in the
// order of the keys is given back before it is waited for: every process waits for a key
// with smaller ones in hand only, so none waits for another in a circle.
//
// Under the context of a lock of the same chain its key is entered, as in [Chain.Lock].
// [Reenter] is refused: it names one lock.
func (c *Chain) LockAll(ctx context.Context, ids []string, opts ...Option) (*Locks, error) {
	began := time.Now()
	rs, err := c.newRequests(ids, opts)
	if err != nil {
		return nil, err
	}
	if !c.gw.enter() {
		return nil, tierlock.ErrClosed
	}
	defer c.gw.leave()
	for i := range rs {
		r := &rs[i]
		r.ladder, r.began = c.ladderOf(r.key), began
		if r.wait > 0 {
			r.end = began.Add(r.wait)
		}
	}
	all := make([]*Lock, len(rs))
	if i, err := c.takeAll(ctx, rs, all); err != nil {
		c.giveBack(all)
		c.told(&rs[i], nil, err)
		return nil, err
	}
	for i := range rs {
		c.told(&rs[i], all[i], nil)
	}
	return &Locks{all}, nil
}

// newRequests checks a LockAll before any I/O, and returns its requests by key.
func (c *Chain) newRequests(ids []string, opts []Option) ([]request, error) {
	if len(ids) == 0 || len(ids) > maxAll {
		return nil, tierlock.Invalid("ids", strconv.Itoa(len(ids)), fmt.Sprintf("want 1 to %d of them", maxAll))
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	rs := make([]request, len(ids))
	var errs []error
	for i, id := range ids {
		if err := c.newRequest(&rs[i], id, opts); err != nil {
			errs = append(errs, err)
			continue
		}
		if rs[i].reenters {
			return nil, tierlock.Invalid("reenter", "", "names one lock: enter it with Lock")
		}
	}
	if c.policy.Shards > 0 { // several ids may have one slot
		slices.SortFunc(rs, func(a, b request) int { return strings.Compare(a.key.String(), b.key.String()) })
		rs = slices.CompactFunc(rs, func(a, b request) bool { return a.key == b.key })
	}
	return rs, errors.Join(errs...)
}

// takeAll fills all with the locks of rs, or tells which one was not to be had; then some
// of the others may stand in all.
func (c *Chain) takeAll(ctx context.Context, rs []request, all []*Lock) (int, *tierlock.Error) {
	for from := 0; from < len(rs); {
		i, err := c.tryEach(ctx, rs[from:], all[from:])
		if err == nil {
			return 0, nil
		}
		i += from
		r := &rs[i]
		if err.Reason != tierlock.ReasonHeld || r.end.IsZero() {
			return i, err
		}
		c.giveBack(all[i+1:])
		for j := i + 1; j < len(rs); j++ {
			if !rs[j].named { // one that was given back is over
				rs[j].id = tierlock.NewRequestID()
			}
		}
		if r.at = time.Now(); !r.at.Before(r.end) {
			return i, err
		}
		if all[i], err = c.acquireWithin(ctx, r); err != nil {
			return i, err
		}
		from = i + 1
	}
	return 0, nil
}

// tryEach asks for each of rs once, at once. Where not all are granted it tells which one
// was not: the first that was answered anything but held, else the first.
func (c *Chain) tryEach(ctx context.Context, rs []request, all []*Lock) (int, *tierlock.Error) {
	errs := make([]*tierlock.Error, len(rs))
	var each sync.WaitGroup
	for i := range rs[1:] {
		each.Go(func() { all[i+1], errs[i+1] = c.tryOne(ctx, &rs[i+1]) })
	}
	all[0], errs[0] = c.tryOne(ctx, &rs[0])
	each.Wait()
	found := -1
	for i, err := range errs {
		switch {
		case err == nil:
		case err.Reason != tierlock.ReasonHeld:
			return i, err
		case found < 0:
			found = i
		}
	}
	if found < 0 {
		return 0, nil
	}
	return found, errs[found]
}

// tryOne is one attempt for one of many.
func (c *Chain) tryOne(ctx context.Context, r *request) (*Lock, *tierlock.Error) {
	if l, err := c.replay(r); l != nil || err != nil {
		return l, err
	}
	if l, err := c.reenter(ctx, r); l != nil || err != nil {
		return l, err
	}
	return c.acquire(ctx, r, time.Now())
}

// giveBack gives back locks that the caller never saw, behind him: a store that hangs makes
// nobody late. An entry into a lock of the caller's own leaves it as it was.
func (c *Chain) giveBack(all []*Lock) {
	for i, l := range all {
		switch {
		case l == nil:
		case l.entry != 0:
			_ = l.Unlock(context.Background())
		case !l.now().Replayed: // else another call of the same request has it
			c.unused(l)
			c.gw.lines.nudge(l.grant.Key, l.hash)
		}
		all[i] = nil
	}
}

// Grants are the present truth about each lock, by key.
func (s *Locks) Grants() []tierlock.Grant {
	if s == nil {
		return nil
	}
	grants := make([]tierlock.Grant, len(s.all))
	for i, l := range s.all {
		grants[i] = l.Grant()
	}
	return grants
}

// Context returns a child of ctx that ends before the store can give any of the locks to
// somebody else: see [Lock.Context]. It carries all of them.
func (s *Locks) Context(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	child, cancel := context.WithCancelCause(&carrier{Context: ctx, lock: s.all[0], rest: s.all[1:]})
	s.all[0].bind(cancel)
	for _, l := range s.all[1:] {
		l.bind(cancel)
	}
	return child
}

// Unlock gives all of them back, at once, as [Lock.Unlock] does with one; the errors are
// joined.
func (s *Locks) Unlock(ctx context.Context) error {
	return s.each(func(l *Lock) error { return l.Unlock(ctx) })
}

// Renew extends all of them to ttl from now, as [Lock.Renew] does with one; the errors are
// joined, and each lock is extended or not by itself.
func (s *Locks) Renew(ctx context.Context, ttl time.Duration) error {
	return s.each(func(l *Lock) error { return l.Renew(ctx, ttl) })
}

// Report tells the audit trail how the work under them ended: see [Lock.Report].
func (s *Locks) Report(outcome audit.Work) {
	_ = s.each(func(l *Lock) error { l.Report(outcome); return nil })
}

// each does it to all at once: a store gets them in as few calls as it can.
func (s *Locks) each(do func(*Lock) error) error {
	if s == nil {
		return nil
	}
	errs := make([]error, len(s.all))
	var all sync.WaitGroup
	for i, l := range s.all[1:] {
		all.Go(func() { errs[i+1] = do(l) })
	}
	errs[0] = do(s.all[0])
	all.Wait()
	return errors.Join(errs...)
}

// String names the locks; never by a request id.
func (s *Locks) String() string {
	if s == nil {
		return "no locks"
	}
	names := make([]string, len(s.all))
	for i, l := range s.all {
		names[i] = l.String()
	}
	return strings.Join(names, ", ")
}

// Format writes String for every verb.
func (s *Locks) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }
