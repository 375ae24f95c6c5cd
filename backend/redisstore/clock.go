package redisstore

import (
	"sync"
	"sync/atomic"
	"time"
)

// driftPPM is how fast two clocks may part, in millionths: a quartz runs within 100 of true,
// and there are two of them.
const driftPPM = 200

// clock knows the server's clock as an interval: whatever this process's monotonic clock
// shows, the server's shows between lo and hi more. Each reply that carries a server time
// narrows it, and age widens it. The two never meet when the server's clock was stepped;
// then only the newest reply counts.
type clock struct {
	start time.Time // zero of this process's monotonic time here
	view  atomic.Pointer[view]
	mu    sync.Mutex // guards runID and the writing of view
	runID string
}

// view is the interval as it was at a time.
type view struct {
	at     time.Duration // since start
	lo, hi time.Duration // server's Unix time less the time since start
}

// aged is v as far as it holds at another time: wider by the drift.
func (v view) aged(at time.Duration) view {
	drift := max(0, at-v.at) * driftPPM / 1_000_000
	return view{at, v.lo - drift, v.hi + drift}
}

// learn takes in that the server's clock showed server at some time between sent and
// received, and tells whether that cannot be without a step of the server's clock.
func (c *clock) learn(sent, received, server time.Time) (stepped bool) {
	at, stamp := received.Sub(c.start), time.Duration(server.UnixNano())
	fresh := view{at, stamp - at, stamp - sent.Sub(c.start)}
	if old := c.view.Load(); old != nil {
		aged := old.aged(at)
		if fresh.lo <= aged.lo && fresh.hi >= aged.hi {
			return false // the usual case under load: nothing new, and nothing written
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.view.Load(); old != nil {
		aged := old.aged(at)
		lo, hi := max(fresh.lo, aged.lo), min(fresh.hi, aged.hi)
		stepped = lo > hi
		if !stepped {
			fresh = view{at, lo, hi}
		}
	}
	next := fresh // only what is written costs memory
	c.view.Store(&next)
	return stepped
}

// meet takes in which server answers, and tells whether it is another one than before:
// that one has another clock.
func (c *clock) meet(runID string) (another bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if runID == "" || runID == c.runID {
		return false
	}
	another = c.runID != ""
	if another {
		c.view.Store(nil)
	}
	c.runID = runID
	return another
}

// server is the earliest that the server's clock can show when this process's shows t, in
// Unix microseconds; 0 when nothing is known. Earliest, so that what the server must
// refuse after t it never accepts after t.
func (c *clock) server(t time.Time) int64 {
	v := c.view.Load()
	if v == nil {
		return 0
	}
	at := t.Sub(c.start)
	return (at + v.aged(at).lo).Microseconds()
}

// wallError bounds the distance of this process's wall clock from the server's at now.
func (c *clock) wallError(now time.Time) (time.Duration, bool) {
	v := c.view.Load()
	if v == nil {
		return 0, false
	}
	at := now.Sub(c.start)
	aged := v.aged(at)
	wall := time.Duration(now.UnixNano())
	return max((aged.lo + at - wall).Abs(), (aged.hi + at - wall).Abs()), true
}
