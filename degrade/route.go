package degrade

import (
	"time"

	"github.com/tierlock/tierlock"
)

// Admit says how a request may go out to the store.
type Admit uint8

// The admissions.
const (
	AdmitAll     Admit = iota // as the wire allows
	AdmitTrickle              // the store is slow: a few a second try, the rest are answered at once
	AdmitRamp                 // the store is coming back: Route.Share of the wire may be out
	AdmitUnder                // the wire was full too often: less than Route.Share of it may be out
	AdmitOne                  // the wire is full: one of this process at a time for each key, the others wait for it
)

// Route says how to serve one request now.
type Route struct {
	// Tier to ask. Zero and Optimistic ask nobody: Verdict is the answer.
	Tier tierlock.Tier
	// Admit and Share hold for Shared. Who is not admitted gets Policy.Refusal(Reason).
	Admit Admit
	Share float64
	// Reason why this is not plainly shared; empty if it is.
	Reason tierlock.Reason
	// Verdict answers the request when Tier is zero or Optimistic; else it is zero.
	Verdict tierlock.Verdict
	// Observed is the Reason that this would have, were it not for [Policy].Observe, and
	// Instead the Tier; empty and zero where it is what it would be. Instead is Shared where
	// only some would have been admitted.
	Observed tierlock.Reason
	Instead  tierlock.Tier
}

// Decide is the precedence of the whole ladder, top to bottom: order, class, health. It
// allocates nothing and changes nothing. o may be nil.
//
// Only the machine and the order are looked at. That a recovering chain refuses a key
// with a live local holder of its own is the caller's to see, who has the table.
func Decide(p *Policy, o *Order, m *Machine, at time.Time, hash uint64) Route {
	if o.Covers(at, hash) {
		return p.ordered(o.Mode)
	}
	r := p.followed(m, at)
	if p.Observe && r.Reason != "" {
		return Route{Tier: tierlock.Shared, Observed: r.Reason, Instead: r.Tier}
	}
	return r
}

// followed is where health leads.
func (p *Policy) followed(m *Machine, at time.Time) Route {
	switch m.State {
	case Slow:
		return Route{Tier: tierlock.Shared, Admit: AdmitTrickle, Reason: m.Reason}
	case Recovering:
		return Route{Tier: tierlock.Shared, Admit: AdmitRamp, Share: m.Ramp(p, at), Reason: m.Reason}
	case Saturated:
		r := p.below(p.OnSaturated, m.Reason)
		if r.Tier == 0 && m.eased {
			// Only the longer stay after a relapse keeps it here. A chain that has another way
			// takes it; this one would refuse for a minute what a free wire could serve.
			return Route{Tier: tierlock.Shared, Admit: AdmitUnder, Share: p.Relaxed, Reason: m.Reason}
		}
		return r
	case Down:
		return p.below(p.OnDown, m.Reason)
	}
	return Route{Tier: tierlock.Shared}
}

// ordered is where an order leads. Whether it may lie over this chain was settled when
// its document was accepted; see [Policy.NeedsBreakGlass].
func (p *Policy) ordered(mode tierlock.Mode) Route {
	r := Route{Reason: tierlock.ReasonForced}
	switch mode {
	case tierlock.ModeShared:
		r.Tier = tierlock.Shared
	case tierlock.ModeOptimistic:
		r.Tier, r.Verdict = tierlock.Optimistic, optimistic(tierlock.ReasonForced)
	case tierlock.ModeLocal:
		r.Tier = tierlock.Local
	case tierlock.ModeBypass:
		r.Tier = tierlock.Bypass
	default: // reject, and whatever is no mode
		r.Verdict = p.Refusal(tierlock.ReasonForced)
	}
	return r
}

// below is where a chain goes when its store cannot serve it.
func (p *Policy) below(f Fallback, why tierlock.Reason) Route {
	if p.Class != ClassWeak {
		f = p.strongFallback()
	}
	r := Route{Tier: f.tier(), Reason: why}
	switch f {
	case FallbackLocal:
	case FallbackCoalesce:
		r.Admit = AdmitOne
	default:
		r.Verdict = unserved(f, why)
	}
	return r
}

// strongFallback is all that a strong chain may ever do without its store.
func (p *Policy) strongFallback() Fallback {
	if p.VersionGuard {
		return FallbackOptimistic
	}
	return FallbackFail
}
