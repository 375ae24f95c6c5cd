// Package powerfs BREAKS a disk on purpose: an in-memory [spool.FS] that forgets, when the
// power goes, whatever was not synced: any subset of the written pages, of a file's
// growth, of created, renamed and removed names. It also fails the Nth write or fsync and
// runs full. It is for tests only.
package powerfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tierlock/tierlock/audit/spool"
)

// page is the granularity at which unsynced writes survive or do not.
const page = 512

// ErrPower is what every call returns while the power is off, and every call on a file
// that was opened before.
var ErrPower = errors.New("powerfs: the power is off")

// FS is a disk. The zero FS is not ready; use [New].
type FS struct {
	mu      sync.Mutex
	names   map[string]*inode // as the running system sees them
	safe    map[string]*inode // as they lie on the disk
	pending []op              // changes of names that no SyncDir covered
	locks   map[string]uint64
	boot    uint64 // files of an earlier boot are dead

	left     int // mutating calls until the power goes; negative: never
	off      bool
	writes   int // WriteAt calls so far
	syncs    int // Sync and SyncDir calls so far
	capacity int64
	failing  func(call string, n int) error
}

// New returns an empty disk.
func New() *FS {
	return &FS{names: map[string]*inode{}, safe: map[string]*inode{}, locks: map[string]uint64{}, left: -1}
}

// op is one change of the names: from is removed, to is made to name the inode.
type op struct {
	from, to string
	inode    *inode
}

func (o op) apply(names map[string]*inode) {
	if o.from != "" {
		delete(names, o.from)
	}
	if o.to != "" {
		names[o.to] = o.inode
	}
}

// inode is one file's content: now, on the disk, and which pages differ.
type inode struct {
	now, safe []byte
	dirty     map[int]bool
}

// CutAfter turns the power off at the nth mutating call from now: that call and all
// later ones do nothing. It stays off until [FS.Crash] or [FS.Kill].
func (d *FS) CutAfter(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = n
}

// Limit makes the disk hold at most n bytes; zero: any.
func (d *FS) Limit(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = n
}

// Failing lets fail decide the fate of the nth "write" or "sync", counted from 1. After a
// failed fsync the pages count as clean and are not on the disk, as the kernel does it.
func (d *FS) Failing(fail func(call string, n int) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing, d.writes, d.syncs = fail, 0, 0
}

// Crash is a power loss and the boot after it: each unsynced page, growth and name
// survives or not, as the seed says. How many survive differs from seed to seed, and all
// and none are among them.
func (d *FS) Crash(seed uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rng := rand.New(rand.NewPCG(seed, 1))
	keep := []float64{0, 0.2, 0.5, 0.8, 1}[rng.IntN(5)]
	survives := func() bool { return rng.Float64() < keep }
	for _, o := range d.pending {
		if survives() {
			o.apply(d.safe)
		}
	}
	d.pending = nil
	d.names = maps.Clone(d.safe)
	done := map[*inode]bool{}
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		if f := d.names[name]; !done[f] {
			done[f] = true
			f.crash(survives)
		}
	}
	d.reboot()
}

// Kill ends the process and leaves the system running: nothing is lost.
func (d *FS) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reboot()
}

func (d *FS) reboot() {
	d.boot++
	d.off, d.left = false, -1
	clear(d.locks)
}

// Files returns the content of every file, by name.
func (d *FS) Files() map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string][]byte{}
	for name, f := range d.names {
		all[name] = slices.Clone(f.now)
	}
	return all
}

// Put replaces a file's content, durably: damage, as a failing disk does it.
func (d *FS) Put(name string, content []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := &inode{now: slices.Clone(content), safe: slices.Clone(content), dirty: map[int]bool{}}
	d.names[name], d.safe[name] = f, f
}

// crash leaves what was synced and those dirty pages that survive. The size is that of
// the disk, or reaches as far as the growth that survives; holes are zeroes.
func (f *inode) crash(survives func() bool) {
	grown := len(f.safe)
	if len(f.now) != len(f.safe) && survives() {
		grown = len(f.now)
	}
	next := make([]byte, grown)
	copy(next, f.safe)
	for _, p := range slices.Sorted(maps.Keys(f.dirty)) {
		if lo, hi := p*page, min((p+1)*page, len(f.now), grown); lo < hi && survives() {
			copy(next[lo:hi], f.now[lo:hi])
		}
	}
	f.now, f.safe = next, slices.Clone(next)
	clear(f.dirty)
}

// sync puts the dirty pages and the size on the disk.
func (f *inode) sync() {
	next := make([]byte, len(f.now))
	copy(next, f.safe)
	for p := range f.dirty {
		if lo, hi := p*page, min((p+1)*page, len(f.now)); lo < hi {
			copy(next[lo:hi], f.now[lo:hi])
		}
	}
	f.safe = next
	clear(f.dirty)
}

// mutate counts a mutating call and refuses it when the power is off.
func (d *FS) mutate() error {
	if d.left == 0 {
		d.off = true
	}
	if d.off {
		return ErrPower
	}
	if d.left > 0 {
		d.left--
	}
	return nil
}

func (d *FS) fails(call string, n *int) error {
	*n++
	if d.failing == nil {
		return nil
	}
	return d.failing(call, *n)
}

func (d *FS) change(o op) {
	o.apply(d.names)
	d.pending = append(d.pending, o)
}

// MkdirAll implements [spool.FS]; folders need no making.
func (d *FS) MkdirAll(string) error { return nil }

// Create implements [spool.FS].
func (d *FS) Create(name string) (spool.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mutate(); err != nil {
		return nil, err
	}
	f := &inode{dirty: map[int]bool{}}
	d.change(op{to: name, inode: f})
	return &file{d: d, f: f, boot: d.boot}, nil
}

// Open implements [spool.FS].
func (d *FS) Open(name string) (spool.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return nil, ErrPower
	}
	f, ok := d.names[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &file{d: d, f: f, boot: d.boot}, nil
}

// View implements [spool.FS].
func (d *FS) View(name string) (spool.File, error) { return d.Open(name) }

// Rename implements [spool.FS].
func (d *FS) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mutate(); err != nil {
		return err
	}
	f, ok := d.names[from]
	if !ok {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	d.change(op{from: from, to: to, inode: f})
	return nil
}

// Remove implements [spool.FS].
func (d *FS) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mutate(); err != nil {
		return err
	}
	if _, ok := d.names[name]; !ok {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	d.change(op{from: name})
	return nil
}

// ReadDir implements [spool.FS].
func (d *FS) ReadDir(dir string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return nil, ErrPower
	}
	var names []string
	for name := range d.names {
		if filepath.Dir(name) == filepath.Clean(dir) {
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

// SyncDir implements [spool.FS].
func (d *FS) SyncDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mutate(); err != nil {
		return err
	}
	if err := d.fails("sync", &d.syncs); err != nil {
		return err
	}
	for _, o := range d.pending {
		o.apply(d.safe)
	}
	d.pending = nil
	return nil
}

// Lock implements [spool.FS].
func (d *FS) Lock(dir string) (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, taken := d.locks[dir]; taken {
		return nil, spool.ErrLocked
	}
	d.locks[dir] = d.boot
	return unlock{d, dir, d.boot}, nil
}

// Held implements [spool.FS].
func (d *FS) Held(dir string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, taken := d.locks[dir]
	return taken, nil
}

type unlock struct {
	d    *FS
	dir  string
	boot uint64
}

func (u unlock) Close() error {
	u.d.mu.Lock()
	defer u.d.mu.Unlock()
	if u.d.locks[u.dir] == u.boot {
		delete(u.d.locks, u.dir)
	}
	return nil
}
