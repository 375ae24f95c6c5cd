package spool

import "errors"

// The errors of a spool, for errors.Is.
var (
	ErrFull   = errors.New("spool: full")
	ErrFailed = errors.New("spool: the disk refuses to write")
	ErrClosed = errors.New("spool: closed")
	ErrLocked = errors.New("spool: folder is in use by another process")
)
