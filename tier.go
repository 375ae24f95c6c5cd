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
	ModeAuto Mode = iota + 1
	ModeShared
	ModeOptimistic
	ModeLocal
	ModeBypass
	ModeReject
)

var (
	tierWords  = words{"invalid", "shared", "optimistic", "local", "bypass"}
	scopeWords = words{"invalid", "none", "process", "cluster"}
	modeWords  = words{"invalid", "auto", "shared", "optimistic", "local", "bypass", "reject"}
)

func (t Tier) String() string                { return tierWords.of(int(t)) }
func (t Tier) MarshalText() ([]byte, error)  { return tierWords.marshal("tier", int(t)) }
func (t *Tier) UnmarshalText(b []byte) error { return unmarshal(tierWords, "tier", b, t) }

func (s Scope) String() string                { return scopeWords.of(int(s)) }
func (s Scope) MarshalText() ([]byte, error)  { return scopeWords.marshal("scope", int(s)) }
func (s *Scope) UnmarshalText(b []byte) error { return unmarshal(scopeWords, "scope", b, s) }

func (m Mode) String() string                { return modeWords.of(int(m)) }
func (m Mode) MarshalText() ([]byte, error)  { return modeWords.marshal("mode", int(m)) }
func (m *Mode) UnmarshalText(b []byte) error { return unmarshal(modeWords, "mode", b, m) }
