package breaker

import (
	"context"
	"math/rand/v2"
	"time"
)

// Run probes the target while there is cause, and only then: from a fault or a Worry
// until two seconds after the last of them. It returns when ctx ends and its probe, if
// one is out, has returned. One Run per Sensor.
//
// One probe is out at a time, for at most a second. A store that swallows them shows in
// [Reading].Unanswered, which grows from the start of the first of them.
func (s *Sensor) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Stop()
		var due <-chan time.Time
		if wait, ok := s.nextProbe(time.Now()); ok {
			timer.Reset(wait)
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-due:
			s.probe(ctx)
		}
	}
}

// Worry says that somebody takes the target for unwell: keep probing for two seconds more.
func (s *Sensor) Worry() {
	s.mu.Lock()
	s.worryLocked(time.Now())
	s.mu.Unlock()
}

// faultLocked notes that something went wrong.
func (s *Sensor) faultLocked(now time.Time) {
	s.health.fault = now
	s.worryLocked(now)
}

func (s *Sensor) worryLocked(now time.Time) {
	h := &s.health
	calm := !now.Before(h.worried)
	h.worried = now.Add(worryFor)
	if calm {
		h.due = now.Add(jitter(s.cfg.ProbeFirst))
		s.nudge()
	}
}

// hurryLocked brings the next probes forward, on the first hard fault.
func (s *Sensor) hurryLocked(now time.Time) {
	h := &s.health
	h.burst = firstProbes
	if soon := now.Add(jitter(s.cfg.ProbeFirst)); soon.Before(h.due) {
		h.due = soon
		s.nudge()
	}
}

// nudge wakes Run. One token is enough: Run looks at everything.
func (s *Sensor) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// nextProbe tells how long to wait for the next probe, if there is to be one.
func (s *Sensor) nextProbe(now time.Time) (wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !now.Before(s.health.worried) {
		return 0, false
	}
	return max(0, s.health.due.Sub(now)), true
}

// probe asks once. That ctx ended meanwhile is no evidence.
func (s *Sensor) probe(ctx context.Context) {
	start := time.Now()
	if s.cfg.Probe == nil {
		s.presume(start)
		return
	}
	s.mu.Lock()
	s.health.probing, s.health.ran = true, start
	if s.health.silent.IsZero() {
		s.health.silent = start
	}
	s.mu.Unlock()

	looks := s.lookOn()
	limited, cancel := context.WithTimeout(ctx, probeLimit)
	err := s.cfg.Probe(limited)
	cancel()
	looks.Stop()
	ended := ctx.Err() != nil

	now := time.Now()
	s.mu.Lock()
	s.health.runs(now)
	s.health.probing = false
	if ended {
		s.mu.Unlock()
		return
	}
	was := s.fuse.state
	s.probedLocked(start, now, err)
	is := s.fuse.state
	s.mu.Unlock()

	s.moved(was, is)
	if err != nil {
		s.cfg.Logger.DebugContext(ctx, "probe not answered", "target", s.cfg.Name, "error", err)
	}
	s.cfg.Changed()
}

// lookOn notes every lookEvery that this process runs, until the timer is stopped.
func (s *Sensor) lookOn() *time.Timer {
	var timer *time.Timer
	armed := make(chan struct{})
	timer = time.AfterFunc(lookEvery, func() {
		<-armed
		s.mu.Lock()
		if s.health.probing {
			s.health.runs(time.Now())
			timer.Reset(lookEvery)
		}
		s.mu.Unlock()
	})
	close(armed)
	return timer
}

// presume stands in for the probe of a store that cannot be asked: after Config.Open
// without a fault it counts as answered, so that the first attempts may show.
func (s *Sensor) presume(now time.Time) {
	s.mu.Lock()
	well := now.Sub(s.health.fault) >= s.cfg.Open
	if well {
		s.probedLocked(now, now, nil)
	} else {
		s.health.due = now.Add(jitter(s.cfg.ProbeEvery))
	}
	s.mu.Unlock()
	if well {
		s.cfg.Changed()
	}
}

// probedLocked takes a probe's result and plans the next.
func (s *Sensor) probedLocked(start, now time.Time, err error) {
	h := &s.health
	every := s.cfg.ProbeEvery
	if h.burst > 0 {
		h.burst--
		every = s.cfg.ProbeFirst
	}
	h.due = start.Add(jitter(every))

	if err == nil || kindOf(err) == foreign {
		s.wellLocked(now, now.Sub(start))
		return
	}
	switch k := kindOf(err); k {
	case noEvidence, starved, timeout: // silence: it goes on
		h.probeFailed = false
	default:
		h.probeFailed = true
		h.refused = h.refused || k == certain
		h.silent = time.Time{}
	}
	h.probes, h.fast = 0, 0
	s.faultLocked(now)
}

// wellLocked notes a probe that was answered after took. It puts a fresh breaker in place
// and wipes what had failed, but the timeouts only where it ends an outage: a slow store
// answers its probes, too. A second without an answer was one at any rate: for a chain that
// bears with more of it the store was slow, and is not now.
func (s *Sensor) wellLocked(now time.Time, took time.Duration) {
	h := &s.health
	if h.refused || h.probeFailed || !s.fuse.closed() || h.unanswered(now) >= min(s.silence, probeLimit) {
		h.back, h.timeouts = now, recent{}
	}
	if !s.fuse.clean() {
		s.fuse.reset()
	}
	h.refused, h.probeFailed, h.silent = false, false, time.Time{}
	h.probes++
	h.fast++
	if took >= s.cfg.Attempt/2 {
		h.fast = 0
	}
}

// jitter spreads d by a quarter, so that the probes of many processes that lost a store
// together do not find it together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (.75 + .5*rand.Float64()))
}
