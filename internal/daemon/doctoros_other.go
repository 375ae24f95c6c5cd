//go:build !linux

package daemon

import "errors"

// Elsewhere a daemon is run to try it: what a folder lies on and what limits hold are not
// looked at.
func mountOf(string) (mount, error) { return mount{}, errors.New("only Linux is asked") }

func freeBytes(string) (int64, bool) { return 0, false }

func fileLimit() (uint64, bool) { return 0, false }
