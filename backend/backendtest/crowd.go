package backendtest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
)

const (
	crowd = 16        // how many ask for one key at once
	turns = 2 * crowd // how many grants they go on for
)

var crowded = []behaviour{
	{"never lets more in than a key has places", func(s *stage) {
		var inside atomic.Int64
		var last tierlock.Token // read and written by holders only, so the race detector judges too
		s.contend(func(answer tierlock.Answer) {
			if n := inside.Add(1); n > int64(s.o.Holders) {
				s.Errorf("%d inside, want up to %d", n, s.o.Holders)
			}
			if s.o.Holders == 1 && s.traits.Fences {
				if answer.Token <= last {
					s.Errorf("token %d after %d", answer.Token, last)
				}
				last = answer.Token
			}
			inside.Add(-1)
		})
	}},
	{"gives one of many repeats of a request the grant and the others mine", func(s *stage) {
		hold := s.hold(long)
		var granted, mine atomic.Int64
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() {
				switch answer, err := s.b.Acquire(s.ctx(), s.request(hold)); {
				case err != nil:
					s.Error(err)
				case answer.Status == tierlock.Granted:
					granted.Add(1)
				case answer.Status == tierlock.Mine:
					mine.Add(1)
				}
			})
		}
		all.Wait()
		if granted.Load() != 1 || mine.Load() != crowd-1 {
			s.Errorf("%d granted, %d mine, want 1 and %d", granted.Load(), mine.Load(), crowd-1)
		}
	}},
}

// contend has a crowd take the stage's key again and again, run inside, and give it back.
func (s *stage) contend(inside func(tierlock.Answer)) {
	s.Helper()
	end := time.Now().Add(patience)
	var granted atomic.Int64
	var all sync.WaitGroup
	for range crowd {
		all.Go(func() {
			for granted.Load() < turns && time.Now().Before(end) && !s.Failed() {
				hold := s.hold(long)
				answer, err := s.b.Acquire(s.ctx(), s.request(hold))
				if err != nil {
					s.Errorf("acquire: %v", err)
					return
				}
				if answer.Status != tierlock.Granted {
					continue
				}
				granted.Add(1)
				inside(answer)
				if answer, err := s.b.Release(s.ctx(), hold); err != nil || answer.Status != tierlock.Released {
					s.Errorf("release: %v, %v", answer.Status, err)
					return
				}
			}
		})
	}
	all.Wait()
	if granted.Load() < turns && !s.Failed() {
		s.Errorf("%d grants within %v, want %d", granted.Load(), patience, turns)
	}
}
