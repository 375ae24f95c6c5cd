package redisstore

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
)

// Wait returns nil once another Acquire is worth while: the server told that it is this
// request's turn, the holder's time is over, the subscription was made anew, or a fifth of
// a second has gone by, jittered; without a subscription a tenth. It returns ctx's error when ctx ends, at its deadline
// even if Done does not fire then. Only a request that was asked with WaitTill has a place
// in the server's line.
//
// Who was told at the very moment in which its caller left passes the word on.
func (s *Store) Wait(ctx context.Context, hold tierlock.Hold, held tierlock.Answer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	pause := retryEvery
	var box *inbox
	var awake <-chan struct{} // nil, and silent, where no server is known
	if to, err := s.servers.place(till{ctx}, hold.Key); err == nil {
		box, pause = to.node.inbox, to.node.inbox.pause()
		sleeper := box.join(hold.Key, hold.ID.Fingerprint())
		if sleeper == nil {
			return nil
		}
		defer box.leave(hold.Key, sleeper)
		awake = sleeper.awake
	}
	pause = jitter(pause)
	if held.Remaining > 0 {
		pause = min(pause, held.Remaining+jitter(afterEnd))
	}
	var atEnd error
	if end, ok := ctx.Deadline(); ok && time.Until(end) < pause {
		pause, atEnd = time.Until(end), context.DeadlineExceeded
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	var err error
	select {
	case <-awake:
		return nil
	case <-timer.C:
		err = atEnd
	case <-ctx.Done():
		err = ctx.Err()
	}
	select {
	case <-awake:
		if err != nil {
			box.passOn(hold.Key)
		}
	default:
	}
	return err
}
