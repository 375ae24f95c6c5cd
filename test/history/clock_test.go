package history

import (
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
