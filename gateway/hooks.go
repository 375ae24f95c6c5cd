package gateway

import (
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/switchcfg"
)

// Hooks is told what happened. A nil field is off and costs nothing; new fields break
// nobody. Hooks run after the fact, on the goroutine that made it so, with no lock held,
// maybe several at once; they must not block and must not call the gateway. One that panics
// is logged with its stack, counted in [Status] and changes nothing, on the gateway's own
// goroutines and on those of callers: no call loses its lock by it. [Join] puts several
// together.
type Hooks struct {
	Acquired func(AcquireInfo) // once for every call that got a verdict, whatever it was
	Released func(ReleaseInfo) // once for every lock that was handed out, at its end: given back, lost or run out
	Renewed  func(RenewInfo)   // once for every renewal of one lock, the watchdog's included
	Lost     func(LostInfo)    // a lock ended before its holder gave it back
	Sensed   func(SenseInfo)   // a ladder has looked at its target: after each fault and probe, and ten times a second; two looks at once in either order
	Stepped  func(StepInfo)    // the health of a target changed for a chain; in order per chain and target
	Ordered  func(OrderInfo)   // an operator's order began, changed or ended; in order per chain
	Settled  func(SettleInfo)  // a question in doubt, or a release put off, is closed
	Replaced func(ReplaceInfo) // another server, or one that has lost its memory, serves a target

	Reported func(switchcfg.Report) // a fetch of the switch document, and what became of it
}

type (
	// AcquireInfo tells of one TryLock, Lock, Do or DoShared.
	AcquireInfo struct {
		Chain   string
		Key     tierlock.Key
		Verdict tierlock.Verdict
		Grant   tierlock.Grant // zero but on success
		Took    time.Duration  // the whole call
		Waited  time.Duration  // the part of Took since the first answer "held", or in line behind another call of the process
		Ordered bool           // an operator's order decided the tier
		Spared  bool           // on_saturated coalesce: answered, or handed the lock, without a question of its own to a store whose wire is full
		Entered bool           // one more entry into a lock in hand: Released tells of all of them once
		// Observed is why the ladder of a chain on observe would have had the call answered
		// otherwise, Instead the tier it would have asked, 0 for none. Empty: it would not.
		Observed tierlock.Reason
		Instead  tierlock.Tier
	}
	// ReleaseInfo tells of the end of a lock.
	ReleaseInfo struct {
		Grant    tierlock.Grant
		TTL      time.Duration // that was asked for
		Held     time.Duration // from the grant to its end
		Left     time.Duration // before the holder had to stop; negative: too late
		Over     time.Duration // by how much waiting and work went past the policy's budget; 0: they did not, or there is none
		Passed   bool          // handed to the next call of this process that waited for the key
		Deferred bool          // the release goes on behind the caller
		Err      error         // the release was not answered, or ErrLost
	}
	// RenewInfo tells of one renewal of one lock.
	RenewInfo struct {
		Grant tierlock.Grant // as it is after it
		Err   error          // nil, ErrLost, or why there was no answer
	}
	// LostInfo tells of a lock that ended without its holder.
	LostInfo struct {
		Grant tierlock.Grant
		Held  time.Duration
		Cause error // what context.Cause of its contexts tells; matches ErrLost
	}
	// SenseInfo tells of one look of a chain's health machine at a target.
	SenseInfo struct {
		Chain   string
		Target  string // empty on a store without parts
		Signals ExplainedSignals
		At      time.Time
	}
	// StepInfo tells of one change of health.
	StepInfo struct {
		Chain  string
		Target string // empty on a store without parts
		degrade.Transition
	}
	// OrderInfo tells of one change of an order.
	OrderInfo struct {
		Chain string
		Order degrade.Order // the one in force now; zero: none
		Was   degrade.Order // the one before; zero: none
	}
	// ReplaceInfo tells that what a target granted before Since may be forgotten: its server
	// was started anew, or another has taken its place. It is noticed within a second of the
	// first connection to it.
	ReplaceInfo struct {
		Store  string // its name in Config.Stores
		Target string // empty on a store without parts
		Since  time.Time
	}
	// SettleInfo tells of one closed entry of the ledger.
	SettleInfo struct {
		Chain  string
		Status tierlock.Status // what the release found; zero: it was given up at the end of the ttl
		After  time.Duration   // since it was put into the ledger
	}
)

// Join returns Hooks that tell each of all, in order, whether one before panics or not.
func Join(all ...Hooks) Hooks {
	var j Hooks
	for _, h := range all {
		j.Acquired = both(j.Acquired, h.Acquired)
		j.Released = both(j.Released, h.Released)
		j.Renewed = both(j.Renewed, h.Renewed)
		j.Lost = both(j.Lost, h.Lost)
		j.Sensed = both(j.Sensed, h.Sensed)
		j.Stepped = both(j.Stepped, h.Stepped)
		j.Ordered = both(j.Ordered, h.Ordered)
		j.Settled = both(j.Settled, h.Settled)
		j.Replaced = both(j.Replaced, h.Replaced)
		j.Reported = both(j.Reported, h.Reported)
	}
	return j
}

func both[T any](a, b func(T)) func(T) {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(v T) { defer b(v); a(v) }
}
