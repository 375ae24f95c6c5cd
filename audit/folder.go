package audit

import (
	"fmt"
	"path/filepath"
	"slices"

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
	// Unsure is why InUse, false here, cannot be told: the folder may be in use all the same.
	// Nil otherwise.
	Unsure error
	// Missing are the seqs of segments that are not there, though the sink does not have
	// them. The next start declares them as a gap where others stand in front of them.
	Missing []spool.Span
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
	missing, err := missing(disk, f, cur, cursorErr)
	if err != nil {
		return Folder{}, fmt.Errorf("audit: %w", err)
	}
	former := f.Former()
	return Folder{
		Dir: dir, Producer: former.Label, Epoch: former.Epoch, First: f.First(), Last: former.Last,
		Sent: max(cur.Next, 1) - 1, Sealed: cleanlySealed(former.Record), InUse: f.InUse(),
		Bytes: f.Bytes(), Torn: former.Torn, Cursor: cursorErr, Unsure: f.Unsure(), Missing: missing,
	}, nil
}

// missing is what f lacks above the cursor, in front of its segments and between them.
func missing(disk spool.FS, f *spool.Folder, cur cursor, cursorErr error) ([]spool.Span, error) {
	var all []spool.Span
	if known, err := cursorTells(disk, f, cur, cursorErr); err != nil {
		return nil, err
	} else if next := max(cur.Next, 1); known && next < f.First() {
		all = append(all, spool.Span{From: next, To: f.First() - 1})
	}
	between, err := f.Missing()
	for _, m := range between {
		if m.To >= cur.Next {
			all = append(all, m)
		}
	}
	return all, err
}

// cursorTells whether what stands in front of the first segment was sent: files are removed
// only after the cursor says so. One that was set aside tells nothing.
func cursorTells(disk spool.FS, f *spool.Folder, cur cursor, cursorErr error) (bool, error) {
	switch {
	case cursorErr != nil:
		return false, nil //nolint:nilerr // a cursor that cannot be read is told by itself
	case cur.Next > 0:
		return true, nil
	}
	names, err := disk.ReadDir(f.Dir())
	return !slices.Contains(names, cursorName+cursorDamaged), err
}

// Backlog is how many events are in the folder and not in the sink.
func (f Folder) Backlog() uint64 { return f.Last - min(f.Sent, f.Last) }

// Settled tells whether nothing is left to do for whoever adopts the folder.
func (f Folder) Settled() bool { return f.Epoch == 0 || f.Sealed && f.Torn == 0 && f.Backlog() == 0 }

const cursorDamaged = ".damaged" // behind the name of a cursor that was set aside

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
	err = disk.Rename(name, name+cursorDamaged)
	if err == nil {
		err = disk.SyncDir(dir)
	}
	if err != nil {
		return done, fmt.Errorf("audit: set the cursor aside: %w", err)
	}
	return append(done, spool.Mended{Segment: cursorName, Kept: cursorName + cursorDamaged}), nil
}
