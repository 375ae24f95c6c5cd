package degrade

import "github.com/tierlock/tierlock"

// Class says what a chain may never do. There is no default; the zero Class is invalid.
type Class uint8

// The classes.
const (
	ClassStrong Class = iota + 1 // never below shared, but optimistic where there is a version guard
	ClassWeak                    // may step down and be repaired afterwards
)

// Fallback is what a weak chain does when the store cannot serve it. The zero Fallback
// says nothing and is right on strong chains only.
type Fallback uint8

// The fallbacks.
const (
	FallbackLocal      Fallback = iota + 1 // the bounded lock in this process
	FallbackCoalesce                       // stay with the store, one call of the process at a time for each key; for a full wire only
	FallbackOptimistic                     // no lock: the caller compares a version
	FallbackFail                           // refuse with system_error
)

func (f Fallback) valid() bool { return f >= FallbackLocal && f <= FallbackFail }

// tier is where f leads; zero refuses.
func (f Fallback) tier() tierlock.Tier {
	switch f {
	case FallbackLocal:
		return tierlock.Local
	case FallbackCoalesce:
		return tierlock.Shared
	case FallbackOptimistic:
		return tierlock.Optimistic
	}
	return 0
}

var (
	classWords    = words{"", "strong", "weak"}
	fallbackWords = words{"", "local", "coalesce", "optimistic", "fail"}
)

// String returns the word used in files; empty for the zero Class.
func (c Class) String() string { return classWords.of(int(c)) }

// MarshalText returns the word; the zero Class is written as nothing.
func (c Class) MarshalText() ([]byte, error) { return classWords.marshal("class", int(c)) }

// UnmarshalText accepts strong and weak.
func (c *Class) UnmarshalText(text []byte) error { return unmarshal(classWords, "class", text, c) }

// String returns the word used in files; empty for the zero Fallback.
func (f Fallback) String() string { return fallbackWords.of(int(f)) }

// MarshalText returns the word; the zero Fallback is written as nothing.
func (f Fallback) MarshalText() ([]byte, error) { return fallbackWords.marshal("fallback", int(f)) }

// UnmarshalText accepts local, coalesce, optimistic and fail.
func (f *Fallback) UnmarshalText(text []byte) error {
	return unmarshal(fallbackWords, "fallback", text, f)
}
