package localfallback

import (
	"time"

	"github.com/maypok86/otter/v2"
)

// coarse is how far the cache's clock may be behind. Only the sweeping of records whose
// holders have ended depends on it; the ends themselves are read off the exact clock.
const coarse = 250 * time.Millisecond

// moment is a time in nanoseconds since the Table was made, by the monotonic clock: a step
// of the wall clock ends no hold and prolongs none. It is half as long to read and a third
// as long to store as a time.Time.
type moment int64

// clock reads moments, and tells them to the cache, whose own clock is coarse since it
// reads it once per operation.
type clock struct {
	start time.Time
	base  int64 // start on the cache's clock, or a little later
	cache *otter.CoarseClock
}

// newClock starts the goroutine that keeps the cache's clock going; stop ends it.
func newClock() clock {
	start := time.Now()
	cache := otter.NewCoarseClock(coarse)
	return clock{start: start, base: cache.NowNano(), cache: cache}
}

func (c clock) stop() { c.cache.Stop() }

func (c clock) now() moment { return moment(time.Since(c.start)) }

// time is m as callers read it, with the monotonic reading.
func (c clock) time(m moment) time.Time { return c.start.Add(time.Duration(m)) }

// after tells whether m is later than t.
func (c clock) after(m moment, t time.Time) bool { return m > moment(t.Sub(c.start)) }

// untilAt is how long it is to m by the cache's clock when that shows at. The cache's clock
// is never ahead of the exact one and base is never too early, so what lasts that long in
// the cache never goes before m.
func (c clock) untilAt(m moment, at int64) time.Duration {
	return time.Duration(c.base + int64(m) - at)
}
