package breaker

import "time"

// Reading is one look at a target; degrade.Signals says what each field means, under the
// same names.
type Reading struct {
	Occupancy          float64
	WeakOccupancy      float64
	Timeouts           int
	Failures           int
	Refused            bool
	Open               bool
	ProbeFailed        bool
	Unanswered         time.Duration
	Probes, FastProbes int
}

// Read looks at the target as it is at that moment, now on the monotonic clock. It changes
// nothing: an open breaker does not turn half-open by being looked at.
func (s *Sensor) Read(at time.Time) Reading {
	loose := s.cfg.Loose()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.health
	all, weak := s.wire.full(loose)
	return Reading{
		Occupancy:     all,
		WeakOccupancy: weak,
		Timeouts:      h.timeouts.within(slowWindow, at),
		Failures:      s.fuse.row,
		Refused:       h.refused,
		Open:          !s.fuse.closed(),
		ProbeFailed:   h.probeFailed,
		Unanswered:    h.unanswered(at),
		Probes:        h.probes,
		FastProbes:    h.fast,
	}
}
