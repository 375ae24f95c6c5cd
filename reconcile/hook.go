package reconcile

import (
	"context"
	"errors"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// Case is one losing hold of a finding, put to a hook.
type Case struct {
	// ID is the repair's idempotency key, a hash of business type, business id, action and
	// losing hold. It stays the same however holds are grouped and however often the
	// stream is read again.
	ID       string
	Action   string
	Finding  Finding
	Loser    Interval
	Business audit.Business // of the loser
	Grant    tierlock.Grant // of the repair's own lock; zero during a check. Its Token guards the write
	// Most is how much may be wrong for the repair to be allowed, by [Consent.Over], by what
	// people have said yes to and by what the [Caps] leave; zero: no bound. A [Repairer] that checks again finds more and
	// leaves it with [ErrMore].
	Most int64
}

// ErrMore says that more is wrong than [Case.Most]: nothing was done, and people are asked.
var ErrMore = errors.New("reconcile: more is wrong than was allowed")

// Hook checks and repairs one business type.
type Hook struct {
	// Action names the repair in its key, "give_back"; default "repair". A new action may
	// repair again what an older one has repaired.
	Action string
	Check  Checker
	Repair Repairer // nil: only checked
	// Consent says what is repaired by itself and what waits for people.
	Consent Consent
}

// Checker asks the business whether something is wrong now. It changes nothing. A call that
// takes longer than [Config.HookTimeout] is a failed try: its ctx ends then, and a function that
// does not heed it goes on beside the job, with no other call of its business type, but with
// no lock any more. So it is with a [Repairer].
type Checker interface {
	// Check returns how much is wrong: zero is nothing.
	Check(ctx context.Context, c Case) (wrong int64, err error)
}

// Repairer makes right what is wrong now. It runs under the shared lock of the finding's
// key and under ctx, which ends when that lock can no longer be relied on. It must check
// again itself, in the transaction that repairs, and do nothing for a Case.ID that it has
// applied before.
type Repairer interface {
	Repair(ctx context.Context, c Case) (Result, error)
}

// Rememberer is a [Repairer] that can tell whether it has applied a case before, so that a
// finding which is repaired already is told from one that never was wrong.
type Rememberer interface {
	Applied(ctx context.Context, c Case) (bool, error)
}

// Result is what became of a repair.
type Result string

// The results.
const (
	ResultClean   Result = "clean"   // nothing was wrong
	ResultWould   Result = "would"   // dry run: something is wrong
	ResultApplied Result = "applied" // repaired now
	ResultAlready Result = "already" // had been repaired under this key before
	ResultFailed  Result = "failed"

	// ResultUnchanged: something is wrong, and the repair had nothing to change: as much is wrong
	// as before, and its key is free. The claim of another holder, say, which this repair does not
	// touch; or statements that match no row.
	ResultUnchanged Result = "unchanged"

	ResultWaiting  Result = "waiting"  // for people's approval
	ResultRejected Result = "rejected" // somebody has said no
)

// CheckFunc is a Go function as a [Checker].
type CheckFunc func(ctx context.Context, c Case) (wrong int64, err error)

// Check implements [Checker].
func (f CheckFunc) Check(ctx context.Context, c Case) (int64, error) { return f(ctx, c) }

// RepairFunc is a Go function as a [Repairer].
type RepairFunc func(ctx context.Context, c Case) (Result, error)

// Repair implements [Repairer].
func (f RepairFunc) Repair(ctx context.Context, c Case) (Result, error) { return f(ctx, c) }

// Locker runs fn under the real, shared lock of key, or fails; fn's ctx ends when the lock
// can no longer be relied on. The gateway has it. A lock of any lower tier is an error.
type Locker interface {
	DoShared(ctx context.Context, key tierlock.Key, fn func(ctx context.Context, g tierlock.Grant) error) error
}
