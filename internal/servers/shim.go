package servers

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// ShimEnv names the page that a process under a [Shim] reads.
const ShimEnv = "TIERLOCK_SHIM"

//go:embed testdata/shim.c
var shimSource []byte

// Shim bends the wall clock and the disk of the processes that read its page.
type Shim struct {
	tb   testing.TB
	page *os.File
}

// NewShim makes a page that bends nothing yet.
func NewShim(tb testing.TB) *Shim {
	tb.Helper()
	page, err := os.Create(filepath.Join(tb.TempDir(), "told"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = page.Close() })
	s := &Shim{tb, page}
	s.Tell(0, 0)
	return s
}

// Page is the name of the file in which a process finds what it is told.
func (s *Shim) Page() string { return s.page.Name() }

// Tell sets what is added to the wall clock, and to each fdatasync.
func (s *Shim) Tell(clock, disk time.Duration) {
	s.tb.Helper()
	var page [16]byte
	binary.NativeEndian.PutUint64(page[:8], uint64(clock.Microseconds()))
	binary.NativeEndian.PutUint64(page[8:], uint64(disk.Microseconds()))
	if _, err := s.page.WriteAt(page[:], 0); err != nil {
		s.tb.Fatal(err)
	}
}

// Library compiles what a process that is no Go program has to preload, and names its file.
func (s *Shim) Library() string {
	s.tb.Helper()
	dir := s.tb.TempDir()
	source, lib := filepath.Join(dir, "shim.c"), filepath.Join(dir, "shim.so")
	if err := os.WriteFile(source, shimSource, 0o600); err != nil {
		s.tb.Fatal(err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O2", "-o", lib, source).CombinedOutput(); err != nil {
		s.tb.Fatalf("cc: %v\n%s", err, out)
	}
	return lib
}

// Redis is [Redis] under the shim, and nothing else is: other tests may run beside.
func (s *Shim) Redis(args ...string) *RedisServer {
	s.tb.Helper()
	Need(s.tb, "redis-server")
	return redis(s.tb, nil, args, ShimEnv+"="+s.Page(), "LD_PRELOAD="+s.Library())
}
