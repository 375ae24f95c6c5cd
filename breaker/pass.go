package breaker

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tierlock/tierlock"
)

// Pass is one operation let through. It is a value of three words, so that starting an
// operation allocates nothing.
type Pass struct {
	s    *Sensor
	t    *ticket
	turn uint64
}

// ticket is what a sensor remembers of an operation that is out. Tickets are used again;
// turn tells one use from the next, so that a second Exit of an old pass finds itself
// stale. All fields are guarded by the sensor's mutex.
type ticket struct {
	turn  uint64
	weak  bool
	era   uint64    // of the fuse, when it started
	start time.Time // when it went out on the wire
	tally *Tally    // counts it; nil: nobody does

	done  func(error) // set on a trial through a half-open breaker
	watch *time.Timer // reports the trial as failed if nobody does
}

func (s *Sensor) ticketLocked(tally *Tally) *ticket {
	var t *ticket
	if n := len(s.idle); n > 0 {
		t, s.idle = s.idle[n-1], s.idle[:n-1]
	} else {
		t = new(ticket)
	}
	t.tally = tally
	tally.add(1)
	return t
}

// errHung ends a trial whose operation never came back.
var errHung = errors.New("breaker: trial never reported")

// watchLocked makes t a trial. A half-open gobreaker has no timeout: a trial that never
// reports would keep it shut for ever. The watchdog reports for it one attempt after the
// operation's own deadline, when a backend that keeps its word has long returned.
func (s *Sensor) watchLocked(t *ticket, done func(error), deadline time.Time) {
	turn := t.turn
	t.done = done
	t.watch = time.AfterFunc(max(0, deadline.Sub(t.start))+s.cfg.Attempt, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.turn == turn {
			s.fuse.settle(t, errHung)
		}
	})
}

// Exit reports the operation's end: nil for any answer, "held by another" included, else
// a [*tierlock.Fault]. It frees the slot, unless the fault's Done is still open: then the
// operation counts as out until it closes. Call it once; a second call, or one on the
// zero Pass, does nothing.
//
// What a fault is evidence of:
//
//   - down, broken, denied, and any error that is no Fault: failures. They count towards
//     the breaker; down is certain at the first.
//   - attempt_timeout: towards a slow store, if the operation was on the wire for nine
//     tenths of [Config.Attempt]; a shorter one only starts probing, and so does one that
//     went out into an outage which is over. Towards the breaker once probes have gone unanswered for
//     [Config.Silence], and when it was the trial of a half-open breaker.
//   - saturated: that this process has no connection free, which occupancy tells better.
//     Only a trial fails by it.
//   - canceled, wrong_type: nothing.
func (p Pass) Exit(err error) {
	s := p.s
	if s == nil {
		return
	}
	s.mu.Lock()
	t := p.t
	if t.turn != p.turn {
		s.mu.Unlock()
		return
	}
	was := s.fuse.state
	fault := s.judgeLocked(t, err)
	s.freeLocked(t, err)
	is := s.fuse.state
	s.mu.Unlock()

	s.moved(was, is)
	if fault {
		s.cfg.Changed()
	}
}

// moved logs an edge of the breaker.
func (s *Sensor) moved(from, to gobreaker.State) {
	if from != to {
		s.cfg.Logger.Warn("breaker moved", "target", s.cfg.Name, "from", from.String(), "to", to.String())
	}
}

// freeLocked takes the ticket back and gives its slot to the next, now or when the
// operation has left the wire.
func (s *Sensor) freeLocked(t *ticket, err error) {
	t.turn++
	s.idle = append(s.idle, t)
	if done := stillOut(err); done != nil && !s.closed {
		weak, tally := t.weak, t.tally
		s.tail.Go(func() { s.trail(done, weak, tally) })
		return
	}
	t.tally.add(-1)
	s.wire.give(t.weak)
}

// stillOut returns the channel that tells when the operation behind err has left the
// wire; nil if it has.
func stillOut(err error) <-chan struct{} {
	if err == nil {
		return nil
	}
	f, ok := errors.AsType[*tierlock.Fault](err)
	if !ok || f.Done == nil {
		return nil
	}
	select {
	case <-f.Done:
		return nil
	default:
		return f.Done
	}
}

// trail keeps the slot of an abandoned operation until it is done. Close ends it.
func (s *Sensor) trail(done <-chan struct{}, weak bool, tally *Tally) {
	select {
	case <-done:
	case <-s.quit:
	}
	s.mu.Lock()
	tally.add(-1)
	s.wire.give(weak)
	s.mu.Unlock()
}
