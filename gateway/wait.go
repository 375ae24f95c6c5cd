package gateway

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
)

// Waiting without a store that wakes: 20 ms, doubled with every try up to 100 ms, and
// jittered. That is five tries in the default wait of 300 ms. From the requirements; fewer
// tries are steadier under contention.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// acquireWithin is acquire inside one total wait: try, sleep until another try is worth
// while, try again. A wait of zero is one attempt. Only "held" is worth waiting for; any
// other answer ends the call at once, and a call that was ever answered "held" ends as
// that, whatever came later.
func (c *Chain) acquireWithin(ctx context.Context, r *request) (*Lock, *tierlock.Error) {
	var held *tierlock.Error
	now := r.began
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		l, err := c.acquire(ctx, r, now)
		switch {
		case err == nil:
			return l, nil
		case err.Reason != tierlock.ReasonHeld && held == nil:
			return nil, err
		case err.Reason != tierlock.ReasonHeld:
			held.Err = err.Err // not err: an answer must not match two outcomes
			return nil, held
		}
		held = err
		if r.end.IsZero() || !time.Now().Before(r.end) {
			return nil, held
		}
		if cause := r.sleep(ctx, pause); cause != nil {
			held.Err = cause
			return nil, held
		}
		if now = time.Now(); !now.Before(r.end) {
			return nil, held
		}
	}
}

// sleep waits until another try is worth while: until whoever holds the key tells, or for
// a pause, and not past what the holder has left or the end of the wait. It returns the
// caller's reason to stop.
func (r *request) sleep(ctx context.Context, pause time.Duration) error {
	if r.heldBy != nil {
		until, cancel := context.WithDeadline(ctx, r.end)
		defer cancel()
		_ = r.heldBy.Wait(until, r.hold(r.ttl), r.held)
		return context.Cause(ctx)
	}
	pause = jitter(pause)
	if left := r.held.Remaining; left > 0 {
		pause = min(pause, left+jitter(firstPause/4))
	}
	timer := time.NewTimer(min(pause, time.Until(r.end)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
