//go:build unix

package daemon

import (
	"os"
	"path/filepath"
	"syscall"
)

// lockBeside waits until nobody else changes a report in the folder of path. The lock is on
// the folder itself, so that it leaves no file, and the system frees it however we end. Where
// the file system has none, as some in networks, changes are not kept apart.
func lockBeside(path string) (unlock func(), err error) {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	for err = syscall.EINTR; err == syscall.EINTR; { //nolint:errorlint // a number as the system gives it
		err = syscall.Flock(int(folder.Fd()), syscall.LOCK_EX)
	}
	return func() { _ = folder.Close() }, nil
}
