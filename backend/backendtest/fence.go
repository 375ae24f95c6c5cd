package backendtest

import "github.com/tierlock/tierlock"

// fencing is what a backend that fences promises of its tokens.
var fencing = []behaviour{
	{"mints a higher token for each grant", func(s *stage) {
		var last tierlock.Token
		for range 50 {
			hold := s.hold(long)
			a := s.want(s.acquire(hold), tierlock.Granted)
			if a.Token <= last {
				s.Fatalf("token %d after %d", a.Token, last)
			}
			last = a.Token
			s.want(s.release(hold), tierlock.Released)
		}
	}},
	{"mints a higher token after a hold that expired", func(s *stage) {
		first := s.want(s.acquire(s.hold(s.o.TTL)), tierlock.Granted)
		next := s.hold(long)
		s.granted(next)
		if a := s.want(s.acquire(next), tierlock.Mine); a.Token <= first.Token {
			s.Errorf("token %d after %d", a.Token, first.Token)
		}
	}},
	{"mints above the floor, and stays there", func(s *stage) {
		first := s.acquireAbove(0)
		floor := first + 1_000_000_000_000
		second := s.acquireAbove(floor)
		if second <= floor {
			s.Errorf("token %d, floor %d", second, floor)
		}
		if third := s.acquireAbove(0); third <= second {
			s.Errorf("token %d after %d", third, second)
		}
	}},
	{"keeps tokens exact in JSON numbers", func(s *stage) {
		if token := s.acquireAbove(1<<53 - 1000); token <= 1<<53-1000 || token >= 1<<53 {
			s.Errorf("token %d, want just below 2^53", token)
		}
		if last, next := s.acquireAbove(0), s.acquireAbove(0); next != last+1 {
			s.Errorf("token %d after %d, want the next number", next, last)
		}
	}},
	{"mints no token that is not asked for", func(s *stage) {
		req := s.request(s.hold(long))
		req.Fenced = false
		if a := s.want(s.ask(req), tierlock.Granted); a.Token != 0 {
			s.Errorf("token %d", a.Token)
		}
		if a := s.want(s.ask(req), tierlock.Mine); a.Token != 0 {
			s.Errorf("again: token %d", a.Token)
		}
	}},
}

// unfenced is what a backend that does not fence must not pretend.
var unfenced = []behaviour{
	{"mints no token, asked or not", func(s *stage) {
		for _, fenced := range []bool{true, false} {
			req := s.request(s.hold(long))
			req.Fenced, req.Floor = fenced, 7
			req.Key = s.freshKey()
			if a := s.want(s.ask(req), tierlock.Granted); a.Token != 0 {
				s.Errorf("fenced %t: token %d", fenced, a.Token)
			}
		}
	}},
}

// acquireAbove takes the key with a floor, gives it back, and returns the token.
func (s *stage) acquireAbove(floor tierlock.Token) tierlock.Token {
	s.Helper()
	req := s.request(s.hold(long))
	req.Floor = floor
	token := s.want(s.ask(req), tierlock.Granted).Token
	s.want(s.release(req.Hold), tierlock.Released)
	return token
}
