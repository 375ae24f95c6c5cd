package powerfs

import (
	"io"
	"io/fs"
	"syscall"
)

// file is an open file. It dies with the boot it was opened in.
type file struct {
	d    *FS
	f    *inode
	boot uint64
}

func (h *file) dead() error {
	if h.boot != h.d.boot || h.d.off {
		return ErrPower
	}
	return nil
}

func (h *file) ReadAt(b []byte, at int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.dead(); err != nil {
		return 0, err
	}
	if at >= int64(len(h.f.now)) {
		return 0, io.EOF
	}
	n := copy(b, h.f.now[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes as much as the disk has room for.
func (h *file) WriteAt(b []byte, at int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.dead(); err != nil {
		return 0, err
	}
	if err := h.d.mutate(); err != nil {
		return 0, err
	}
	if err := h.d.fails("write", &h.d.writes); err != nil {
		h.f.write(b[:len(b)/2], at) // an error does not mean that nothing was written
		return len(b) / 2, err
	}
	room := len(b)
	if grow := at + int64(len(b)) - int64(len(h.f.now)); h.d.capacity > 0 && grow > 0 {
		room = int(max(0, int64(len(b))-max(0, h.d.used()+grow-h.d.capacity)))
	}
	h.f.write(b[:room], at)
	if room < len(b) {
		return room, &fs.PathError{Op: "write", Err: syscall.ENOSPC}
	}
	return room, nil
}

func (d *FS) used() (n int64) {
	for _, f := range d.names {
		n += int64(len(f.now))
	}
	return n
}

func (f *inode) write(b []byte, at int64) {
	if len(b) == 0 {
		return
	}
	if end := int(at) + len(b); end > len(f.now) {
		f.now = append(f.now, make([]byte, end-len(f.now))...)
	}
	copy(f.now[at:], b)
	for p := int(at) / page; p*page < int(at)+len(b); p++ {
		f.dirty[p] = true
	}
}

func (h *file) Close() error { return nil }

func (h *file) Size() (int64, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return int64(len(h.f.now)), h.dead()
}

// Truncate changes the size; like a write it is lost without a sync.
func (h *file) Truncate(size int64) error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.dead(); err != nil {
		return err
	}
	if err := h.d.mutate(); err != nil {
		return err
	}
	if int(size) < len(h.f.now) {
		h.f.now = h.f.now[:size:size]
	}
	return nil
}

func (h *file) Sync() error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.dead(); err != nil {
		return err
	}
	if err := h.d.mutate(); err != nil {
		return err
	}
	if err := h.d.fails("sync", &h.d.syncs); err != nil {
		clear(h.f.dirty) // and not on the disk: the next Sync will find nothing to do
		return err
	}
	h.f.sync()
	return nil
}
