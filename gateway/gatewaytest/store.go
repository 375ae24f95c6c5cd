package gatewaytest

import (
	"context"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
)

// wire is how many operations a Store takes at once.
const wire = 64

// Counts says how often a [Store] was asked, whether it answered or not.
type Counts struct{ Acquire, Renew, Release, Pass, Lookup, Probe int }

// Store is a shared store in memory, with every way to fail that matters. It keeps the
// rules of [tierlock.Backend]: what arrives late is refused, what took effect and lost its
// reply is found by a Release. All methods may be called at once.
type Store struct {
	mu     sync.Mutex // guards all below
	holds  map[tierlock.Key]held
	token  tierlock.Token // of the last fenced grant
	counts Counts
	since  time.Time // see Forget

	down   bool          // see Down
	hang   bool          // see Hang
	mended chan struct{} // closed when hang ends
	full   bool          // see Saturate
	slow   time.Duration // see Slow
	drop   int           // replies still to be lost

	answers map[string]tierlock.Reason // by chain; see Kit.Answer
}

// held is one lock in the store.
type held struct {
	id      tierlock.RequestID
	token   tierlock.Token
	until   time.Time
	entries map[uint64]bool
}

// NewStore returns a healthy, empty Store.
func NewStore() *Store {
	return &Store{holds: map[tierlock.Key]held{}, mended: make(chan struct{})}
}

// Counts tells how often the store was asked.
func (s *Store) Counts() (c Counts) {
	s.with(func() { c = s.counts })
	return c
}

// Depth counts the entries into the lock of key that were not given back; 0: it is free.
func (s *Store) Depth(key string) (n int) {
	s.with(func() {
		if k, err := tierlock.ParseKey(key); err == nil {
			h, _ := s.findLocked(k, time.Now())
			n = len(h.entries)
		}
	})
	return n
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

// Traits tells tier shared and scope cluster, with tokens, hand-overs, probes and a wire of 64.
func (s *Store) Traits() tierlock.Traits {
	return tierlock.Traits{
		Store: "memory", Tier: tierlock.Shared, Scope: tierlock.ScopeCluster, Fences: true, Entries: true, Wire: wire,
		Passer: s, Prober: s, Wired: s, Clocked: s, Memory: s,
	}
}

// Since tells when the store forgot everything last: see [Store.Forget].
func (s *Store) Since(string) (since time.Time, ok bool) {
	s.with(func() { since = s.since })
	return since, !since.IsZero()
}

// ClockError is a millisecond.
func (s *Store) ClockError() (time.Duration, bool) { return time.Millisecond, true }

// Probe asks for a sign of life.
func (s *Store) Probe(ctx context.Context, _ string) error {
	if err := s.probeAnswer(); err != nil {
		return err
	}
	_, err := s.ask(ctx, &s.counts.Probe, nothing)
	return err
}

func nothing() tierlock.Answer { return tierlock.Answer{} }

// Acquire asks once.
func (s *Store) Acquire(ctx context.Context, req tierlock.Request) (tierlock.Answer, error) {
	if ans, err, forced := s.answerTo(ctx, req); forced {
		return ans, err
	}
	return s.ask(ctx, &s.counts.Acquire, func() tierlock.Answer {
		now := time.Now()
		h, ok := s.findLocked(req.Key, now)
		switch {
		case !req.NotAfter.IsZero() && !now.Before(req.NotAfter):
			return tierlock.Answer{Status: tierlock.Late}
		case ok && h.id == req.ID:
			h.entries[req.Entry] = true
			return h.mine(tierlock.Mine)
		case ok:
			return h.other(now)
		case req.Entry != 0:
			return tierlock.Answer{Status: tierlock.Gone}
		}
		return s.grantLocked(req, now)
	})
}

// grantLocked gives the key to req, whoever had it.
func (s *Store) grantLocked(req tierlock.Request, now time.Time) tierlock.Answer {
	h := held{id: req.ID, until: now.Add(req.TTL), entries: map[uint64]bool{0: true}}
	if req.Fenced {
		s.token = max(s.token, req.Floor) + 1
		h.token = s.token
	}
	s.holds[req.Key] = h
	return h.mine(tierlock.Granted)
}

// Pass puts to in the place of from.
func (s *Store) Pass(ctx context.Context, from tierlock.Hold, to tierlock.Request) (tierlock.Answer, error) {
	return s.ask(ctx, &s.counts.Pass, func() tierlock.Answer {
		now := time.Now()
		h, ok := s.findLocked(from.Key, now)
		switch {
		case !to.NotAfter.IsZero() && !now.Before(to.NotAfter):
			return tierlock.Answer{Status: tierlock.Late}
		case !ok:
			return tierlock.Answer{Status: tierlock.Gone}
		case h.id == to.ID: // a repeat
			return h.mine(tierlock.Granted)
		case h.id != from.ID:
			return h.other(now)
		}
		if delete(h.entries, from.Entry); len(h.entries) > 0 {
			return h.mine(tierlock.Mine)
		}
		return s.grantLocked(to, now)
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

// Release gives one entry back; the last one frees the key.
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
		if delete(h.entries, hold.Entry); len(h.entries) > 0 {
			return h.mine(tierlock.Mine)
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
	return tierlock.Answer{Status: status, Exclusive: true, Token: h.token, Depth: len(h.entries), Until: h.until}
}

func (h held) other(now time.Time) tierlock.Answer {
	return tierlock.Answer{Status: tierlock.Held, Remaining: h.until.Sub(now), Holder: h.id.Fingerprint()}
}
