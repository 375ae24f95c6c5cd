package backendtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
)

const (
	patience = 5 * time.Second // for one answer, and for anything the suite waits for
	long     = time.Minute     // ttl of holds that no behaviour waits out
)

// stage is one behaviour's: a key of its own, and the questions with their errors checked.
type stage struct {
	*testing.T
	b      tierlock.Backend
	traits tierlock.Traits
	o      Options
	key    tierlock.Key
}

func newStage(t *testing.T, b tierlock.Backend, o Options) *stage {
	s := &stage{T: t, b: b, traits: b.Traits(), o: o}
	s.key = s.freshKey()
	return s
}

func (s *stage) freshKey() tierlock.Key {
	s.Helper()
	key, err := tierlock.ParseKey("biz:suite:lock:" + tierlock.NewRequestID().Secret())
	if err != nil {
		s.Fatal(err)
	}
	return key
}

// hold names a fresh acquisition of the stage's key.
func (s *stage) hold(ttl time.Duration) tierlock.Hold {
	return tierlock.Hold{Key: s.key, ID: tierlock.NewRequestID(), TTL: ttl}
}

// ctx carries a deadline without a timer, as backends are called by the gateway.
func (s *stage) ctx() context.Context {
	return tierlock.Until(s.Context(), time.Now().Add(patience))
}

// request asks for hold with plenty of time, fenced where the backend can.
func (s *stage) request(hold tierlock.Hold) tierlock.Request {
	return tierlock.Request{Hold: hold, NotAfter: time.Now().Add(patience), Fenced: s.traits.Fences}
}

func (s *stage) acquire(hold tierlock.Hold) tierlock.Answer { return s.ask(s.request(hold)) }

func (s *stage) ask(req tierlock.Request) tierlock.Answer {
	s.Helper()
	answer, err := s.b.Acquire(s.ctx(), req)
	return s.answered("acquire", answer, err)
}

func (s *stage) release(hold tierlock.Hold) tierlock.Answer {
	s.Helper()
	answer, err := s.b.Release(s.ctx(), hold)
	return s.answered("release", answer, err)
}

func (s *stage) lookup(hold tierlock.Hold) tierlock.Answer {
	s.Helper()
	answer, err := s.b.Lookup(s.ctx(), hold)
	return s.answered("lookup", answer, err)
}

func (s *stage) renew(holds ...tierlock.Hold) []tierlock.Answer {
	s.Helper()
	answers, err := s.b.Renew(s.ctx(), holds)
	if err != nil || len(answers) != len(holds) {
		s.Fatalf("renew of %d holds: %d answers, %v", len(holds), len(answers), err)
	}
	return answers
}

func (s *stage) answered(op string, answer tierlock.Answer, err error) tierlock.Answer {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", op, err)
	}
	if answer.Status == 0 {
		s.Fatalf("%s: neither an answer nor an error", op)
	}
	return answer
}

// want fails unless answer has the status.
func (s *stage) want(answer tierlock.Answer, status tierlock.Status) tierlock.Answer {
	s.Helper()
	if answer.Status != status {
		s.Fatalf("status %v, want %v", answer.Status, status)
	}
	return answer
}

// fill takes every place that the key has and returns the holds.
func (s *stage) fill(ttl time.Duration) []tierlock.Hold {
	s.Helper()
	holds := make([]tierlock.Hold, s.o.Holders)
	for i := range holds {
		holds[i] = s.hold(ttl)
		s.want(s.acquire(holds[i]), tierlock.Granted)
	}
	return holds
}

// until asks again and again, a few milliseconds apart, and fails when ok does not come.
func (s *stage) until(what string, ok func() bool) {
	s.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			s.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// fault fails unless err is a Fault with one of the reasons.
func (s *stage) fault(err error, reasons ...tierlock.Reason) {
	s.Helper()
	var fault *tierlock.Fault
	if !errors.As(err, &fault) {
		s.Fatalf("error %v (%T), want a *tierlock.Fault", err, err)
	}
	for _, reason := range reasons {
		if fault.Reason == reason {
			return
		}
	}
	s.Fatalf("fault %v, want one of %v", fault, reasons)
}
