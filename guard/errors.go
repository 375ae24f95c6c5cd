package guard

import (
	"errors"
	"fmt"

	"github.com/tierlock/tierlock"
)

// ErrStale says that the resource has seen a newer token or another version: the caller's
// lock has passed on, or its read is old. Roll back; do not retry with the same token.
// Where a token was refused the error is a [*StaleError].
var ErrStale = errors.New("guard: stale")

// ErrUnfenced says that a resource which wants a token was given none.
var ErrUnfenced = errors.New("guard: no fencing token")

// ErrRetry says that the database could not let this transaction through together with
// another one: a serialization failure, a deadlock, a lock not had in time, a snapshot
// older than the mark. Nothing is decided about the token. Roll back and begin again with
// the same one, while the lock is held; [Transact] does.
var ErrRetry = errors.New("guard: begin the transaction again")

// StaleError is a refused token. It matches [ErrStale], and [tierlock.ErrLost] too: a
// higher token is out, so the lock of this one has passed on. The gateway's Do ends the
// lock by it, as does its Lock.Refused.
type StaleError struct {
	Key   tierlock.Key
	Token tierlock.Token // of the caller
	Mark  tierlock.Token // the highest that has entered
}

// Error names key and both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("guard: stale: %s: token %d, mark %d", e.Key, e.Token, e.Mark)
}

// Is matches [ErrStale] and [tierlock.ErrLost].
func (e *StaleError) Is(target error) bool { return target == ErrStale || target == tierlock.ErrLost }

// Refused tells which grant was refused: the gateway compares it with its lock's.
func (e *StaleError) Refused() (tierlock.Key, tierlock.Token) { return e.Key, e.Token }

// failed names the operation, and says so when it is one to begin again.
func failed(op string, err error) error {
	if Retryable(err) && !errors.Is(err, ErrRetry) {
		return fmt.Errorf("guard: %s: %w: %w", op, ErrRetry, err)
	}
	return fmt.Errorf("guard: %s: %w", op, err)
}
