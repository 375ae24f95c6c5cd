package backendtest

import (
	"slices"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
)

var traitful = []behaviour{
	{"says the same of itself each time", func(s *stage) {
		if again := s.b.Traits(); again.Store != s.traits.Store || again.Tier != s.traits.Tier || again.Scope != s.traits.Scope || again.Wire != s.traits.Wire || again.Entries != s.traits.Entries {
			s.Errorf("traits changed: %+v, %+v", s.traits, again)
		}
	}},
	{"has a store name, a tier and a scope", func(s *stage) {
		if s.traits.Store == "" || strings.ContainsAny(s.traits.Store, " \"\n") || s.traits.Tier == 0 || s.traits.Scope == 0 {
			s.Errorf("traits %+v", s.traits)
		}
	}},
}

// excluding are the answers to who may have a key, and to whom it belongs.
var excluding = []behaviour{
	{"grants a free key until about ttl from now", func(s *stage) {
		before := time.Now()
		a := s.want(s.acquire(s.hold(long)), tierlock.Granted)
		if a.Depth != 1 || a.Exclusive != (s.o.Holders == 1) {
			s.Errorf("answer %+v, want depth 1, exclusive %t", a, s.o.Holders == 1)
		}
		if left := a.Until.Sub(before); left > long+time.Since(before) || left < long*9/10 {
			s.Errorf("until %v from now, want about %v", left, long)
		}
	}},
	{"answers mine to a repeat, with the first end and token", func(s *stage) {
		hold := s.hold(long)
		first := s.want(s.acquire(hold), tierlock.Granted)
		hold.TTL = 2 * long
		again := s.want(s.acquire(hold), tierlock.Mine)
		if again.Token != first.Token || again.Depth != 1 || again.Exclusive != first.Exclusive {
			s.Errorf("first %+v, again %+v", first, again)
		}
		if late := again.Until.Sub(first.Until); late > time.Second {
			s.Errorf("a repeat moved the end by %v", late)
		}
	}},
	{"answers held to another, naming who and how long", func(s *stage) {
		holds := s.fill(long)
		a := s.want(s.acquire(s.hold(long)), tierlock.Held)
		if a.Remaining <= 0 || a.Remaining > long {
			s.Errorf("remaining %v, want up to %v", a.Remaining, long)
		}
		if !slices.ContainsFunc(holds, func(h tierlock.Hold) bool { return h.ID.Fingerprint() == a.Holder }) {
			s.Errorf("holder %q is no holder's fingerprint", a.Holder)
		}
		if a.Token != 0 || !a.Until.IsZero() || a.Exclusive {
			s.Errorf("a held answer carries a grant: %+v", a)
		}
	}},
	{"releases once, and a repeat finds it gone", func(s *stage) {
		hold := s.hold(long)
		s.want(s.acquire(hold), tierlock.Granted)
		s.want(s.release(hold), tierlock.Released)
		s.want(s.release(hold), tierlock.Gone)
		s.want(s.lookup(hold), tierlock.Gone)
	}},
	{"grants a released key to the next", func(s *stage) {
		holds := s.fill(long)
		next := s.hold(long)
		s.want(s.acquire(next), tierlock.Held)
		s.want(s.release(holds[0]), tierlock.Released)
		s.want(s.acquire(next), tierlock.Granted)
	}},
	{"leaves the holder untouched when another releases or renews", func(s *stage) {
		holds := s.fill(long)
		stranger := s.hold(long)
		s.want(s.release(stranger), tierlock.Held)
		s.want(s.renew(stranger)[0], tierlock.Held)
		for _, hold := range holds {
			s.want(s.lookup(hold), tierlock.Mine)
		}
	}},
	{"looks up mine, held and gone, and changes nothing", func(s *stage) {
		hold, stranger := s.hold(long), s.hold(long)
		s.want(s.lookup(hold), tierlock.Gone)
		s.want(s.acquire(hold), tierlock.Granted)
		s.want(s.lookup(hold), tierlock.Mine)
		if a := s.want(s.lookup(stranger), tierlock.Held); a.Holder != hold.ID.Fingerprint() || a.Remaining <= 0 {
			s.Errorf("held: %+v, want holder %s and its time", a, hold.ID)
		}
		s.want(s.lookup(hold), tierlock.Mine)
	}},
	{"keeps locks of ids apart that share all but one digit", func(s *stage) {
		holds := s.fill(long)
		for _, twin := range twins(s, holds[0]) {
			s.want(s.acquire(twin), tierlock.Held)
			s.want(s.release(twin), tierlock.Held)
			s.want(s.renew(twin)[0], tierlock.Held)
		}
		s.want(s.lookup(holds[0]), tierlock.Mine)
	}},
	{"keeps keys apart", func(s *stage) {
		hold := s.hold(long)
		s.want(s.acquire(hold), tierlock.Granted)
		elsewhere := hold
		elsewhere.Key = s.freshKey()
		s.want(s.lookup(elsewhere), tierlock.Gone)
		s.want(s.acquire(elsewhere), tierlock.Granted)
		s.want(s.release(elsewhere), tierlock.Released)
		s.want(s.lookup(hold), tierlock.Mine)
	}},
	{"answers many renewals in the order of the holds", func(s *stage) {
		mine, lost := s.hold(long), s.hold(long)
		s.want(s.acquire(mine), tierlock.Granted)
		lost.Key = s.freshKey()
		answers := s.renew(lost, mine, lost)
		s.want(answers[0], tierlock.Gone)
		s.want(answers[1], tierlock.Mine)
		s.want(answers[2], tierlock.Gone)
		if len(s.renew()) != 0 {
			s.Error("no holds, yet answers")
		}
	}},
}

// twins are holds whose ids differ from hold's in the last digit only, and in the first.
func twins(s *stage, hold tierlock.Hold) []tierlock.Hold {
	s.Helper()
	secret := hold.ID.Secret()
	var holds []tierlock.Hold
	for _, place := range []int{len(secret) - 1, 0} {
		digits := []byte(secret)
		digits[place] = '0' + (digits[place]+1)%2 // 0 or 1, and never what it was
		id, err := tierlock.ParseRequestID(string(digits))
		if err != nil {
			s.Fatal(err)
		}
		twin := hold
		twin.ID = id
		holds = append(holds, twin)
	}
	return holds
}
