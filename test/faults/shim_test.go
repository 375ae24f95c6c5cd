package faults

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const shimEnv = "TIERLOCK_SHIM"

// shim is a page that bends the clock and the disk of the processes that read it.
type shim struct {
	*testing.T
	file *os.File
}

// underShim has every server that is started from now on, until over, obey the shim. The
// test runs alone: what is preloaded is told in this process's environment.
func underShim(t *testing.T) *shim {
	t.Helper()
	dir := t.TempDir()
	lib := filepath.Join(dir, "shim.so")
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O2", "-o", lib, "testdata/shim.c").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	s := newShim(t)
	t.Setenv(shimEnv, s.file.Name())
	t.Setenv("LD_PRELOAD", lib)
	return s
}

// newShim is the page alone, for processes that are told its name.
func newShim(t *testing.T) *shim {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "told"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	s := &shim{t, file}
	s.tell(0, 0)
	return s
}

// over lets servers be started without the shim again.
func (s *shim) over() { s.Setenv("LD_PRELOAD", "") }

// tell sets what is added to the wall clock, and to each fdatasync.
func (s *shim) tell(clock, disk time.Duration) {
	s.Helper()
	var page [16]byte
	binary.NativeEndian.PutUint64(page[:8], uint64(clock.Microseconds()))
	binary.NativeEndian.PutUint64(page[8:], uint64(disk.Microseconds()))
	if _, err := s.file.WriteAt(page[:], 0); err != nil {
		s.Fatal(err)
	}
}
