package localfallback

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/tierlock/tierlock"
)

// Config of a [Table]. Zero fields mean the stated default.
type Config struct {
	Permits int // holders per key; 1 excludes inside the process; 3
	Keys    int // keys held at once; one more is refused with ReasonFull; 100,000
}

// Validate reports every fault at once, each a [*tierlock.InvalidError].
func (c Config) Validate() error {
	var faults []error
	if c.Permits < 0 {
		faults = append(faults, tierlock.Invalid("permits", strconv.Itoa(c.Permits), "want 1 or more"))
	}
	if c.Keys < 0 {
		faults = append(faults, tierlock.Invalid("keys", strconv.Itoa(c.Keys), "want 1 or more"))
	}
	return errors.Join(faults...)
}

// Table is a bounded lock inside this process and implements [tierlock.Backend] and
// [tierlock.Waiter]: at most Permits holders per key, each with a hard end that no renewal
// moves, and at most Keys keys. It is bounded by refusal: a live holder is never evicted,
// since that would grant its key twice. Each operation is atomic per key; all methods may
// be called from any goroutine. One Table serves one chain, so chains never fill each
// other's.
type Table struct {
	keys    int64
	permits atomic.Int64
	live    atomic.Int64 // records that have a holder, or had one when last touched
	all     atomic.Int64 // records in the cache, those that are kept without a holder included
	clock   clock
	records *otter.Cache[tierlock.Key, *record]
	front   *front
}

// NewTable returns a Table whose cache sweeps expired records in a goroutine of its own
// until [Table.Close].
func NewTable(cfg Config) (*Table, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Permits == 0 {
		cfg.Permits = defaultPermits
	}
	if cfg.Keys == 0 {
		cfg.Keys = defaultKeys
	}
	t := &Table{keys: int64(cfg.Keys), clock: newClock(), front: newFront()}
	t.permits.Store(int64(cfg.Permits))
	records, err := otter.New(&otter.Options[tierlock.Key, *record]{
		Clock:            t.clock.cache,
		ExpiryCalculator: otter.ExpiryWritingFunc(t.expiry),
		OnAtomicDeletion: t.forget,
	})
	if err != nil {
		t.clock.stop()
		return nil, err
	}
	t.records = records
	return t, nil
}

// Close ends the sweeper and waits for it. The Table goes on answering; only the records
// of holders that never release stay in memory. Closing twice does no harm.
func (t *Table) Close() {
	t.records.StopAllGoroutines()
	t.clock.stop()
}

// Permit changes the number of holders per key from now on; below 1 counts as 1. Nobody is
// put out, and a holder that was granted alone stays alone until it ends.
func (t *Table) Permit(n int) { t.permits.Store(int64(max(n, 1))) }

// Live counts the keys that have a holder. A holder that expires without a release counts
// until its key is next asked for, or swept: within some 3 s.
func (t *Table) Live() int { return int(t.live.Load()) }

// Holds tells until when the last of key's present holders may hold it, on the monotonic
// clock; ok is false when there is none.
func (t *Table) Holds(key tierlock.Key) (until time.Time, ok bool) {
	var last moment
	t.touch(key, t.clock.now(), func(r *record) { last = r.last() })
	return t.clock.time(last), last != 0
}

// Traits tells tier local, scope process, no token, and no limit on a wire.
func (t *Table) Traits() tierlock.Traits {
	return tierlock.Traits{Store: "local", Tier: tierlock.Local, Scope: tierlock.ScopeProcess, Entries: true, Waiter: t}
}

// Acquire grants one of the key's permits, or tells who ends first and when; with an entry,
// it enters the hold that the id has, or tells that it has none. The grant is
// exclusive only while Permits is 1. A key too many, and a context that has ended, is a
// [*tierlock.Fault].
func (t *Table) Acquire(ctx context.Context, req tierlock.Request) (tierlock.Answer, error) {
	if err := checkTTL(req.TTL); err != nil {
		return tierlock.Answer{}, err
	}
	if err := ctx.Err(); err != nil {
		return tierlock.Answer{}, ended(err)
	}
	now := t.clock.now()
	if !req.NotAfter.IsZero() && t.clock.after(now, req.NotAfter) {
		return tierlock.Answer{Status: tierlock.Late}, nil
	}
	if req.Entry != 0 {
		return t.ask(req.Hold, enter), nil
	}
	a := attempt{id: req.ID, now: now, until: now + moment(req.TTL), permits: int(t.permits.Load())}
	if !t.attend(req.Key, &a) {
		t.records.Compute(req.Key, func(r *record, found bool) (*record, otter.ComputeOp) {
			if !found {
				r = &record{key: req.Key}
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			return r, t.try(r, found, &a)
		})
	}
	switch a.answer.Status {
	case 0:
		return a.answer, &tierlock.Fault{Reason: tierlock.ReasonFull}
	case tierlock.Held:
		a.answer.Holder = a.other.Fingerprint() // a hash: not under a lock
	}
	return a.answer, nil
}

// attempt is one Acquire, and what came of it.
type attempt struct {
	id         tierlock.RequestID
	now, until moment
	permits    int
	answer     tierlock.Answer // zero: the table is full
	other      tierlock.RequestID
}

// try gives the attempt a permit of r, if it may have one, and tells what the cache has to
// do about it.
func (t *Table) try(r *record, found bool, a *attempt) otter.ComputeOp {
	r.prune(a.now)
	if i := r.find(a.id); i >= 0 {
		r.holders[i].enter(0)
		a.answer = t.mine(r, i, tierlock.Mine)
		return otter.CancelOp
	}
	if r.closed(a.permits) {
		a.answer, a.other = r.held(a.now)
		return otter.CancelOp
	}
	if !r.counted && !t.count(r, found) {
		return otter.CancelOp
	}
	r.add(a.id, a.until, a.permits)
	a.answer = t.mine(r, len(r.holders)-1, tierlock.Granted)
	return t.keep(r)
}

// Renew confirms holds and never prolongs one: the end that Acquire told is a hard end.
func (t *Table) Renew(_ context.Context, holds []tierlock.Hold) ([]tierlock.Answer, error) {
	answers := make([]tierlock.Answer, len(holds))
	for i, hold := range holds {
		answers[i] = t.ask(hold, look)
	}
	return answers, nil
}

// Lookup tells Mine, Held by somebody else, or Gone.
func (t *Table) Lookup(_ context.Context, hold tierlock.Hold) (tierlock.Answer, error) {
	return t.ask(hold, look), nil
}

// Release gives an entry back; the last one gives the permit back and wakes whoever waits
// for it. It works under an ended
// context too: nothing is asked that could take time.
func (t *Table) Release(_ context.Context, hold tierlock.Hold) (tierlock.Answer, error) {
	return t.ask(hold, leave), nil
}

// question is what is asked of a hold that must be there.
type question uint8

const (
	look  question = iota // is it?
	enter                 // one more entry
	leave                 // one less
)

// ask finds hold and does what is asked.
func (t *Table) ask(hold tierlock.Hold, what question) tierlock.Answer {
	now := t.clock.now()
	answer := tierlock.Answer{Status: tierlock.Gone}
	var other tierlock.RequestID
	t.touch(hold.Key, now, func(r *record) {
		i := r.find(hold.ID)
		switch {
		case i >= 0 && what == leave && r.holders[i].leave(hold.Entry):
			r.drop(i)
			answer.Status = tierlock.Released
		case i >= 0:
			if what == enter {
				r.holders[i].enter(hold.Entry)
			}
			answer = t.mine(r, i, tierlock.Mine)
		case len(r.holders) > 0:
			answer, other = r.held(now)
		}
	})
	if answer.Status == tierlock.Held {
		answer.Holder = other.Fingerprint()
	}
	return answer
}

// mine is the answer to holder i of r.
func (t *Table) mine(r *record, i int, status tierlock.Status) tierlock.Answer {
	h := &r.holders[i]
	return tierlock.Answer{Status: status, Exclusive: h.alone, Depth: h.depth(), Until: t.clock.time(h.until)}
}
