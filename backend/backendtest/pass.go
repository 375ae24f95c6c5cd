package backendtest

import (
	"time"

	"github.com/tierlock/tierlock"
)

// passing is what Traits.Passer promises.
var passing = []behaviour{
	{"hands a lock on in one step, with a new token and the whole ttl", func(s *stage) {
		from, to := s.hold(s.o.TTL), s.request(s.hold(long))
		first := s.want(s.acquire(from), tierlock.Granted)
		before := time.Now()
		a := s.want(s.hand(from, to), tierlock.Granted)
		if a.Depth != 1 || !a.Exclusive || s.traits.Fences && a.Token <= first.Token {
			s.Errorf("answer %+v after %+v", a, first)
		}
		if left := a.Until.Sub(before); left > long+time.Since(before) || left < long*9/10 {
			s.Errorf("until %v from now, want about %v", left, long)
		}
		s.want(s.lookup(to.Hold), tierlock.Mine)
		s.want(s.release(from), tierlock.Held)
		s.want(s.renew(from)[0], tierlock.Held)
		s.pass(s.o.TTL)
		if again := s.want(s.acquire(to.Hold), tierlock.Mine); again.Token != a.Token {
			s.Errorf("token %d, then %d", a.Token, again.Token)
		}
		s.want(s.release(to.Hold), tierlock.Released)
	}},
	{"answers a repeated hand-over as the first, and extends nothing", func(s *stage) {
		from, to := s.hold(long), s.request(s.hold(long))
		s.want(s.acquire(from), tierlock.Granted)
		first := s.want(s.hand(from, to), tierlock.Granted)
		to.TTL = 2 * long
		again := s.want(s.hand(from, to), tierlock.Granted)
		if late := again.Until.Sub(first.Until); again.Token != first.Token || late > time.Second {
			s.Errorf("first %+v, again %+v", first, again)
		}
		s.want(s.release(to.Hold), tierlock.Released)
		s.want(s.hand(from, to), tierlock.Gone)
	}},
	{"hands over nothing that is another's, gone or too late", func(s *stage) {
		stranger, to := s.hold(long), s.request(s.hold(long))
		s.want(s.hand(stranger, to), tierlock.Gone)
		s.want(s.lookup(to.Hold), tierlock.Gone)
		holder := s.hold(long)
		s.want(s.acquire(holder), tierlock.Granted)
		if a := s.want(s.hand(stranger, to), tierlock.Held); a.Holder != holder.ID.Fingerprint() || a.Remaining <= 0 {
			s.Errorf("answer %+v", a)
		}
		to.NotAfter = time.Now().Add(-5 * time.Millisecond)
		s.want(s.hand(holder, to), tierlock.Late)
		s.want(s.lookup(holder), tierlock.Mine)
	}},
	{"hands a lock on without the entries into it", func(s *stage) {
		if !s.traits.Entries {
			return
		}
		holder, to := s.hold(long), s.request(s.hold(long))
		entry := holder
		entry.Entry = 7
		s.want(s.acquire(holder), tierlock.Granted)
		s.want(s.acquire(entry), tierlock.Mine)
		if a := s.want(s.hand(holder, to), tierlock.Mine); a.Depth != 1 {
			s.Errorf("with an entry left: %+v", a)
		}
		s.want(s.hand(entry, to), tierlock.Granted)
		if a := s.want(s.acquire(to.Hold), tierlock.Mine); a.Depth != 1 {
			s.Errorf("the new holder has %d entries", a.Depth)
		}
		s.want(s.release(to.Hold), tierlock.Released)
	}},
}

// hand asks the backend to put to in the place of from.
func (s *stage) hand(from tierlock.Hold, to tierlock.Request) tierlock.Answer {
	s.Helper()
	answer, err := s.traits.Passer.Pass(s.ctx(), from, to)
	return s.answered("pass", answer, err)
}
