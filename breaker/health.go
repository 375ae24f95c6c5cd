package breaker

import (
	"context"
	"errors"
	"time"

	"github.com/tierlock/tierlock"
)

// kind is what one result is evidence of.
type kind uint8

const (
	noEvidence kind = iota // the caller left
	foreign                // an answer, though about a key that is no lock
	starved                // no connection free in this process
	timeout                // no answer by the deadline
	failure                // broken or denied
	certain                // refused, loading, no master
)

func kindOf(err error) kind {
	if f, ok := errors.AsType[*tierlock.Fault](err); ok {
		switch f.Reason {
		case tierlock.ReasonCanceled:
			return noEvidence
		case tierlock.ReasonWrongType:
			return foreign
		case tierlock.ReasonAttempt:
			return timeout
		case tierlock.ReasonSaturated:
			return starved
		case tierlock.ReasonDown:
			return certain
		}
		return failure
	}
	switch {
	case errors.Is(err, context.Canceled):
		return noEvidence
	case errors.Is(err, context.DeadlineExceeded):
		return timeout
	}
	return failure
}

// health is what the results of operations and probes have shown, beside the fuse. It is
// guarded by the sensor's mutex.
type health struct {
	refused  bool // a certain sign, and no answer since
	timeouts recent

	probeFailed bool
	probes      int       // answered in a row
	fast        int       // of them, in a row, in under half an attempt
	silent      time.Time // since when probes are out without an answer; zero: they are answered
	probing     bool      // one is out now
	ran         time.Time // when this process was last seen to run while one is out
	back        time.Time // when a probe was last answered that ended an outage; zero: never

	fault   time.Time // the last of any kind
	worried time.Time // till when to probe
	due     time.Time // when the next probe is
	burst   int       // probes left that follow fast
}

// judgeLocked takes the result of t as evidence, and tells whether it was a fault. What
// started in another era says little of this one, since a probe was answered or the
// breaker moved in between.
func (s *Sensor) judgeLocked(t *ticket, err error) (fault bool) {
	stale := t.era != s.fuse.era
	if err == nil {
		s.fuse.settle(t, nil)
		if !stale {
			s.answeredLocked(t)
		}
		return false
	}
	now := time.Now()
	k := kindOf(err)
	if k == timeout && s.health.unanswered(now) >= s.silence {
		k = failure
	}
	if k <= foreign {
		s.fuse.settle(t, errNoEvidence)
		return false
	}
	s.fuse.settle(t, err)
	switch {
	case k == timeout && t.start.Before(s.health.back):
		// It went out into an outage that is over, and hung. A store that has come back and is
		// called slow for it would be back in full use with no ramp.
	case k == timeout && now.Sub(t.start) >= time.Duration(wireShare*float64(s.cfg.Attempt)):
		s.health.timeouts.add(now)
	case k >= failure && !stale:
		s.failedLocked(now, k, err)
	}
	s.faultLocked(now)
	return true
}

// answeredLocked notes an answer. On a healthy target there is nothing to note.
func (s *Sensor) answeredLocked(t *ticket) {
	s.fuse.answered()
	h := &s.health
	h.refused = false
	if !h.silent.IsZero() && t.start.After(h.silent) {
		h.heard()
	}
}

// failedLocked notes a failure. Nobody waits for a slot behind an open breaker.
func (s *Sensor) failedLocked(now time.Time, k kind, err error) {
	h := &s.health
	first := s.fuse.row == 0 && !h.probeFailed
	h.refused = h.refused || k == certain
	h.probes, h.fast = 0, 0
	s.fuse.failed(err)
	if !s.fuse.closed() {
		s.wire.flush()
	}
	if first {
		s.hurryLocked(now)
	}
}

// unanswered is for how long probes have been out without an answer. Time in which this process
// did not run is not the store's: the answer may lie in the socket all the while, and whoever
// gets to run first looks here.
func (h *health) unanswered(at time.Time) time.Duration {
	if h.silent.IsZero() {
		return 0
	}
	if last := h.ran.Add(lookEvery + stall); h.probing && at.After(last) {
		at = last
	}
	return max(0, at.Sub(h.silent))
}

// runs notes that this process runs, and takes the time in which it did not off the silence.
func (h *health) runs(now time.Time) {
	if gone := now.Sub(h.ran) - lookEvery; gone > stall && !h.silent.IsZero() {
		h.silent = h.silent.Add(gone)
	}
	h.ran = now
}

// heard notes that the store answered an operation that went out after the probes that it
// has not answered: then it is those probes that were lost and not the store.
func (h *health) heard() {
	h.silent = time.Time{}
	if h.probing {
		h.silent = time.Now()
	}
}

// recent remembers when the last 64 timeouts were.
type recent struct {
	at   [64]time.Time
	next int
}

func (r *recent) add(at time.Time) {
	r.at[r.next] = at
	r.next = (r.next + 1) % len(r.at)
}

// within counts those of the last d before now.
func (r *recent) within(d time.Duration, now time.Time) (n int) {
	for i := range r.at {
		if t := r.at[i]; !t.IsZero() && now.Sub(t) < d {
			n++
		}
	}
	return n
}
