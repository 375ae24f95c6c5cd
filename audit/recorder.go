package audit

import (
	"context"
	"errors"

	"github.com/tierlock/tierlock/audit/spool"
)

// The errors of a [Recorder], for errors.Is. Any other error of Record is the caller's
// ctx, or an [*tierlock.InvalidError] of an event that can never be written.
var (
	ErrFull     = spool.ErrFull   // no room: the quota is used up or the disk is full
	ErrFailed   = spool.ErrFailed // the disk refuses to write; a person must look
	ErrClosed   = spool.ErrClosed
	ErrLocked   = spool.ErrLocked // another process has the folder
	ErrNoRecord = errors.New("audit: nothing is recorded here")
)

// Recorder is where events go. [Log], [Discard] and the gateway's test kit implement it.
// All methods may be called at once from any goroutine; both copy ev before they return.
type Recorder interface {
	// Record returns nil once ev is durable. With an error the grant that ev speaks of
	// must not be given out: the event may still become durable (the caller's ctx ended
	// first), and is then closed by an end event of its own.
	Record(ctx context.Context, ev *Event) error
	// Note takes ev without waiting for anything. What finds no room is counted and
	// leaves a gap event: it is missed, but never silently.
	Note(ev *Event)
}

// Discard records nothing and says so: with it a chain cannot bypass.
var Discard Recorder = discard{}

type discard struct{}

func (discard) Record(context.Context, *Event) error { return ErrNoRecord }
func (discard) Note(*Event)                          {}
