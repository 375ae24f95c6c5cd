package tierlock

import (
	"errors"
	"strings"
)

// The sentinels callers branch on with errors.Is. ErrHeld, ErrTimeout and ErrSystem are
// the three outcomes that are not success and exclude each other. ErrOptimistic is
// advice: an error that matches it matches ErrTimeout too, so test for it first.
var (
	ErrHeld       = errors.New("tierlock: held by another")
	ErrTimeout    = errors.New("tierlock: no answer in time")
	ErrSystem     = errors.New("tierlock: store unavailable")
	ErrOptimistic = errors.New("tierlock: go on optimistically")
	ErrLost       = errors.New("tierlock: lock lost") // a lock once had: expired, or another's by now
	ErrInvalid    = errors.New("tierlock: invalid")   // a refused input, before any I/O: see InvalidError
	ErrClosed     = errors.New("tierlock: closed")    // the gateway or source was closed
)

// Error carries the verdict of a call that got an answer other than success. It matches
// the sentinels above and unwraps to the cause.
type Error struct {
	Op    string // "acquire", "renew", "release", "lookup"
	Chain string
	Key   Key
	Verdict
	Err error // the store's or the context's own error; may be nil
}

// Error names the operation, the key, the reason and, where there is one, the advice and
// the cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("tierlock: " + e.Op + " " + e.Key.String() + ": " + string(e.Reason))
	if e.Advice == AdviseOptimistic {
		b.WriteString(" (go on optimistically)")
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the store's or the context's own error.
func (e *Error) Unwrap() error { return e.Err }

// Is matches the sentinels by verdict.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrHeld:
		return e.Outcome == Failure && e.Reason == ReasonHeld
	case ErrTimeout:
		return e.Outcome == Timeout
	case ErrSystem:
		return e.Outcome == SystemError
	case ErrOptimistic:
		return e.Outcome == Timeout && e.Advice == AdviseOptimistic
	case ErrLost:
		return e.Reason == ReasonLost
	}
	return false
}

// InvalidError is a refused input: which field, what it held and the rule it broke. It
// matches [ErrInvalid]. Several of them are joined with errors.Join.
type InvalidError struct {
	Field string // as it is written in files and on the wire: "key", "chains.order.ttl"
	Value string // empty where it may be a secret
	Rule  string
}

// Invalid returns an [*InvalidError] as an error.
func Invalid(field, value, rule string) error {
	return &InvalidError{Field: field, Value: value, Rule: rule}
}

// Error names field, value and rule.
func (e *InvalidError) Error() string {
	s := "tierlock: invalid " + e.Field
	if e.Value != "" {
		s += " \"" + e.Value + "\""
	}
	return s + ": " + e.Rule
}

// Is matches [ErrInvalid].
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Invalids returns every refused input in err, in order: a check joins all that it finds.
func Invalids(err error) []*InvalidError {
	switch e := err.(type) { //nolint:errorlint // walks the tree itself
	case nil:
		return nil
	case *InvalidError:
		return []*InvalidError{e}
	case interface{ Unwrap() []error }:
		var all []*InvalidError
		for _, one := range e.Unwrap() {
			all = append(all, Invalids(one)...)
		}
		return all
	}
	return Invalids(errors.Unwrap(err))
}
