package gatewaytest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
)

// wire is how many operations a Store takes at once.
const wire = 64

// Counts says how often a [Store] was asked, whether it answered or not.
type Counts struct{ Acquire, Renew, Release, Lookup, Probe int }

// Store is a shared store in memory, with every way to fail that matters. It keeps the
// rules of [tierlock.Backend]: what arrives late is refused, what took effect and lost its
// reply is found by a Release. All methods may be called at once.
type Store struct {
	mu     sync.Mutex
	holds  map[tierlock.Key]held
	token  tierlock.Token
	counts Counts
	down   bool
	hang   bool
	full   bool
	slow   time.Duration
	drop   int           // replies still to be lost
	mended chan struct{} // closed when hang ends
}

// held is one lock in the store.
type held struct {
	id    tierlock.RequestID
	token tierlock.Token
	until time.Time
}

// NewStore returns a healthy, empty Store.
func NewStore() *Store {
	return &Store{holds: map[tierlock.Key]held{}, mended: make(chan struct{})}
}

// Down refuses every connection, as a store that is gone does.
func (s *Store) Down(down bool) { s.with(func() { s.down = down }) }

// Slow delays every reply by d, probes' included. What is asked takes effect at once; a
// caller whose deadline comes before the reply is left in doubt.
func (s *Store) Slow(d time.Duration) { s.with(func() { s.slow = d }) }

// Hang swallows every question: nothing is answered before its deadline, and what was
// asked takes effect, if it is not too late by then, when the store thaws.
func (s *Store) Hang(hang bool) {
	s.with(func() {
		if s.hang && !hang {
			close(s.mended)
			s.mended = make(chan struct{})
		}
		s.hang = hang
	})
}

// Saturate fills the wire with work of others: whatever is asked waits for a connection
// until its deadline, and gets none. The store itself stays healthy and answers probes,
// which have connections of their own.
func (s *Store) Saturate(full bool) { s.with(func() { s.full = full }) }

// DropReplies loses the next n replies, but for probes': what was asked takes effect, and
// the connection breaks before the answer.
func (s *Store) DropReplies(n int) { s.with(func() { s.drop = n }) }

// Lose forgets a key, as an eviction or a failover does.
func (s *Store) Lose(key string) {
	s.with(func() {
		if k, err := tierlock.ParseKey(key); err == nil {
			delete(s.holds, k)
		}
	})
}

// Mend ends whatever is wrong. Call it at the end of a test that hung the store: what was
// asked then lies in wait until it thaws.
func (s *Store) Mend() {
	s.Hang(false)
	s.with(func() { s.down, s.full, s.slow, s.drop = false, false, 0, 0 })
}

// Counts tells how often the store was asked.
func (s *Store) Counts() (c Counts) {
	s.with(func() { c = s.counts })
	return c
}

// Keys counts the locks that are held in the store now.
func (s *Store) Keys() (n int) {
	now := time.Now()
	s.with(func() {
		for _, h := range s.holds {
			if now.Before(h.until) {
				n++
			}
		}
	})
	return n
}

func (s *Store) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Traits tells tier shared and scope cluster, with tokens, probes and a wire of 64.
func (s *Store) Traits() tierlock.Traits {
	return tierlock.Traits{
		Store: "memory", Tier: tierlock.Shared, Scope: tierlock.ScopeCluster, Fences: true, Wire: wire,
		Prober: s, Wired: s, Clocked: s,
	}
}

// Loose is what Saturate puts on the wire.
func (s *Store) Loose(string) (n int) {
	s.with(func() {
		if s.full {
			n = wire
		}
	})
	return n
}

// ClockError is a millisecond.
func (s *Store) ClockError() (time.Duration, bool) { return time.Millisecond, true }

// Probe asks for a sign of life.
func (s *Store) Probe(ctx context.Context, _ string) error {
	_, err := s.ask(ctx, &s.counts.Probe, nothing)
	return err
}

func nothing() tierlock.Answer { return tierlock.Answer{} }

// Acquire asks once.
func (s *Store) Acquire(ctx context.Context, req tierlock.Request) (tierlock.Answer, error) {
	return s.ask(ctx, &s.counts.Acquire, func() tierlock.Answer {
		now := time.Now()
		h, ok := s.findLocked(req.Key, now)
		switch {
		case !req.NotAfter.IsZero() && now.After(req.NotAfter):
			return tierlock.Answer{Status: tierlock.Late}
		case ok && h.id == req.ID:
			return h.mine(tierlock.Mine)
		case ok:
			return h.other(now)
		}
		h = held{id: req.ID, until: now.Add(req.TTL)}
		if req.Fenced {
			s.token = max(s.token, req.Floor) + 1
			h.token = s.token
		}
		s.holds[req.Key] = h
		return h.mine(tierlock.Granted)
	})
}

// Renew extends each hold that is still there.
func (s *Store) Renew(ctx context.Context, holds []tierlock.Hold) ([]tierlock.Answer, error) {
	answers := make([]tierlock.Answer, len(holds))
	_, err := s.ask(ctx, &s.counts.Renew, func() tierlock.Answer {
		now := time.Now()
		for i, hold := range holds {
			h, ok := s.findLocked(hold.Key, now)
			switch {
			case !ok:
				answers[i] = tierlock.Answer{Status: tierlock.Gone}
			case h.id != hold.ID:
				answers[i] = h.other(now)
			default:
				if until := now.Add(hold.TTL); until.After(h.until) {
					h.until = until
				}
				s.holds[hold.Key] = h
				answers[i] = h.mine(tierlock.Mine)
			}
		}
		return tierlock.Answer{}
	})
	if err != nil {
		return make([]tierlock.Answer, len(holds)), err
	}
	return answers, nil
}

// Release gives one hold back.
func (s *Store) Release(ctx context.Context, hold tierlock.Hold) (tierlock.Answer, error) {
	return s.ask(ctx, &s.counts.Release, func() tierlock.Answer {
		now := time.Now()
		h, ok := s.findLocked(hold.Key, now)
		switch {
		case !ok:
			return tierlock.Answer{Status: tierlock.Gone}
		case h.id != hold.ID:
			return h.other(now)
		}
		delete(s.holds, hold.Key)
		return tierlock.Answer{Status: tierlock.Released}
	})
}

// Lookup tells who holds the key.
func (s *Store) Lookup(ctx context.Context, hold tierlock.Hold) (tierlock.Answer, error) {
	return s.ask(ctx, &s.counts.Lookup, func() tierlock.Answer {
		now := time.Now()
		h, ok := s.findLocked(hold.Key, now)
		switch {
		case !ok:
			return tierlock.Answer{Status: tierlock.Gone}
		case h.id == hold.ID:
			return h.mine(tierlock.Mine)
		}
		return h.other(now)
	})
}

func (s *Store) findLocked(key tierlock.Key, now time.Time) (held, bool) {
	h, ok := s.holds[key]
	if ok && !now.Before(h.until) {
		delete(s.holds, key)
		return held{}, false
	}
	return h, ok
}

func (h held) mine(status tierlock.Status) tierlock.Answer {
	return tierlock.Answer{Status: status, Exclusive: true, Token: h.token, Depth: 1, Until: h.until}
}

func (h held) other(now time.Time) tierlock.Answer {
	return tierlock.Answer{Status: tierlock.Held, Remaining: h.until.Sub(now), Holder: h.id.Fingerprint()}
}

var (
	errRefused = errors.New("gatewaytest: connection refused")
	errReset   = errors.New("gatewaytest: connection reset")
	errNoConn  = errors.New("gatewaytest: no connection free")
)

// ask does one operation as the store's state has it, and counts it at count: effect runs under the mutex, when
// the question reaches the store.
func (s *Store) ask(ctx context.Context, count *int, effect func() tierlock.Answer) (tierlock.Answer, error) {
	s.mu.Lock()
	*count++
	switch {
	case s.down:
		s.mu.Unlock()
		return tierlock.Answer{}, &tierlock.Fault{Reason: tierlock.ReasonDown, Err: errRefused}
	case s.hang:
		thawed, done := s.mended, make(chan struct{})
		s.mu.Unlock()
		go func() { // the question lies in the socket until the store thaws
			defer close(done)
			<-thawed
			s.with(func() { effect() })
		}()
		return tierlock.Answer{}, late(ctx, time.Hour, done)
	case s.full && count != &s.counts.Probe:
		s.mu.Unlock()
		_ = late(ctx, time.Hour, nil)
		return tierlock.Answer{}, &tierlock.Fault{Reason: tierlock.ReasonSaturated, Err: errNoConn}
	}
	ans, slow := effect(), s.slow
	dropped := s.drop > 0 && count != &s.counts.Probe
	if dropped {
		s.drop--
	}
	s.mu.Unlock()
	if slow > 0 {
		if err := late(ctx, slow, nil); err != nil {
			return tierlock.Answer{}, err
		}
	}
	if dropped {
		return tierlock.Answer{}, &tierlock.Fault{Reason: tierlock.ReasonBroken, InDoubt: true, Err: errReset}
	}
	return ans, nil
}

// late waits for a reply that takes d. It returns a fault if ctx, or its deadline, is
// earlier.
func late(ctx context.Context, d time.Duration, done <-chan struct{}) error {
	f := &tierlock.Fault{Reason: tierlock.ReasonAttempt, InDoubt: true, Done: done, Err: context.DeadlineExceeded}
	onTime := true
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		d, onTime = time.Until(end), false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		f.Reason, f.Err = tierlock.ReasonCanceled, ctx.Err()
		return f
	case <-timer.C:
	}
	if onTime {
		return nil
	}
	return f
}
