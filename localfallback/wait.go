package localfallback

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
)

// Wait returns nil once an Acquire of hold's key is worth while: a permit was given back,
// the holder that ends first has ended, or the key is not closed at all. It returns ctx's
// error when ctx ends, at its deadline even if ctx's Done does not fire then.
func (t *Table) Wait(ctx context.Context, hold tierlock.Hold, _ tierlock.Answer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	wake, ends := t.queue(hold.Key)
	if wake == nil {
		return nil
	}
	var atEnd error
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(ends) {
		ends, atEnd = deadline, context.DeadlineExceeded
	}
	timer := time.NewTimer(time.Until(ends))
	defer timer.Stop()
	select {
	case <-wake:
		return nil
	case <-timer.C:
		return atEnd
	case <-ctx.Done():
		return ctx.Err()
	}
}

// queue returns a channel that is closed when a permit of key is given back, and when the
// first holder ends by itself; nil when key would let another in now.
func (t *Table) queue(key tierlock.Key) (wake <-chan struct{}, ends time.Time) {
	t.touch(key, t.clock.now(), func(r *record) {
		if !r.closed(int(t.permits.Load())) {
			return
		}
		if r.wake == nil {
			r.wake = make(chan struct{})
		}
		wake, ends = r.wake, t.clock.time(r.first().until)
	})
	return wake, ends
}
