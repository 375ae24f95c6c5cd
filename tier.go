package tierlock

// Tier says how a request was served. The zero Tier is invalid, so an absent one never
// reads as a real lock.
type Tier uint8

// The tiers, from the strongest to none at all.
const (
	Shared     Tier = iota + 1 // a store that all instances see
	Optimistic                 // nothing is held: the caller compares a version
	Local                      // a bounded lock inside this process
	Bypass                     // fake: excludes nobody
)

// Scope says among whom a grant excludes. The zero Scope is invalid.
type Scope uint8

// The scopes.
const (
	ScopeNone    Scope = iota + 1 // nobody: optimistic and bypass
	ScopeProcess                  // this process: local
	ScopeCluster                  // every instance: shared
)

// Mode is what an operator orders for a chain. ModeAuto leaves the choice to the chain's
// health; every other mode lies over it. The zero Mode is invalid.
type Mode uint8

// The modes.
const (
	ModeAuto       Mode = iota + 1 // no order
	ModeShared                     // the store, whatever its health
	ModeOptimistic                 // no lock: every request is advised to compare a version
	ModeLocal                      // the bounded lock inside each process
	ModeBypass                     // the fake: everybody is let through, and recorded
	ModeReject                     // nobody: system_error, reason forced
)

var (
	tierWords  = words{"invalid", "shared", "optimistic", "local", "bypass"}
	scopeWords = words{"invalid", "none", "process", "cluster"}
	modeWords  = words{"invalid", "auto", "shared", "optimistic", "local", "bypass", "reject"}
)

// String returns the tier's word; "invalid" for what is none.
func (t Tier) String() string { return tierWords.of(int(t)) }

// MarshalText returns the tier's word; what is none is an error.
func (t Tier) MarshalText() ([]byte, error) { return tierWords.marshal("tier", int(t)) }

// UnmarshalText accepts shared, optimistic, local and bypass.
func (t *Tier) UnmarshalText(b []byte) error { return unmarshal(tierWords, "tier", b, t) }

// String returns the scope's word; "invalid" for what is none.
func (s Scope) String() string { return scopeWords.of(int(s)) }

// MarshalText returns the scope's word; what is none is an error.
func (s Scope) MarshalText() ([]byte, error) { return scopeWords.marshal("scope", int(s)) }

// UnmarshalText accepts none, process and cluster.
func (s *Scope) UnmarshalText(b []byte) error { return unmarshal(scopeWords, "scope", b, s) }

// String returns the mode's word; "invalid" for what is none.
func (m Mode) String() string { return modeWords.of(int(m)) }

// MarshalText returns the mode's word; what is none is an error.
func (m Mode) MarshalText() ([]byte, error) { return modeWords.marshal("mode", int(m)) }

// UnmarshalText accepts auto, shared, optimistic, local, bypass and reject.
func (m *Mode) UnmarshalText(b []byte) error { return unmarshal(modeWords, "mode", b, m) }
