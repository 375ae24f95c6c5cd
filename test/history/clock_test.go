package history

import (
	"context"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// clock reads CLOCK_MONOTONIC, which all processes of a machine share. A time.Time carries
// the same clock from another zero: one look at both, and either can be told in the other.
type clock struct {
	zero time.Time
	raw  int64 // CLOCK_MONOTONIC at zero
}

func newClock() clock {
	const monotonic = 1 // CLOCK_MONOTONIC of Linux
	var ts syscall.Timespec
	zero := time.Now()
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic(errno)
	}
	return clock{zero, ts.Nano()}
}

func (c clock) now() int64 { return c.raw + int64(time.Since(c.zero)) }

// at tells t, which carries a monotonic reading.
func (c clock) at(t time.Time) int64 { return c.raw + int64(t.Sub(c.zero)) }

// stalls are the times at which this process did not get to run: a goroutine that wants to
// wake every two milliseconds and could not. A machine with more to do than it can is no
// fault of whoever answers late on it.
type stalls struct {
	mu   sync.Mutex
	all  [][2]int64 // guarded by mu
	last int64      // when the watching goroutine last ran; guarded by mu
}

const stallStep = 2 * time.Millisecond

func (s *stalls) watch(ctx context.Context, c clock) {
	tick := time.NewTicker(stallStep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		now := c.now()
		if s.last != 0 && now-s.last > int64(2*stallStep) {
			s.all = append(s.all, [2]int64{s.last + int64(stallStep), now})
		}
		s.last = now
		s.mu.Unlock()
	}
}

// between sums up the stalls from one time to another.
func (s *stalls) between(from, to int64) (sum int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stall := range s.all {
		sum += max(0, min(to, stall[1])-max(from, stall[0]))
	}
	if s.last != 0 && to-s.last > int64(2*stallStep) { // one that has not ended
		sum += max(0, to-max(from, s.last+int64(stallStep)))
	}
	return sum
}
