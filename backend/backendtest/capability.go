package backendtest

import (
	"context"
	"errors"
	"time"

	"github.com/tierlock/tierlock"
)

// waiting is what Traits.Waiter promises.
var waiting = []behaviour{
	{"waits until a place is given back", func(s *stage) {
		holds := s.fill(long)
		next := s.hold(long)
		held := s.want(s.acquire(next), tierlock.Held)
		woken := make(chan error, 1)
		go func() { woken <- s.traits.Waiter.Wait(s.ctx(), next, held) }()
		s.want(s.release(holds[0]), tierlock.Released)
		if err := <-woken; err != nil {
			s.Fatalf("wait: %v", err)
		}
		s.granted(next)
	}},
	{"keeps a place in line, and one who waits there gets its turn", func(s *stage) {
		holds := s.fill(long)
		var all []tierlock.Request
		for range 3 {
			req := s.request(s.hold(long))
			req.WaitTill = time.Now().Add(patience)
			s.want(s.ask(req), tierlock.Held)
			all = append(all, req)
		}
		s.want(s.release(holds[0]), tierlock.Released)
		for _, req := range all { // each gives back what it got, and so wakes the next
			s.until("its turn comes", func() bool {
				_ = s.traits.Waiter.Wait(s.ctx(), req.Hold, tierlock.Answer{Status: tierlock.Held, Remaining: long})
				return s.ask(req).Status == tierlock.Granted
			})
			s.want(s.release(req.Hold), tierlock.Released)
		}
	}},
	{"waits no longer than the holder may hold", func(s *stage) {
		s.fill(s.o.TTL)
		next := s.hold(long)
		held := s.want(s.acquire(next), tierlock.Held)
		if err := s.traits.Waiter.Wait(s.ctx(), next, held); err != nil {
			s.Fatalf("wait: %v", err)
		}
		s.granted(next)
	}},
	{"does not wait for a free key", func(s *stage) {
		if err := s.traits.Waiter.Wait(s.ctx(), s.hold(long), tierlock.Answer{Status: tierlock.Held, Remaining: long}); err != nil {
			s.Errorf("wait: %v", err)
		}
	}},
	{"stops waiting when its context ends", func(s *stage) {
		s.fill(long)
		next := s.hold(long)
		held := s.want(s.acquire(next), tierlock.Held)
		cancelled, cancel := context.WithCancel(s.Context())
		cancel()
		if err := s.traits.Waiter.Wait(cancelled, next, held); !errors.Is(err, context.Canceled) {
			s.Errorf("cancelled: %v", err)
		}
		deadline := tierlock.Until(s.Context(), time.Now().Add(20*time.Millisecond)) // whose Done never fires
		if err := s.traits.Waiter.Wait(deadline, next, held); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("past its deadline: %v", err)
		}
	}},
}

// probing is what Traits.Prober promises.
var probing = []behaviour{
	{"answers probes, many at once too", func(s *stage) {
		answers := make(chan error)
		for range crowd {
			go func() { answers <- s.traits.Prober.Probe(s.ctx(), s.target()) }()
		}
		for range crowd {
			if err := <-answers; err != nil {
				s.Errorf("probe: %v", err)
			}
		}
	}},
}

// wired is what Traits.Wired promises.
var wired = []behaviour{
	{"counts nothing loose at rest", func(s *stage) {
		s.want(s.lookup(s.hold(long)), tierlock.Gone)
		s.until("nothing is loose", func() bool { return s.traits.Wired.Loose(s.target()) == 0 })
	}},
}

// clocked is what Traits.Clocked promises.
var clocked = []behaviour{
	{"bounds its clock's error once it has answered", func(s *stage) {
		s.want(s.acquire(s.hold(long)), tierlock.Granted)
		if bound, ok := s.traits.Clocked.ClockError(); !ok || bound <= 0 {
			s.Errorf("clock error %v, known %t", bound, ok)
		}
	}},
}

// remembering is what Traits.Memory promises.
var remembering = []behaviour{
	{"tells no memory that begins in the future", func(s *stage) {
		s.want(s.acquire(s.hold(long)), tierlock.Granted)
		if since, ok := s.traits.Memory.Since(s.target()); ok && time.Until(since) > 0 {
			s.Errorf("remembers from in %v", time.Until(since))
		}
	}},
}

// bypassing is what a backend of scope none does: everything.
var bypassing = []behaviour{
	{"grants one key to many, exclusively to none", func(s *stage) {
		for range 3 {
			a := s.want(s.acquire(s.hold(long)), tierlock.Granted)
			if a.Exclusive || a.Token != 0 || time.Until(a.Until) < long*9/10 {
				s.Errorf("answer %+v", a)
			}
		}
	}},
	{"believes the caller", func(s *stage) {
		hold := s.hold(long)
		s.want(s.lookup(hold), tierlock.Mine)
		if a := s.want(s.renew(hold)[0], tierlock.Mine); time.Until(a.Until) < long*9/10 {
			s.Errorf("renewed until %v", a.Until)
		}
		s.want(s.release(hold), tierlock.Released)
		s.want(s.release(hold), tierlock.Released)
	}},
}
