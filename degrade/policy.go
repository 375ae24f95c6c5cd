package degrade

import (
	"errors"
	"fmt"
	"time"

	"github.com/tierlock/tierlock"
)

// maxTimeouts is the largest [Policy.Timeouts]: a sensor remembers no more of them.
const maxTimeouts = 64

// Policy is the part of a chain's policy that this package reads. Start from [Strong] or
// [Weak] and change fields; files decode over them, so a missing field is the default
// and zero is zero. The zero Policy is invalid. A Policy is read-only once in use and
// may then be shared by any number of goroutines.
type Policy struct {
	// Class has no default: the owner of the chain must say.
	Class Class `yaml:"class"`
	// VersionGuard says that every writer of the row, lock holders included, compares
	// and bumps a version. Only then may a strong chain go on optimistically.
	VersionGuard bool `yaml:"version_guard"`
	// OnSaturated is what a weak chain does while the wire is full; default local. A
	// strong chain must leave it out. With [FallbackCoalesce] every grant is still the
	// store's, and no call has more than one question out for a key in this process.
	OnSaturated Fallback `yaml:"on_saturated,omitempty"`
	// OnDown is what a weak chain does while the store is down; default local, and never
	// coalesce. A strong chain must leave it out.
	OnDown Fallback `yaml:"on_down,omitempty"`

	// Observe has the ladder decide and not act: the chain is served by the store whatever
	// its health, and [Route].Observed tells what would have been. An operator's order is
	// obeyed all the same.
	Observe bool `yaml:"observe"`

	// Saturated is the occupancy, a share of the wire from 0 to 1, from which the wire
	// counts as full; default 0.95.
	Saturated float64 `yaml:"saturated_at"`
	// Relaxed is the occupancy under which it counts as free again; default 0.80. Below
	// Saturated, so that a load on the edge does not make the tier flutter.
	Relaxed float64 `yaml:"relaxed_at"`
	// SaturateIn is how long every sample must be at Saturated or above; default 5 s.
	SaturateIn time.Duration `yaml:"saturate_in"`
	// RelaxIn is how long every sample must be under Relaxed; default 2 s.
	RelaxIn time.Duration `yaml:"relax_in"`
	// SteadyIn is how soon after a full wire the next one is a relapse, and how long that
	// one then lasts at least; default 1 min, 0 is never.
	SteadyIn time.Duration `yaml:"steady_in"`

	// Timeouts is how many attempts must time out within one second, while probes are
	// answered, for the store to count as slow; default 5, at most 64.
	Timeouts int `yaml:"slow_timeouts"`
	// FastProbes is how many probes in a row, each answered in under half an attempt,
	// end that; default 3.
	FastProbes int `yaml:"fast_probes"`

	// Failures is how many connections in a row must break for the store to count as
	// down; default 5. A refused connection needs no second one, and neither does a failed
	// probe, of which there is one right after the first broken connection.
	Failures int `yaml:"down_failures"`
	// ProbeLost is how long probes must go unanswered for the same; default 1 s.
	ProbeLost time.Duration `yaml:"probe_lost"`

	// RampFrom is the share of the wire, from 0 to 1, that is admitted as soon as the
	// store is back; default 0.10.
	RampFrom float64 `yaml:"ramp_from"`
	// RampEvery is the time in which that share doubles, up to the whole wire; default
	// 1 s, so that a store is back in full use after 4 s.
	RampEvery time.Duration `yaml:"ramp_every"`
}

// Strong returns the defaults of a chain that never goes below shared.
func Strong() Policy {
	return Policy{
		Class:     ClassStrong,
		Saturated: .95, Relaxed: .80, SaturateIn: 5 * time.Second, RelaxIn: 2 * time.Second, SteadyIn: time.Minute,
		Timeouts: 5, FastProbes: 3,
		Failures: 5, ProbeLost: time.Second,
		RampFrom: .10, RampEvery: time.Second,
	}
}

// Weak returns the defaults of a chain that may step down to the local lock.
func Weak() Policy {
	p := Strong()
	p.Class, p.OnSaturated, p.OnDown = ClassWeak, FallbackLocal, FallbackLocal
	return p
}

// Validate reports every fault at once, each a [tierlock.InvalidError] that names field,
// value and rule; nil if there is none. Fields are named as in files.
func (p *Policy) Validate() error {
	var errs []error
	check := func(ok bool, field string, value any, rule string) {
		if !ok {
			errs = append(errs, tierlock.Invalid(field, fmt.Sprint(value), rule))
		}
	}
	switch p.Class {
	case ClassStrong:
		const rule = "only for weak chains: a strong chain fails, or goes on optimistically with version_guard"
		check(p.OnSaturated == 0, "on_saturated", p.OnSaturated, rule)
		check(p.OnDown == 0, "on_down", p.OnDown, rule)
	case ClassWeak:
		check(p.OnSaturated.valid(), "on_saturated", p.OnSaturated, "want local, coalesce, optimistic or fail")
		check(p.OnDown.valid() && p.OnDown != FallbackCoalesce, "on_down", p.OnDown, "want local, optimistic or fail")
	default:
		check(false, "class", "", "required: strong or weak")
	}
	check(p.Saturated > 0 && p.Saturated <= 1, "saturated_at", p.Saturated, "want a share above 0, at most 1")
	check(p.Relaxed > 0 && p.Relaxed < p.Saturated, "relaxed_at", p.Relaxed, "want a share above 0, below saturated_at")
	check(p.SaturateIn > 0, "saturate_in", p.SaturateIn, "want a time above 0")
	check(p.RelaxIn > 0, "relax_in", p.RelaxIn, "want a time above 0")
	check(p.SteadyIn >= 0, "steady_in", p.SteadyIn, "want 0 for never, or above")
	check(p.Timeouts >= 1 && p.Timeouts <= maxTimeouts, "slow_timeouts", p.Timeouts, "want 1 to 64")
	check(p.FastProbes >= 1, "fast_probes", p.FastProbes, "want at least 1")
	check(p.Failures >= 1, "down_failures", p.Failures, "want at least 1")
	check(p.ProbeLost > 0, "probe_lost", p.ProbeLost, "want a time above 0")
	check(p.RampFrom > 0 && p.RampFrom <= 1, "ramp_from", p.RampFrom, "want a share above 0, at most 1")
	check(p.RampEvery > 0, "ramp_every", p.RampEvery, "want a time above 0")
	return errors.Join(errs...)
}

// NeedsBreakGlass tells whether mode would put the chain below what its class allows: a
// strong chain on local or bypass, or on optimistic without a version guard. Such an
// order is obeyed only if its document says break_glass.
func (p *Policy) NeedsBreakGlass(mode tierlock.Mode) bool {
	if p.Class != ClassStrong {
		return false
	}
	switch mode {
	case tierlock.ModeLocal, tierlock.ModeBypass:
		return true
	case tierlock.ModeOptimistic:
		return !p.VersionGuard
	}
	return false
}
