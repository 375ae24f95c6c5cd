package spool

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// OS is the operating system's file system. Folders it makes have mode 0700 and files
// 0600: events tell who bought what.
type OS struct{}

var _ FS = OS{}

const (
	dirMode  = 0o700
	fileMode = 0o600
)

// MkdirAll implements [FS].
func (o OS) MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := o.MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return o.SyncDir(parent)
}

// Create implements [FS].
func (OS) Create(name string) (File, error) {
	return open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

// Open implements [FS].
func (OS) Open(name string) (File, error) { return open(name, os.O_RDWR) }

// View implements [FS].
func (OS) View(name string) (File, error) { return open(name, os.O_RDONLY) }

func open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, fileMode)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Rename implements [FS].
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements [FS].
func (OS) Remove(name string) error { return os.Remove(name) }

// ReadDir implements [FS].
func (OS) ReadDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// SyncDir implements [FS].
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Lock implements [FS] by flock on a file of its own, which the system frees when the
// process ends, however it ends. Where there is no flock it is errors.ErrUnsupported.
func (OS) Lock(dir string) (io.Closer, error) { return flock(dir) }

// Held implements [FS]. A folder that has no lock file was never locked.
func (OS) Held(dir string) (bool, error) { return flocked(dir) }

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
