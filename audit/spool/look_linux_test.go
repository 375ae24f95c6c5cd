package spool_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/tierlock/tierlock/audit/spool"
)

// leftOnDisk is a folder on the real file system as a producer that is gone left it, without
// its lock file.
func leftOnDisk(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "spool")
	s := open(t, spool.Config{Dir: dir})
	for range 3 {
		appendOK(t, s, "record")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// lookThrough looks at everything that a folder tells.
func lookThrough(dir string) (*spool.Folder, error) {
	f, err := spool.Look(spool.OS{}, dir)
	if err != nil {
		return nil, err
	}
	checks, err := f.Check()
	if err == nil && (len(checks) != 1 || checks[0].Records != 3) {
		err = errors.New("not all records are found")
	}
	r := f.Reader(1)
	defer r.Close()
	for n := 0; err == nil; n++ {
		if _, ok, nextErr := r.TryNext(); nextErr != nil || !ok && n < 3 {
			err = errors.Join(errors.New("not all records are read"), nextErr)
		} else if !ok {
			break
		}
	}
	return f, err
}

// onAThread runs do on a thread of its own, which is thrown away with what do made of it.
func onAThread(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- do()
	}()
	return <-done
}

func TestLookMakesNoLockFile(t *testing.T) {
	t.Parallel()
	dir := leftOnDisk(t)
	before, err := (spool.OS{}).ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := lookThrough(dir)
	if err != nil || f.InUse() || f.Unsure() != nil {
		t.Errorf("%+v, %v", f, err)
	}
	if after, err := (spool.OS{}).ReadDir(dir); err != nil || !slices.Equal(before, after) {
		t.Errorf("%v became %v, %v", before, after, err)
	}
}

func TestLookSeesWhoHasTheFolderAndRefusesNobodyWhoLooksToo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, spool.Config{Dir: dir})
	if held, err := (spool.OS{}).Held(dir); err != nil || !held {
		t.Errorf("while it is open: %v, %v", held, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	looking, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer looking.Close()
	if err := syscall.Flock(int(looking.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	if held, err := (spool.OS{}).Held(dir); err != nil || held {
		t.Errorf("while another looks: %v, %v", held, err)
	}
}

func TestLookReadsWhereNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	dir := leftOnDisk(t)
	const noMount = "left out: needs the right to mount"
	err := onAThread(func() error {
		if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
			return syscall.EPERM
		}
		for _, m := range []struct {
			source string
			flags  uintptr
		}{{"none", syscall.MS_REC | syscall.MS_PRIVATE}, {dir, syscall.MS_BIND}, {"none", syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY}} {
			at := dir
			if m.flags&syscall.MS_PRIVATE != 0 {
				at = "/"
			}
			if err := syscall.Mount(m.source, at, "", m.flags, ""); err != nil {
				return syscall.EPERM
			}
		}
		if _, err := (spool.OS{}).Lock(dir); !errors.Is(err, syscall.EROFS) {
			return errors.Join(errors.New("the folder can be written"), err)
		}
		f, err := lookThrough(dir)
		if err == nil && (f.InUse() || f.Unsure() != nil) {
			err = errors.New("in use, by whom?")
		}
		return err
	})
	if errors.Is(err, syscall.EPERM) {
		t.Skip(noMount)
	}
	if err != nil {
		t.Error(err)
	}
}

// Whoever may read the segments and not the lock is told that, and all the rest.
func TestLookSaysThatItCannotTellWhetherTheFolderIsInUse(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("left out: needs root, to be another user")
	}
	dir := leftOnDisk(t)
	err := errors.Join(os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600), os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755), os.Chmod(filepath.Dir(dir), 0o755))
	err = errors.Join(err, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || e.Name() == "lock":
			return err
		case e.IsDir():
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o644)
	}))
	if err != nil {
		t.Fatal(err)
	}
	err = onAThread(func() error {
		const nobody = 65534
		if err := syscall.Setfsuid(nobody); err != nil {
			return err
		}
		f, err := lookThrough(dir)
		if err == nil && (f.InUse() || !errors.Is(f.Unsure(), fs.ErrPermission)) {
			err = errors.Join(errors.New("not told"), f.Unsure())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
