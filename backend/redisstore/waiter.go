package redisstore

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
)

// Wait returns nil once another Acquire is worth while: the server told that it is this
// request's turn, the holder's time is over, the subscription was made anew, or a tenth of
// a second has gone by, jittered. It returns ctx's error when ctx ends, at its deadline
// even if Done does not fire then. Only a request that was asked with WaitTill has a place
// in the server's line.
func (s *Store) Wait(ctx context.Context, hold tierlock.Hold, held tierlock.Answer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	pause := jitter(retryEvery)
	if held.Remaining > 0 {
		pause = min(pause, held.Remaining+jitter(afterEnd))
	}
	var atEnd error
	if end, ok := ctx.Deadline(); ok && time.Until(end) < pause {
		pause, atEnd = time.Until(end), context.DeadlineExceeded
	}
	var awake <-chan struct{} // nil, and silent, where no server is known
	if to, err := s.servers.place(ctx, hold.Key); err == nil {
		box := to.node.inbox
		sleeper := box.join(hold.Key, hold.ID.Fingerprint())
		if sleeper == nil {
			return nil
		}
		defer box.leave(hold.Key, sleeper)
		awake = sleeper.awake
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-awake:
		return nil
	case <-timer.C:
		return atEnd
	case <-ctx.Done():
		return ctx.Err()
	}
}
