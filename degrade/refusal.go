package degrade

import "github.com/tierlock/tierlock"

// Refusal is the verdict of a request that was not served, by reason: the one place that
// knows which outcome, advice and alert level belong to it.
//
//	reason                               | strong  | with guard | weak
//	held, lost                           | failure | failure    | failure
//	attempt_timeout, late, slow,
//	saturated (a full wire), recovering  | timeout | optimistic | optimistic
//	broken, denied                       | system  | optimistic | optimistic; on_down fail: system
//	down, breaker_open                   | system  | optimistic | as on_down says; local: system
//	canceled                             | timeout, without advice or alert
//	wrong_type, forced, unrecorded, full | system  | system     | system
//
// Where "optimistic" is timeout with advice optimistic, "timeout" advises fail, and so
// does "system". Held advises retry. Failure alerts info, timeout warns, system pages.
//
// A weak chain whose on_down is local is asked about down only where an order keeps it
// from the local lock. One broken connection is no outage yet: the ladder still says
// shared, and the one request that got no answer is told what a timeout is told.
//
// The machine's own state Saturated is not meant here: a chain in it is refused by
// [Decide] at once, and a strong one then with system_error; but for one that only waits out a
// relapse, and finds no place in what is free. Where on_saturated says
// coalesce, whoever finds no place in time is told what a full wire is told.
func (p *Policy) Refusal(why tierlock.Reason) tierlock.Verdict {
	switch why {
	case tierlock.ReasonHeld:
		return failure(why, tierlock.AdviseRetry)
	case tierlock.ReasonLost:
		return failure(why, 0)
	case tierlock.ReasonCanceled:
		return tierlock.Verdict{Outcome: tierlock.Timeout, Reason: why, Tier: tierlock.Shared}
	case tierlock.ReasonAttempt, tierlock.ReasonLate, tierlock.ReasonSlow, tierlock.ReasonSaturated, tierlock.ReasonRecovering:
		if p.Class == ClassWeak || p.VersionGuard {
			return optimistic(why)
		}
		return tierlock.Verdict{Outcome: tierlock.Timeout, Reason: why, Tier: tierlock.Shared, Advice: tierlock.AdviseFail, Alert: tierlock.AlertWarn}
	case tierlock.ReasonBroken, tierlock.ReasonDenied:
		if p.Class == ClassWeak && p.OnDown != FallbackFail {
			return optimistic(why)
		}
		return p.withoutStore(why)
	case tierlock.ReasonDown, tierlock.ReasonOpen:
		return p.withoutStore(why)
	case tierlock.ReasonFull:
		return system(why, tierlock.Local)
	case tierlock.ReasonUnrecorded:
		return system(why, tierlock.Bypass)
	}
	return system(why, tierlock.Shared)
}

// withoutStore is the answer of a chain whose store is gone.
func (p *Policy) withoutStore(why tierlock.Reason) tierlock.Verdict {
	if p.Class == ClassWeak {
		return unserved(p.OnDown, why)
	}
	return unserved(p.strongFallback(), why)
}

// unserved is the answer of a chain that f leads to no lock.
func unserved(f Fallback, why tierlock.Reason) tierlock.Verdict {
	if f == FallbackOptimistic {
		return optimistic(why)
	}
	return system(why, tierlock.Shared)
}

func failure(why tierlock.Reason, advice tierlock.Advice) tierlock.Verdict {
	return tierlock.Verdict{Outcome: tierlock.Failure, Reason: why, Tier: tierlock.Shared, Advice: advice, Alert: tierlock.AlertInfo}
}

// optimistic is the same answer whether health or an order asks for it.
func optimistic(why tierlock.Reason) tierlock.Verdict {
	return tierlock.Verdict{Outcome: tierlock.Timeout, Reason: why, Tier: tierlock.Optimistic, Advice: tierlock.AdviseOptimistic, Alert: tierlock.AlertWarn}
}

func system(why tierlock.Reason, tier tierlock.Tier) tierlock.Verdict {
	return tierlock.Verdict{Outcome: tierlock.SystemError, Reason: why, Tier: tier, Advice: tierlock.AdviseFail, Alert: tierlock.AlertPage}
}
