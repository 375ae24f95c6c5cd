package backendtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/pulse"
)

const (
	abandoned = 100                    // acquires that a silent store gets
	attempt   = 200 * time.Millisecond // of each
)

// hanging is about a store that takes requests and answers none.
var hanging = []behaviour{
	{"answers by the deadline while the store is silent", func(s *stage) {
		s.want(s.lookup(s.hold(long)), tierlock.Gone) // connected
		beat := pulse.Start()
		defer beat.Stop()
		resume := s.o.Hang(s.T)
		defer s.resumed(resume)
		for op, ask := range s.questions() {
			var late []time.Duration
			for range 5 {
				deadline := time.Now().Add(attempt / 2)
				err := ask(tierlock.Until(s.Context(), deadline))
				back := time.Now()
				late = append(late, back.Sub(deadline)-beat.Stalled(deadline, back)) // a busy machine is no fault of the store
				s.fault(err, tierlock.ReasonAttempt)
			}
			// One of five may lose the processor for longer; most of them may not.
			if median := slices.Sorted(slices.Values(late))[len(late)/2]; median > grace {
				s.Errorf("%s: returned after its deadline by %v", op, late)
			}
		}
	}},
	{"leaves no lock of the callers that gave up on a silent store", func(s *stage) {
		resume := s.o.Hang(s.T)
		holds := s.abandon()
		s.resumed(resume)
		for _, hold := range holds {
			s.want(s.lookup(hold), tierlock.Gone)
		}
	}},
}

// abandon has many callers ask for a key each, and give up.
func (s *stage) abandon() []tierlock.Hold {
	holds := make([]tierlock.Hold, abandoned)
	var callers sync.WaitGroup
	for i := range holds {
		holds[i] = s.hold(long)
		holds[i].Key = s.freshKey()
		callers.Go(func() {
			deadline := time.Now().Add(attempt)
			ctx, cancel := context.WithDeadline(s.Context(), deadline)
			defer cancel()
			req := s.request(holds[i])
			req.NotAfter = deadline
			if answer, err := s.b.Acquire(ctx, req); err == nil {
				s.Errorf("the store hangs, yet it answered %v", answer.Status)
			}
		})
	}
	callers.Wait()
	return holds
}

// resumed lets the store answer again and waits until it does, to several in a row: what
// the silent store was sent is behind them.
func (s *stage) resumed(resume func()) {
	s.Helper()
	resume()
	good := 0
	s.until("the store answers again", func() bool {
		if _, err := s.b.Lookup(s.ctx(), s.hold(long)); err != nil {
			good = 0
		} else {
			good++
		}
		return good >= 10
	})
}
