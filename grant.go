package tierlock

import "time"

// Token is a fencing token: per key it strictly rises from shared grant to shared grant,
// while the store keeps its fence record. The protected resource raises its mark to the
// holder's token before the holder's first read and refuses lower ones. Only shared
// grants carry one; zero means none. Tokens start from server microseconds, so they stay
// below 2^53, and exact as JSON numbers, until the year 2255.
type Token uint64

// Grant is the truth about one lock in hand: a value, safe to copy, log and compare. It
// never changes; a renewal makes a new one.
type Grant struct {
	Chain     string
	Key       Key
	RequestID RequestID
	Tier      Tier
	Scope     Scope
	// Exclusive is true when nobody else inside Scope may hold the key until ExpiresAt.
	Exclusive bool
	// Token is zero on any tier but shared, and on chains without fencing.
	Token Token
	// AcquiredAt is when the grant was in this process's hands, wall and monotonic.
	AcquiredAt time.Time
	// ExpiresAt is when the holder must have stopped; drift and margin are already taken
	// off what the store promised. It carries the monotonic reading.
	ExpiresAt time.Time
	// Store is the name of what granted: "redis", "local", "bypass".
	Store string
	// Replayed is true when the same request had been granted before: remaining time and
	// the first token come back, nothing is extended.
	Replayed bool
}
