package tierlock

import "time"

// Outcome is one of exactly four words, the same on every wire and in every SDK. A
// request refused before it became one (bad key, closed gateway) has none.
type Outcome uint8

// The outcomes.
const (
	Success     Outcome = iota + 1
	Failure             // held by another, or (renew, unlock) no longer ours
	Timeout             // no answer inside the budget
	SystemError         // the store is down, saturated or refused, and policy allows no lower tier
)

// Advice is what the chain's policy tells a caller that got no lock. Zero is none.
type Advice uint8

// The advices.
const (
	AdviseRetry      Advice = iota + 1 // somebody holds it now
	AdviseOptimistic                   // do the work under one statement that compares and changes a version
	AdviseFail                         // stop: going on without the lock is not allowed
)

// Alert is how loudly a person should hear of this. Zero is not at all.
type Alert uint8

// The alert levels.
const (
	AlertInfo Alert = iota + 1 // as failure: part of a normal day
	AlertWarn                  // as timeout: look when there is time
	AlertPage                  // as system_error: wake somebody
)

// Reason says why, in one word of a closed set; it is a metric label.
type Reason string

// The reasons.
const (
	ReasonHeld       Reason = "held"            // another holds the key
	ReasonAttempt    Reason = "attempt_timeout" // no answer within the attempt
	ReasonLate       Reason = "late"            // the store refused the attempt: past its not-after
	ReasonSlow       Reason = "slow"            // the store answers, but too late
	ReasonSaturated  Reason = "saturated"       // every place on the wire is taken
	ReasonDown       Reason = "down"            // refused, loading, no answer to probes
	ReasonBroken     Reason = "broken"          // connection reset or closed while asking
	ReasonDenied     Reason = "denied"          // the store answered that it will not: OOM, READONLY, NOPERM …
	ReasonWrongType  Reason = "wrong_type"      // the key holds something that is no lock
	ReasonOpen       Reason = "breaker_open"    // too many broken in a row: not asked
	ReasonRecovering Reason = "recovering"      // the store is back and this attempt not yet admitted
	ReasonForced     Reason = "forced"          // an operator's order
	ReasonUnrecorded Reason = "unrecorded"      // the spool could not take the event
	ReasonFull       Reason = "full"            // the local table holds as many keys as it may
	ReasonLost       Reason = "lost"            // no longer ours
	ReasonCanceled   Reason = "canceled"        // the caller's own context ended
)

// Reasons lists every Reason, for metrics that show a zero before the first failure.
func Reasons() []Reason {
	return []Reason{
		ReasonHeld, ReasonAttempt, ReasonLate, ReasonSlow, ReasonSaturated, ReasonDown, ReasonBroken, ReasonDenied,
		ReasonWrongType, ReasonOpen, ReasonRecovering, ReasonForced, ReasonUnrecorded, ReasonFull, ReasonLost, ReasonCanceled,
	}
}

// Verdict is the whole answer to one call, the same value in [*Error], in hooks and on the
// daemon's wire. Audit events carry its tier and reason: their outcome is that of the
// caller's own work.
type Verdict struct {
	Outcome Outcome
	Reason  Reason // empty on success, but for a tier below shared: why it was stepped down to
	Tier    Tier   // that served it, or that would have
	Advice  Advice
	Alert   Alert
	// Remaining is how long the present holder may still hold, as the store tells it;
	// zero when unknown. Only with ReasonHeld.
	Remaining time.Duration
	// Holder is the present holder's fingerprint. Only with ReasonHeld, and then maybe empty.
	Holder string
	// RetryAfter is when another try is worth while; zero when nothing is known.
	RetryAfter time.Duration
}

var (
	outcomeWords = words{"invalid", "success", "failure", "timeout", "system_error"}
	adviceWords  = words{"none", "retry", "optimistic", "fail"}
	alertWords   = words{"none", "info", "warn", "page"}
)

// String returns the outcome's word; "invalid" for what is none.
func (o Outcome) String() string { return outcomeWords.of(int(o)) }

// MarshalText returns the outcome's word; what is none is an error.
func (o Outcome) MarshalText() ([]byte, error) { return outcomeWords.marshal("outcome", int(o)) }

// UnmarshalText accepts success, failure, timeout and system_error.
func (o *Outcome) UnmarshalText(b []byte) error { return unmarshal(outcomeWords, "outcome", b, o) }

// String returns the advice's word; "none" for zero.
func (a Advice) String() string { return adviceWords.of(int(a)) }

// MarshalText returns the advice's word; zero is an error: leave such a field out.
func (a Advice) MarshalText() ([]byte, error) { return adviceWords.marshal("advice", int(a)) }

// UnmarshalText accepts retry, optimistic and fail.
func (a *Advice) UnmarshalText(b []byte) error { return unmarshal(adviceWords, "advice", b, a) }

// String returns the level's word; "none" for zero.
func (a Alert) String() string { return alertWords.of(int(a)) }

// MarshalText returns the level's word; zero is an error: leave such a field out.
func (a Alert) MarshalText() ([]byte, error) { return alertWords.marshal("alert", int(a)) }

// UnmarshalText accepts info, warn and page.
func (a *Alert) UnmarshalText(b []byte) error { return unmarshal(alertWords, "alert", b, a) }
