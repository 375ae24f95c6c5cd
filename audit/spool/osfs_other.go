//go:build !unix

package spool

import (
	"errors"
	"io"
)

func flock(string) (io.Closer, error) {
	return nil, errors.ErrUnsupported
}

func flocked(string) (bool, error) { return false, errors.ErrUnsupported }
