package servers

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// sweep waits until nobody holds the other end of its standard input, then removes a
// folder. A server that is just being killed may still write into it, hence the second
// and third try.
const sweep = `cat >/dev/null; for i in 1 2 3 4 5; do rm -rf -- "$1" && [ ! -e "$1" ] && exit; sleep 0.1; done`

// folder is a server's own folder, removed even when this process is killed and no test
// code runs any more: a small shell beside us sees our end of its pipe close.
type folder struct {
	path  string
	hold  io.Closer // the pipe's end
	sweep *exec.Cmd
}

// newFolder makes a folder that owner, nil for this process's user, can use.
func newFolder(tb testing.TB, name string, owner *syscall.Credential) *folder {
	tb.Helper()
	base := ""
	if owner != nil && !open(os.TempDir()) {
		base = "/tmp" // TMPDIR lies below a folder that only its own user can enter
	}
	path, err := os.MkdirTemp(base, "tierlock-"+name+"-")
	if err == nil && owner != nil {
		err = os.Chown(path, int(owner.Uid), int(owner.Gid))
	}
	if err != nil {
		tb.Fatalf("folder: %v", err)
	}
	cmd := exec.Command("/bin/sh", "-c", sweep, "sweep", path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal is not for it
	hold, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_ = os.RemoveAll(path)
		tb.Fatalf("folder: %v", err)
	}
	return &folder{path, hold, cmd}
}

// remove lets the sweeper do its work and waits for it.
func (f *folder) remove() {
	_ = f.hold.Close()
	_ = f.sweep.Wait()
}

// open says whether every user can enter path.
func open(path string) bool {
	for ; ; path = filepath.Dir(path) {
		if info, err := os.Stat(path); err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
	}
}
