package redisstore

import (
	"context"
	"slices"
	"time"
)

// watch makes sure that somebody looks at t at the latest. One timer serves all riders: a
// timer for each would cost more than the rest of its way, and almost none ever fires.
// b.mu is held.
func (b *batcher) watch(t time.Time) {
	if b.closed || !b.wake.IsZero() && !t.Before(b.wake) {
		return
	}
	switch {
	case b.timer == nil:
		b.timer = time.AfterFunc(time.Until(t), b.look)
		b.running.Add(1)
	case b.wake.IsZero():
		b.timer.Reset(time.Until(t))
		b.running.Add(1)
	case b.timer.Stop():
		b.timer.Reset(time.Until(t))
	default:
		return // it has fired, and look waits for mu
	}
	b.wake = t
}

// look answers the riders whose deadline has come, and lets one more connection help when
// the line has stood still.
func (b *batcher) look() {
	var late []*rider
	now := time.Now()
	b.mu.Lock()
	next := time.Time{}
	wait := func(r *rider) bool {
		if !r.deadline.After(now) && b.leave(r, context.DeadlineExceeded) {
			late = append(late, r)
		}
		if r.state == left {
			return false
		}
		if next.IsZero() || r.deadline.Before(next) {
			next = r.deadline
		}
		return true
	}
	for _, t := range b.loaded {
		for _, r := range t.riders {
			wait(r)
		}
	}
	b.line = slices.DeleteFunc(b.line[b.first:], func(r *rider) bool { return !wait(r) })
	b.first = 0
	if len(b.line) > 0 {
		if now.Sub(b.moved) >= stall {
			b.moved = now
			b.callHelp(now)
		}
		next = earlier(next, now.Add(stall))
	}
	b.wake = time.Time{}
	if !next.IsZero() {
		b.watch(next)
	}
	b.mu.Unlock()
	tell(late)
	b.running.Done()
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
