package degrade

import (
	"time"

	"github.com/tierlock/tierlock"
)

// Machine follows the health of one target for one chain. It is a value: copy it, compare
// it, keep it behind a pointer and put a new one there after each [Machine.Step]. Make it
// with [Start].
//
//	Normal ──▶ Slow        p.Timeouts within 1 s, probes answered
//	Normal ──▶ Saturated   full for p.SaturateIn
//	Slow ──▶ Normal        p.FastProbes since it became slow
//	Saturated ──▶ Slow     as from Normal: slow wins, since a slow store fills the wire
//	Saturated ──▶ Normal   under p.Relaxed for p.RelaxIn; and not within p.SteadyIn of a
//	                       relapse, which is to be Saturated again so soon after it
//	any ──▶ Down           a definite fault; see downReason
//	Down ──▶ Recovering    a probe answered since it went down
//	Recovering ──▶ Slow    as from Normal
//	Recovering ──▶ Normal  the ramp has reached the whole wire
//
// Slow and Saturated lead straight back to Normal, without the ramp: their store answered
// all along, the trickle or the wire's limit kept the load off it, and nobody waits for a
// store that is only now coming back.
//
// A chain that leaves its store takes its load along, so a wire that it fills by itself looks
// free as soon as it has left: without the longer stay after a relapse it would be back in
// two seconds and away again in five, for as long as the load lasts. A chain that would refuse
// all that time is served meanwhile, up to p.Relaxed of the wire: see [Decide].
type Machine struct {
	State  State
	Epoch  uint64          // edges so far
	Since  time.Time       // when State was entered
	Reason tierlock.Reason // why; empty in Normal

	full  time.Time // first of an unbroken run of samples at Saturated or above; zero: none
	free  time.Time // first of an unbroken run of samples under Relaxed; zero: none
	known int       // probes that were already answered when State was entered
	left  time.Time // when Saturated was last left for Normal; zero: never
	stay  time.Time // until when Saturated is not left for Normal; zero: as soon as it may
	eased bool      // Saturated would have been left already, were it not for stay
}

// Start returns a healthy machine. A process starts in Normal: it knows nothing else yet,
// and its first question shows.
func Start(at time.Time) Machine { return Machine{State: Normal, Since: at} }

// Step returns the machine after one look at its target, and the edge if it took one. It
// takes at most one. Call it after every fault and probe, and at least every 200 ms for what
// only time can tell.
func (m Machine) Step(p *Policy, s Signals) (Machine, Transition, bool) {
	m.sample(p, s)
	to, reason := m.next(p, s)
	if to == m.State {
		return m, Transition{}, false
	}
	edge := Transition{At: s.At, From: m.State, To: to, Reason: reason, Dwell: s.At.Sub(m.Since), Epoch: m.Epoch + 1}
	next := Machine{State: to, Epoch: edge.Epoch, Since: s.At, Reason: reason, known: answered(to, s), left: m.left}
	switch {
	case m.State == Saturated && to == Normal:
		next.left = s.At
	case to == Saturated && !m.left.IsZero() && s.At.Sub(m.left) < p.SteadyIn:
		next.stay = s.At.Add(p.SteadyIn)
	}
	return next, edge, true
}

// next is the whole table of edges. A definite fault comes first in every state.
func (m *Machine) next(p *Policy, s Signals) (State, tierlock.Reason) {
	if m.State != Down {
		if why := downReason(p, s); why != "" {
			return Down, why
		}
		if m.State != Slow && s.Timeouts >= p.Timeouts {
			return Slow, tierlock.ReasonSlow
		}
	}
	switch m.State {
	case Normal:
		if !m.full.IsZero() && s.At.Sub(m.full) >= p.SaturateIn {
			return Saturated, tierlock.ReasonSaturated
		}
	case Slow:
		if answered(Slow, s)-m.known >= p.FastProbes {
			return Normal, ""
		}
	case Saturated:
		if !m.free.IsZero() && s.At.Sub(m.free) >= p.RelaxIn && !s.At.Before(m.stay) {
			return Normal, ""
		}
	case Down:
		if answered(Down, s) > m.known && downReason(p, s) == "" {
			return Recovering, tierlock.ReasonRecovering
		}
	case Recovering:
		if m.Ramp(p, s.At) >= 1 {
			return Normal, ""
		}
	}
	return m.State, m.Reason
}

// downReason tells why the store counts as down; empty if it does not. Timeouts are not
// among the reasons: a store that is merely slow answers its probes.
func downReason(p *Policy, s Signals) tierlock.Reason {
	switch {
	case s.Refused, s.ProbeFailed, s.Unanswered >= p.ProbeLost:
		return tierlock.ReasonDown
	case s.Open:
		return tierlock.ReasonOpen
	case s.Failures >= p.Failures:
		return tierlock.ReasonBroken
	}
	return ""
}

// sample keeps the runs of full and free samples, and notices when the count of answered
// probes started over: all of it is news then. Eased stays: from then on the gate itself looks
// at the wire, at each attempt and not five times a second.
func (m *Machine) sample(p *Policy, s Signals) {
	occupancy := s.Occupancy
	if p.Class == ClassWeak {
		occupancy = max(occupancy, s.WeakOccupancy)
	}
	m.full = run(m.full, occupancy >= p.Saturated, s.At)
	m.free = run(m.free, occupancy < p.Relaxed, s.At)
	if m.State == Saturated && !m.free.IsZero() && s.At.Sub(m.free) >= p.RelaxIn {
		m.eased = true
	}
	if answered(m.State, s) < m.known {
		m.known = 0
	}
}

// run carries on an unbroken run of samples that began at since: the sample of now holds
// too, or ends it.
func run(since time.Time, holds bool, now time.Time) time.Time {
	switch {
	case !holds:
		return time.Time{}
	case since.IsZero():
		return now
	}
	return since
}

// answered is the count of probes that state is left by.
func answered(state State, s Signals) int {
	if state == Slow {
		return s.FastProbes
	}
	return s.Probes
}

// Ramp returns the share of the wire, above 0 and at most 1, that attempts may use then:
// while Recovering it starts at p.RampFrom and doubles every p.RampEvery; else it is 1.
func (m *Machine) Ramp(p *Policy, at time.Time) float64 {
	share := 1.0
	if m.State == Recovering {
		share = p.RampFrom
		for left := at.Sub(m.Since); share < 1 && left >= p.RampEvery; left -= p.RampEvery {
			share *= 2
		}
	}
	return min(share, 1)
}
