package degrade

import (
	"time"

	"github.com/tierlock/tierlock"
)

// State is the health of one target as a [Machine] sees it. The zero State is invalid.
type State uint8

// The states.
const (
	Normal     State = iota + 1
	Slow             // attempts time out, probes are answered: never left for the local lock
	Saturated        // the wire has been full for long enough
	Down             // refused, broken, silent, or the breaker is open
	Recovering       // the store answers again; attempts are admitted by a ramp
)

var stateWords = words{"", "normal", "slow", "saturated", "down", "recovering"}

// String returns the state's word.
func (s State) String() string { return stateWords.of(int(s)) }

// MarshalText returns the state's word; the zero State is written as nothing.
func (s State) MarshalText() ([]byte, error) { return stateWords.marshal("state", int(s)) }

// UnmarshalText accepts the words that String returns.
func (s *State) UnmarshalText(text []byte) error { return unmarshal(stateWords, "state", text, s) }

// Signals is one look at a target. All of it is a sensor's reading (package breaker, same
// names) but for At.
type Signals struct {
	// At is the moment of the look, on the caller's monotonic clock. It never runs back.
	At time.Time
	// Occupancy is what is out on the wire, as a share of its limit.
	Occupancy float64
	// WeakOccupancy is the same as a weak chain meets it, which may not use all of the
	// wire: the larger of Occupancy and what weak chains have out of their part.
	WeakOccupancy float64
	// Timeouts is how many attempts timed out on the wire within the last second.
	Timeouts int
	// Failures is how many operations in a row broke, since the last answer.
	Failures int
	// Refused is true from a certain sign (connection refused, LOADING, MASTERDOWN,
	// CLUSTERDOWN) until the next answer.
	Refused bool
	// Open is true while the breaker lets nothing through.
	Open bool
	// ProbeFailed is true if the last probe failed with anything but silence.
	ProbeFailed bool
	// Unanswered is for how long probes have been out without an answer; 0 if they, or
	// what went out after them, are answered, or none is out.
	Unanswered time.Duration
	// Probes is how many in a row were answered since the last fault that is not a
	// timeout; FastProbes those of them, in a row, in under half an attempt.
	Probes, FastProbes int
}

// Transition is one edge of a [Machine], for log, metric and event.
type Transition struct {
	At       time.Time
	From, To State
	Reason   tierlock.Reason // of To; empty when To is Normal
	Dwell    time.Duration   // spent in From
	Epoch    uint64          // the machine's, after this edge
}
