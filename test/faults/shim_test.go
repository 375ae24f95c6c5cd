package faults

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
)

const shimEnv = servers.ShimEnv

// shim is a page that bends the clock and the disk of the processes that read it.
type shim struct {
	*testing.T
	*servers.Shim
}

// underShim has every server that is started from now on, until over, obey the shim. The
// test runs alone: what is preloaded is told in this process's environment.
func underShim(t *testing.T) *shim {
	t.Helper()
	s := newShim(t)
	t.Setenv(shimEnv, s.Page())
	t.Setenv("LD_PRELOAD", s.Library())
	return s
}

// newShim is the page alone, for processes that are told its name.
func newShim(t *testing.T) *shim {
	t.Helper()
	return &shim{t, servers.NewShim(t)}
}

// over lets servers be started without the shim again.
func (s *shim) over() { s.Setenv("LD_PRELOAD", "") }

// tell sets what is added to the wall clock, and to each fdatasync.
func (s *shim) tell(clock, disk time.Duration) { s.Tell(clock, disk) }
