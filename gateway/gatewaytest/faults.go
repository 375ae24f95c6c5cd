package gatewaytest

import (
	"context"
	"errors"
	"time"

	"github.com/tierlock/tierlock"
)

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

// Forget loses every lock, as a server does that starts again empty, and says so.
func (s *Store) Forget() {
	s.with(func() {
		clear(s.holds)
		s.since = time.Now()
	})
}

// Mend ends whatever is wrong. Call it at the end of a test that hung the store: what was
// asked then lies in wait until it thaws.
func (s *Store) Mend() {
	s.Hang(false)
	s.with(func() { s.down, s.full, s.slow, s.drop, s.answers = false, false, 0, 0, nil })
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

var (
	errRefused = errors.New("gatewaytest: connection refused")
	errReset   = errors.New("gatewaytest: connection reset")
	errNoConn  = errors.New("gatewaytest: no connection free")
)

// ask does one operation as the store's state has it, and counts it at count: effect runs
// under the mutex, when the question reaches the store.
func (s *Store) ask(ctx context.Context, count *int, effect func() tierlock.Answer) (tierlock.Answer, error) {
	probe := count == &s.counts.Probe // has a connection of its own
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
	case s.full && !probe:
		s.mu.Unlock()
		_ = late(ctx, time.Hour, nil)
		return tierlock.Answer{}, &tierlock.Fault{Reason: tierlock.ReasonSaturated, Err: errNoConn}
	}
	ans, slow := effect(), s.slow
	dropped := s.drop > 0 && !probe
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
