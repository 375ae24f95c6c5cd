package spool

import (
	"fmt"
	"runtime"
	"time"
)

// run is the flusher. It alone writes segments.
func (s *Spool) run() {
	defer close(s.stopped)
	for {
		b := s.next()
		if b == nil {
			return
		}
		s.commit(b)
	}
}

// next waits until there is a batch to write; nil when the spool is closed and empty.
func (s *Spool) next() *batch {
	for {
		s.refillReserve()
		s.mu.Lock()
		b, closed := s.open, s.closed
		count, since := b.count, b.since
		now := closed || b.hurry || b.waiting > 0 || len(b.buf) >= s.cfg.Batch
		s.mu.Unlock()
		switch {
		case count == 0 && closed:
			return nil
		case count == 0:
			<-s.wake
		case now:
			if s.cfg.Linger > 0 && !closed {
				<-time.After(s.cfg.Linger)
			} else {
				// Those whom the last batch has just released are about to come back:
				// let them, or every other batch is one record.
				runtime.Gosched()
			}
			return s.take()
		default: // nobody waits: give it Lazy to grow, or until somebody does
			lazy := time.NewTimer(time.Until(since.Add(s.cfg.Lazy)))
			select {
			case <-s.wake:
				lazy.Stop()
			case <-lazy.C:
				return s.take()
			}
		}
	}
}

// take gives the open batch to the flusher and opens the next one.
func (s *Spool) take() *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.open
	s.open = &batch{done: make(chan struct{}), buf: s.spare[:0]}
	s.spare = nil
	close(s.taken)
	s.taken = make(chan struct{})
	s.pending = int64(len(b.buf))
	return b
}

// commit makes b durable, or says why it is not, and tells everybody who waits.
func (s *Spool) commit(b *batch) {
	b.seal(s.last + 1)
	start := time.Now()
	err := s.write(b)
	took := time.Since(start)

	s.mu.Lock()
	s.pending = 0
	s.stats.Syncs++
	s.stats.SyncTime += took
	dropped := 0
	switch {
	case err == nil:
		s.last += uint64(b.count)
		s.durable = s.last
		s.stats.Records += uint64(b.count)
		s.refuse = time.Time{}
	case noSpace(err):
		err = fmt.Errorf("%w: %w", ErrFull, err)
		s.refuse = time.Now().Add(fullPause)
		dropped = b.count - b.waiting
	default:
		err = fmt.Errorf("%w: %w", ErrFailed, err)
		s.failed = err
		dropped = b.count - b.waiting
	}
	s.stats.Dropped += uint64(max(dropped, 0))
	close(s.grew)
	s.grew = make(chan struct{})
	s.mu.Unlock()

	b.err = err
	size := len(b.buf)
	s.spare, b.buf = b.buf, nil // nobody reads a batch that is done
	close(b.done)
	if s.cfg.Synced != nil {
		s.cfg.Synced(Sync{Records: b.count, Bytes: size, Took: took, Err: err})
	}
	if dropped > 0 && s.cfg.Dropped != nil {
		s.cfg.Dropped(dropped)
	}
}

// fullPause is how long a full disk is left alone before the next record tries it.
const fullPause = 500 * time.Millisecond

// write puts the sealed batch on the disk. A segment that failed a write or an fsync is
// never written again: after a failed fsync the kernel may have dropped the pages and call
// them clean, so that a later fsync proves nothing ("Can Applications Recover from fsync
// Failures?", USENIX ATC 2020). The batch is written once more, to a new file. Two failures
// in a row are an error.
func (s *Spool) write(b *batch) error {
	var err error
	for range 2 {
		if err = s.writeOnce(b); err == nil {
			return nil
		}
		s.abandon()
		if noSpace(err) {
			s.spendReserve()
		}
	}
	return err
}

func (s *Spool) writeOnce(b *batch) error {
	seg := s.active()
	if s.file == nil || (seg.size > headSize && seg.size+int64(len(b.buf)) > s.cfg.Segment) {
		if err := s.rotate(b.first); err != nil {
			return err
		}
		seg = s.active()
	}
	if err := writeSynced(s.file, b.buf, seg.size); err != nil {
		return fmt.Errorf("write batch: %w", err)
	}
	s.mu.Lock()
	seg.size += int64(len(b.buf))
	s.bytes += int64(len(b.buf))
	s.mu.Unlock()
	return nil
}

// active is the segment that is being written.
func (s *Spool) active() *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.segments[len(s.segments)-1]
}

// rotate begins a new file whose first record will be first.
func (s *Spool) rotate(first uint64) error {
	old := s.active()
	s.number++ // a fresh name per try: the file of one that failed is never touched again
	g := &segment{number: s.number, epoch: s.epoch, first: first, epochFirst: old.epochFirst, label: s.cfg.Label}
	if old.epoch != s.epoch {
		g.epochFirst = first
	}
	f, err := createSegment(s.cfg.FS, s.cfg.Dir, g)
	if err != nil {
		// Best effort: a file without records that stays does no harm.
		_ = s.cfg.FS.Remove(g.path(s.cfg.Dir))
		return err
	}
	if s.file != nil {
		s.file.Close()
	}
	s.file = f
	s.mu.Lock()
	s.segments = append(s.segments, g)
	s.bytes += g.size
	s.mu.Unlock()
	return nil
}

// abandon closes the file for good. What whole batches it holds stays.
func (s *Spool) abandon() {
	if s.file == nil {
		return
	}
	s.file.Close()
	s.file = nil
	s.mu.Lock()
	s.stats.Closed++
	s.mu.Unlock()
}
