package spool

import (
	"errors"
	"syscall"
)

// The errors of a spool, for errors.Is.
var (
	ErrFull   = errors.New("spool: full")                                              // refused, never written: the quota is used up or the disk is full
	ErrFailed = errors.New("spool: the disk refuses to write (mend it, then restart)") // two files in a row could not be written
	ErrClosed = errors.New("spool: closed")                                            // refused, never written
	ErrTooBig = errors.New("spool: record longer than allowed")                        // refused, never written
	ErrLocked = errors.New("spool: folder is in use by another process (give each its own)")

	// ErrInDoubt matches when the record was on its way: it may still become durable.
	ErrInDoubt = errors.New("spool: record in doubt")
)

// noSpace tells whether err says that the disk is full, which passes by itself, and not
// that it is broken.
func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
