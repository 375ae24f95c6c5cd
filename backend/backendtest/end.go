package backendtest

import (
	"time"

	"github.com/tierlock/tierlock"
)

// ending is about holds that nobody gives back, and about renewals as far as every backend
// does them alike.
var ending = []behaviour{
	{"grants an expired key again, and never before the end it told", func(s *stage) {
		first := s.want(s.acquire(s.hold(s.o.TTL)), tierlock.Granted)
		for range s.o.Holders - 1 {
			s.want(s.acquire(s.hold(long)), tierlock.Granted)
		}
		s.granted(s.hold(long))
		if early := time.Until(first.Until); early > 0 {
			s.Errorf("granted to another %v before the end that the first was told", early)
		}
	}},
	{"answers gone to an expired hold", func(s *stage) {
		hold := s.expired()
		s.want(s.release(hold), tierlock.Gone)
		s.want(s.renew(hold)[0], tierlock.Gone)
	}},
	{"never revives an expired hold by renewal", func(s *stage) {
		hold := s.expired()
		hold.TTL = long
		s.want(s.renew(hold)[0], tierlock.Gone)
		s.want(s.lookup(hold), tierlock.Gone)
		s.fill(long)
		s.want(s.renew(hold)[0], tierlock.Held)
		s.want(s.release(hold), tierlock.Held)
	}},
	{"never shortens a hold by renewal", func(s *stage) {
		hold := s.hold(long)
		first := s.want(s.acquire(hold), tierlock.Granted)
		hold.TTL = s.o.TTL
		renewed := s.want(s.renew(hold)[0], tierlock.Mine)
		if shorter := first.Until.Sub(renewed.Until); shorter > time.Second {
			s.Errorf("told an end %v earlier than at first", shorter)
		}
		s.pass(s.o.TTL)
		s.want(s.lookup(hold), tierlock.Mine)
	}},
	{"renews the same hold twice as once", func(s *stage) {
		hold := s.hold(long)
		s.want(s.acquire(hold), tierlock.Granted)
		first, again := s.want(s.renew(hold)[0], tierlock.Mine), s.want(s.renew(hold)[0], tierlock.Mine)
		if moved := again.Until.Sub(first.Until).Abs(); moved > time.Second {
			s.Errorf("the end moved by %v", moved)
		}
		s.want(s.release(hold), tierlock.Released)
	}},
}

// renewing is what a shared store adds: renewals extend.
var renewing = []behaviour{
	{"extends a hold by renewal, from now", func(s *stage) {
		hold := s.hold(s.o.TTL)
		s.want(s.acquire(hold), tierlock.Granted)
		hold.TTL = long
		before := time.Now()
		renewed := s.want(s.renew(hold)[0], tierlock.Mine)
		if left := renewed.Until.Sub(before); left < long*9/10 || left > long+time.Since(before) {
			s.Errorf("until %v from now, want about %v", left, long)
		}
		s.pass(s.o.TTL)
		s.want(s.lookup(hold), tierlock.Mine)
	}},
	{"never grants before the end that a renewal told", func(s *stage) {
		hold := s.hold(s.o.TTL)
		s.want(s.acquire(hold), tierlock.Granted)
		hold.TTL += s.o.TTL / 2
		renewed := s.want(s.renew(hold)[0], tierlock.Mine)
		s.granted(s.hold(long))
		if early := time.Until(renewed.Until); early > 0 {
			s.Errorf("granted to another %v before the end that the renewal told", early)
		}
	}},
}

// expired returns a hold that was granted and has ended by itself.
func (s *stage) expired() tierlock.Hold {
	s.Helper()
	hold := s.hold(s.o.TTL)
	s.want(s.acquire(hold), tierlock.Granted)
	s.until("the hold expires", func() bool { return s.lookup(hold).Status == tierlock.Gone })
	return hold
}

// granted asks until hold is granted.
func (s *stage) granted(hold tierlock.Hold) {
	s.Helper()
	s.until("the key is granted to the next", func() bool { return s.acquire(hold).Status == tierlock.Granted })
}

// pass lets d and a half go by.
func (s *stage) pass(d time.Duration) {
	s.Helper()
	end := time.Now().Add(d + d/2)
	s.until("time passes", func() bool { return time.Now().After(end) })
}
