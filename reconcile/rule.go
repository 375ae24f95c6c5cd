package reconcile

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// ruleVersion is part of every finding's id: a rule that groups or counts differently must
// not reuse the ids of this one. Repairs' keys are made without it.
const ruleVersion = 3

// resolution is how far a time in an event may lie before the real one: events carry
// whole microseconds.
const resolution = time.Microsecond

// Rule says which holds overlap. The zero Rule is the default and safe for concurrent use.
type Rule struct {
	// DefaultError bounds the clock error of events that carry none. Default 500 ms: hosts
	// under NTP stay well inside it. It is a guess, so such holds are never certain to have
	// overlapped another process's.
	DefaultError time.Duration `yaml:"default_error"`
	// Group is how many holds one finding takes before the next part begins. Default
	// 10,000: with a wide clock error one hot key chained 500,811 holds into one group.
	Group int `yaml:"group"`
	// Ignore leaves out holds of these tiers. A rule that ignores a tier is blind to every
	// overlap with it, and the report says so. Default none.
	Ignore []tierlock.Tier `yaml:"ignore"`
}

// Validate reports every bad field at once.
func (r Rule) Validate() error {
	var errs []error
	if r.DefaultError < 0 {
		errs = append(errs, tierlock.Invalid("rule.default_error", r.DefaultError.String(), "want a duration of zero (500ms) or more"))
	}
	if r.Group < 0 || r.Group == 1 {
		errs = append(errs, tierlock.Invalid("rule.group", strconv.Itoa(r.Group), "want 2 or more, or zero (10000)"))
	}
	for _, t := range r.Ignore {
		if t < tierlock.Shared || t > tierlock.Bypass {
			errs = append(errs, tierlock.Invalid("rule.ignore", t.String(), "want shared, optimistic, local or bypass"))
		}
	}
	return errors.Join(errs...)
}

func (r Rule) withDefaults() Rule {
	if r.DefaultError == 0 {
		r.DefaultError = 500 * time.Millisecond
	}
	if r.Group == 0 {
		r.Group = 10_000
	}
	return r
}

// counts tells whether iv can be in conflict at all. Optimistic work is no hold; what it
// committed may still be, beside a hold.
func (r *Rule) counts(iv *Interval) bool { return r.matters(iv.Tier, iv.Outcome, iv.EndedAt) }

func (r *Rule) matters(t tierlock.Tier, outcome audit.Work, ended time.Time) bool {
	if t == tierlock.Optimistic && (outcome != audit.Committed || ended.IsZero()) {
		return false
	}
	return !slices.Contains(r.Ignore, t)
}

// margin is the clock error of iv, either side.
func (r *Rule) margin(iv *Interval) time.Duration {
	if iv.Error <= 0 {
		return r.DefaultError
	}
	return iv.Error + resolution
}

// relation is what two holds of one key are to each other.
type relation uint8

const (
	apart    relation = iota
	possible          // they may have overlapped
	certain           // they did, whatever the clocks
)

// relate judges one pair of holds by two different holders.
//
// Across processes each time may be off by its margin, either way: possible stretches both
// holds by it, certain shrinks them.
//
// Inside one process no margin is needed, but the wall clock alone is not to be trusted
// either: it may be stepped. The seqs of the events cannot. See relateInside.
//
// Certain needs a bound for the clocks: where a process gave none, or the store's token
// contradicts it, nothing is.
//
// Optimistic work held nothing and waited for nobody: it is a conflict where it committed
// while somebody was inside, and did not tell of another version than his. Certain it is
// only where both tell of the same one: else its own comparison may have seen to it.
//
// Two shared holds of one store that were both given back and do not overlap in raw time
// are a hand-over: the store itself put the release before the next grant, and its order
// needs no clock of ours. Without this every busy lock would be a finding.
func (r *Rule) relate(a, b *Interval) relation {
	if a.Tier == tierlock.Optimistic || b.Tier == tierlock.Optimistic {
		if !committed(a) || !committed(b) || guarded(a, b) || a.Tier == b.Tier && !lostUpdate(a, b) {
			return apart
		}
	} else if a.sameProcess(b) && a.Key == b.Key { // events of two keys are not written in their order
		return relateInside(a, b)
	}
	ea, eb := r.margin(a), r.margin(b)
	known := a.Error > 0 && b.Error > 0 && !r.clockOff(a) && !r.clockOff(b)
	if (a.Tier == tierlock.Optimistic || b.Tier == tierlock.Optimistic) && !lostUpdate(a, b) {
		known = false // they were at it together, but who compares versions does no harm
	}
	if a.sameProcess(b) {
		ea, eb, known = 0, 0, false // one clock; whether it was stepped nobody can tell
	}
	if !crosses(a.GrantedAt, a.Latest, b.GrantedAt, b.Latest, ea+eb) || handedOver(a, b) {
		return apart
	}
	if known && a.Ended() && b.Ended() && crosses(a.GrantedAt, a.EndedAt, b.GrantedAt, b.EndedAt, -ea-eb) {
		return certain
	}
	return possible
}

// relateInside judges two holds of one process. An acquire is written before its caller
// has the grant, an end while its caller gives it back. So when A's end was written before
// B's acquire, A's holder had left before B's was in, whatever the times say. And when each
// acquire was written before the other's end, both calls were under way at once: then
// raw times that overlap are certain; and raw times that do not are a clock that was
// stepped, unless something that excludes stood between the two.
func relateInside(a, b *Interval) relation {
	if left(a, b) || left(b, a) {
		return apart
	}
	interleaved := a.AcquireSeq != 0 && a.AcquireSeq < b.EndSeq && b.AcquireSeq != 0 && b.AcquireSeq < a.EndSeq
	raw := crosses(a.GrantedAt, a.Latest, b.GrantedAt, b.Latest, 0)
	switch {
	case raw && interleaved && a.Ended() && b.Ended() && crosses(a.GrantedAt, a.EndedAt, b.GrantedAt, b.EndedAt, 0):
		return certain
	case raw:
		return possible
	case interleaved && (a.Tier != b.Tier || a.Tier == tierlock.Bypass):
		return possible
	}
	return apart
}

// left tells whether a's holder had given its hold back before b's acquire was written.
func left(a, b *Interval) bool {
	return a.EndSeq != 0 && a.EndSeq < b.AcquireSeq && a.How == audit.Released
}

// crosses tells whether [as, ae] and [bs, be] overlap when slack is added to every end;
// touching is not overlapping.
func crosses(as, ae, bs, be time.Time, slack time.Duration) bool {
	return bs.Sub(ae) < slack && as.Sub(be) < slack
}

// handedOver tells whether one store gave the key from one hold to the other.
func handedOver(a, b *Interval) bool {
	return a.Key == b.Key && a.Tier == tierlock.Shared && b.Tier == tierlock.Shared && a.Store == b.Store && a.Store != "" &&
		a.How == audit.Released && b.How == audit.Released &&
		!crosses(a.GrantedAt, a.EndedAt, b.GrantedAt, b.EndedAt, 0)
}
