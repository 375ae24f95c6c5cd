package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Record is what a [Reader] returns: one record, or a range that could not be read back.
type Record struct {
	Epoch uint64
	Label string // of the Open that wrote it; empty where the file's header is damaged
	Seq   uint64
	Data  []byte // valid until the next call; nil when Lost
	// Lost is the first seq of a range up to Seq that is damaged. It is exact: every
	// record outside is intact.
	Lost uint64
}

// Reader reads durable records in order, without holding up writers. It belongs to one
// goroutine.
type Reader struct {
	s    *Spool
	next uint64

	seg   *segment
	file  File
	at    int64  // of the next frame in file
	buf   []byte // of file, from base on
	base  int64
	limit int64  // where seg's data ends
	end   uint64 // last seq that counts in seg: what the next segment repeats is void
}

// Reader begins at from, or at the oldest record there is. Close it.
func (s *Spool) Reader(from uint64) *Reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Reader{s: s, next: max(from, s.segments[0].first, 1)}
}

// Close frees the reader's file.
func (r *Reader) Close() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// Next returns the next record once it is durable. It ends with ctx's error, or with
// [ErrClosed] when the spool is closed and all is read.
func (r *Reader) Next(ctx context.Context) (Record, error) {
	for {
		more, grew := r.s.beyond(r.next)
		if more {
			return r.read()
		}
		if grew == nil {
			return Record{}, ErrClosed
		}
		select {
		case <-grew:
		case <-ctx.Done():
			return Record{}, context.Cause(ctx)
		}
	}
}

// TryNext is Next without waiting; ok is false when there is nothing yet.
func (r *Reader) TryNext() (rec Record, ok bool, err error) {
	if more, _ := r.s.beyond(r.next); !more {
		return Record{}, false, nil
	}
	rec, err = r.read()
	return rec, err == nil, err
}

// beyond tells whether seq is durable; if not, what to wait for, nil when it never comes.
func (s *Spool) beyond(seq uint64) (bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq <= s.durable {
		return true, nil
	}
	select {
	case <-s.stopped:
		return false, nil
	default:
		return false, s.grew
	}
}

// read returns the record r.next, which is durable, or the range from it on that is lost.
func (r *Reader) read() (Record, error) {
	for {
		if r.file == nil || r.next > r.end {
			if err := r.enter(); err != nil {
				return Record{}, err
			}
			if r.next < r.seg.first {
				return r.lost(r.seg.first - 1), nil
			}
		}
		f, ok, err := r.frame()
		if err != nil {
			return Record{}, err
		}
		switch {
		case !ok: // the rest of the segment is unreadable
			return r.lost(r.end), nil
		case f.kind != kindRecord || f.seq < r.next:
			r.at += int64(f.size())
		case f.seq > r.next:
			return r.lost(f.seq - 1), nil
		default:
			r.at += int64(f.size())
			r.next++
			return Record{Epoch: r.seg.epoch, Label: r.seg.label, Seq: f.seq, Data: f.body}, nil
		}
	}
}

// enter opens the segment that holds r.next, or the first one after it.
func (r *Reader) enter() error {
	r.s.mu.Lock()
	list := r.s.segments
	i := 0
	for i+1 < len(list) && list[i+1].first <= r.next {
		i++
	}
	seg, limit, end := list[i], list[i].size, r.s.durable
	if i+1 < len(list) {
		end = list[i+1].first - 1
	}
	r.s.mu.Unlock()
	if seg == r.seg && r.file != nil { // the one being written has grown
		r.limit, r.end = limit, end
		return nil
	}
	r.Close()
	f, err := r.s.cfg.FS.View(seg.path(r.s.cfg.Dir))
	if err != nil {
		return fmt.Errorf("spool: open segment to read: %w", err)
	}
	r.file, r.seg, r.limit, r.end = f, seg, limit, end
	r.at, r.base, r.buf = headSize, headSize, r.buf[:0]
	return nil
}

// frame returns the frame at r.at. A bad place is passed over, byte by byte, to the next
// frame whose seq fits; ok is false when there is none.
func (r *Reader) frame() (f frame, ok bool, err error) {
	for need := frameHead; r.at+int64(frameHead) <= r.limit; {
		if err := r.fill(need); err != nil {
			return frame{}, false, err
		}
		f, more, ok := cut(r.buf[r.at-r.base:])
		switch {
		case ok && f.seq <= r.end:
			return f, true, nil
		case more > need && r.at+int64(more) <= r.limit:
			need = more
		default:
			r.at++
			need = frameHead
		}
	}
	return frame{}, false, nil
}

// window is how much is read at once.
const window = 256 << 10

// fill makes r.buf hold need bytes from r.at on.
func (r *Reader) fill(need int) error {
	have := r.base + int64(len(r.buf)) - r.at
	if have >= int64(need) {
		return nil
	}
	n := min(int64(max(need, window)), r.limit-r.at)
	if int64(cap(r.buf)) < n {
		r.buf = make([]byte, n)
	}
	r.buf, r.base = r.buf[:n], r.at
	if err := readFull(r.file, r.buf, r.at); err != nil {
		return fmt.Errorf("spool: read segment: %w", err)
	}
	return nil
}

// lost accounts for the range from r.next to last and steps over it.
func (r *Reader) lost(last uint64) Record {
	rec := Record{Epoch: r.seg.epoch, Label: r.seg.label, Seq: last, Lost: r.next}
	r.s.mu.Lock()
	r.s.stats.Damaged += last - r.next + 1
	r.seg.damaged = true
	r.s.mu.Unlock()
	r.next = last + 1
	return rec
}

// readFull fills b; a file that is shorter leaves zeroes, which are no frame.
func readFull(f File, b []byte, at int64) error {
	n, err := f.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		clear(b[n:])
		return nil
	}
	return err
}
