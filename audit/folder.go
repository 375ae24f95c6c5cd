package audit

import (
	"fmt"
	"path/filepath"

	"github.com/tierlock/tierlock/audit/spool"
)

// Folder is what the folder of a [Log] tells somebody who does not open it.
type Folder struct {
	Dir      string
	Producer string // who wrote its last events; empty: nothing tells
	Epoch    uint64 // the last that has an event; zero: none has
	First    uint64 // first seq that is kept
	Last     uint64 // last seq
	Sent     uint64 // last seq that is safe in the sink
	Sealed   bool   // the last event is the seal of its own process
	InUse    bool   // a process has it open
	Bytes    int64
	Torn     int64 // bytes behind the last whole batch; they mean nothing while InUse
	// Cursor is why the file with Sent cannot be read, nil otherwise. Everything is sent
	// again then.
	Cursor error
}

// Inspect looks at dir and changes nothing; disk nil is the operating system's. A folder
// without a segment is an error that matches [spool.ErrNoSpool].
func Inspect(disk spool.FS, dir string) (Folder, error) {
	if disk == nil {
		disk = spool.OS{}
	}
	f, err := spool.Look(disk, dir)
	if err != nil {
		return Folder{}, fmt.Errorf("audit: %w", err)
	}
	cur, cursorErr := loadCursor(disk, dir)
	former := f.Former()
	return Folder{
		Dir: dir, Producer: former.Label, Epoch: former.Epoch, First: f.First(), Last: former.Last,
		Sent: max(cur.Next, 1) - 1, Sealed: cleanlySealed(former.Record), InUse: f.InUse(),
		Bytes: f.Bytes(), Torn: former.Torn, Cursor: cursorErr,
	}, nil
}

// Backlog is how many events are in the folder and not in the sink.
func (f Folder) Backlog() uint64 { return f.Last - min(f.Sent, f.Last) }

// Settled tells whether nothing is left to do for whoever adopts the folder.
func (f Folder) Settled() bool { return f.Epoch == 0 || f.Sealed && f.Torn == 0 && f.Backlog() == 0 }

// Repair is [spool.Repair], and sets a cursor aside that cannot be read: everything in the
// folder is sent again then.
func Repair(disk spool.FS, dir string) ([]spool.Mended, error) {
	if disk == nil {
		disk = spool.OS{}
	}
	done, err := spool.Repair(disk, dir)
	if err != nil {
		return done, fmt.Errorf("audit: %w", err)
	}
	if _, err := loadCursor(disk, dir); err == nil {
		return done, nil
	}
	name := filepath.Join(dir, cursorName)
	err = disk.Rename(name, name+".damaged")
	if err == nil {
		err = disk.SyncDir(dir)
	}
	if err != nil {
		return done, fmt.Errorf("audit: set the cursor aside: %w", err)
	}
	return append(done, spool.Mended{Segment: cursorName, Kept: cursorName + ".damaged"}), nil
}
