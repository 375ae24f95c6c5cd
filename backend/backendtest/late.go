package backendtest

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
)

// grace is how much later than its deadline a question may return.
const grace = 20 * time.Millisecond

// punctual is about requests and callers whose time is over.
var punctual = []behaviour{
	{"refuses a request past its not-after, and changes nothing", func(s *stage) {
		req := s.request(s.hold(long))
		req.NotAfter = time.Now().Add(-5 * time.Millisecond)
		s.want(s.ask(req), tierlock.Late)
		s.want(s.lookup(req.Hold), tierlock.Gone)
		s.fill(long)
	}},
	{"lets a release after not-after be the last word on its id", func(s *stage) {
		req := s.request(s.hold(long))
		req.NotAfter = time.Now().Add(30 * time.Millisecond)
		s.until("not-after passes", func() bool { return time.Now().After(req.NotAfter) })
		s.want(s.release(req.Hold), tierlock.Gone)
		for range 20 {
			s.want(s.ask(req), tierlock.Late)
		}
		s.want(s.lookup(req.Hold), tierlock.Gone)
	}},
	{"takes back what was granted in time by a release after not-after", func(s *stage) {
		req := s.request(s.hold(long))
		req.NotAfter = time.Now().Add(500 * time.Millisecond)
		s.want(s.ask(req), tierlock.Granted)
		s.until("not-after passes", func() bool { return time.Now().After(req.NotAfter) })
		s.want(s.release(req.Hold), tierlock.Released)
		s.want(s.ask(req), tierlock.Late)
		s.want(s.lookup(req.Hold), tierlock.Gone)
	}},
	{"returns at once under a context that has ended", func(s *stage) {
		cancelled, cancel := context.WithCancel(s.Context())
		cancel()
		for _, ctx := range []context.Context{cancelled, tierlock.Until(s.Context(), time.Now().Add(-time.Second))} {
			for op, ask := range s.questions() {
				began := time.Now()
				if err := ask(ctx); err != nil {
					s.fault(err, tierlock.ReasonCanceled, tierlock.ReasonAttempt)
				}
				if took := time.Since(began); took > patience/10 {
					s.Errorf("%s took %v", op, took)
				}
			}
		}
	}},
}

// questions are all that can be asked, by name, about a fresh hold each.
func (s *stage) questions() map[string]func(context.Context) error {
	hold := s.hold(long)
	hold.Key = s.freshKey()
	all := map[string]func(context.Context) error{
		"acquire": func(ctx context.Context) error {
			req := s.request(hold)
			req.NotAfter, _ = ctx.Deadline()
			_, err := s.b.Acquire(ctx, req)
			return err
		},
		"renew": func(ctx context.Context) error {
			_, err := s.b.Renew(ctx, []tierlock.Hold{hold})
			return err
		},
		"release": func(ctx context.Context) error { _, err := s.b.Release(ctx, hold); return err },
		"lookup":  func(ctx context.Context) error { _, err := s.b.Lookup(ctx, hold); return err },
	}
	if s.traits.Prober != nil {
		all["probe"] = func(ctx context.Context) error { return s.traits.Prober.Probe(ctx, s.target()) }
	}
	return all
}

// target is the part of the store that serves the stage's key.
func (s *stage) target() string {
	if s.traits.Sharder == nil {
		return ""
	}
	return s.traits.Sharder.Target(s.key)
}
