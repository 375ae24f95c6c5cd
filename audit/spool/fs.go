package spool

import "io"

// FS is what a spool asks of a file system; [OS] is the real one. Names are whole paths.
// A returned write is durable only after File.Sync; a created, renamed or removed name
// only after SyncDir.
type FS interface {
	// MkdirAll makes dir and what is missing above it, durably.
	MkdirAll(dir string) error
	// Create makes a new file for reading and writing; one that exists is emptied.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// View opens an existing file for reading; no right to write is needed.
	View(name string) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	// ReadDir returns the names in dir, without their folder, sorted.
	ReadDir(dir string) ([]string, error)
	SyncDir(dir string) error
	// Lock takes the folder for this process until the closer is called, or returns an
	// error that matches [ErrLocked] at once.
	Lock(dir string) (io.Closer, error)
	// Held tells whether somebody has the folder locked. It changes nothing; an error says
	// why that cannot be told.
	Held(dir string) (bool, error)
}

// File is an open file. ReadAt may be called while another goroutine writes elsewhere.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Truncate(size int64) error
	Sync() error
}
