package spool

import (
	"context"
	"fmt"
	"time"
)

// batch is what one fsync makes durable. Seqs are given when it is written, not when it
// is filled: a batch that could not be written uses none up.
type batch struct {
	buf     []byte // frames without seq and CRC, until sealed
	count   int
	waiting int           // how many of them somebody waits for
	hurry   bool          // a Flush waits for it
	since   time.Time     // of the first record
	done    chan struct{} // closed when first and err are final
	first   uint64
	err     error
}

// seal gives the records their seqs and ends the batch with its commit frame.
func (b *batch) seal(first uint64) {
	b.first = first
	seq := first
	for at := 0; at < len(b.buf); seq++ {
		at += stamp(b.buf[at:], seq)
	}
	b.buf = appendCommit(b.buf, b.count, seq-1)
}

// Append returns rec's seq once it is on the disk. Refused with ErrFull, ErrClosed or
// ErrTooBig, or before ctx let it begin, rec was never written; with an error that
// matches [ErrInDoubt] it may still become durable. rec is copied.
func (s *Spool) Append(ctx context.Context, rec []byte, room Room) (uint64, error) {
	one := [1][]byte{rec}
	b, i, err := s.put(ctx, one[:], room, true)
	return s.await(ctx, b, i, err)
}

// await waits for the batch in which put placed a record.
func (s *Spool) await(ctx context.Context, b *batch, i int, err error) (uint64, error) {
	if err != nil {
		return 0, err
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		select {
		case <-b.done: // both: the disk was there in time
		default:
			return 0, fmt.Errorf("%w: %w", ErrInDoubt, context.Cause(ctx))
		}
	}
	if b.err != nil {
		return 0, fmt.Errorf("%w: %w", ErrInDoubt, b.err)
	}
	return b.first + uint64(i), nil
}

// AppendAll is Append for records that are durable all together or not at all. It returns
// the seq of the first; the others follow.
func (s *Spool) AppendAll(ctx context.Context, recs [][]byte, room Room) (uint64, error) {
	b, i, err := s.put(ctx, recs, room, true)
	return s.await(ctx, b, i, err)
}

// Add hands rec over without waiting for the disk: it lands with the next batch, at the
// latest after Config.Lazy. It waits only while a full batch waits for the disk. rec is
// copied.
func (s *Spool) Add(ctx context.Context, rec []byte, room Room) error {
	one := [1][]byte{rec}
	_, _, err := s.put(ctx, one[:], room, false)
	return err
}

// Flush returns once everything added or appended so far is on the disk.
func (s *Spool) Flush(ctx context.Context) error {
	for {
		s.mu.Lock()
		b, writing := s.open, s.pending > 0
		if b.count == 0 && !writing {
			err := s.failed
			s.mu.Unlock()
			return err
		}
		grew, empty := s.grew, b.count == 0
		b.hurry = !empty
		s.mu.Unlock()
		if empty { // only the batch before is under way
			select {
			case <-grew:
			case <-s.stopped:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		s.poke()
		select {
		case <-b.done:
			return b.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// put copies recs into the open batch, side by side, and tells which one it is and where
// in it the first stands.
func (s *Spool) put(ctx context.Context, recs [][]byte, room Room, wait bool) (*batch, int, error) {
	size := 0
	for _, rec := range recs {
		if len(rec) > MaxRecord {
			return nil, 0, fmt.Errorf("%w: %d of %d bytes", ErrTooBig, len(rec), MaxRecord)
		}
		size += frameHead + len(rec)
	}
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	for {
		s.mu.Lock()
		if err := s.refusesLocked(size, room, time.Time{}); err != nil {
			lean := s.lean
			s.mu.Unlock()
			if lean { // there may be room for the reserve again
				s.poke()
			}
			return nil, 0, err
		}
		b, taken := s.open, s.taken
		if b.count == 0 || len(b.buf)+size <= s.cfg.Batch {
			i, poke := s.fillLocked(recs, wait)
			s.mu.Unlock()
			if poke {
				s.poke()
			}
			return b, i, nil
		}
		s.mu.Unlock()
		s.poke()
		select {
		case <-taken:
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		}
	}
}

// fillLocked tells, besides the place of the first record, whether the flusher must hear
// of it: it knows already of a batch that has records and of one that somebody waits for.
func (s *Spool) fillLocked(recs [][]byte, wait bool) (i int, poke bool) {
	b := s.open
	i = b.count
	for _, rec := range recs {
		b.buf = appendFrame(b.buf, kindRecord, rec)
		b.count++
	}
	poke = i == 0
	if poke {
		b.since = time.Now()
	}
	if wait {
		poke = poke || b.waiting == 0
		b.waiting += len(recs)
	}
	return i, poke || len(b.buf) >= s.cfg.Batch
}

// refusesLocked says why a record of this size is not taken now. A zero now is looked up
// only where it matters.
func (s *Spool) refusesLocked(size int, room Room, now time.Time) error {
	switch {
	case s.closed:
		return ErrClosed
	case s.failed != nil:
		return s.failed
	case s.lean && room == Ordinary:
		return fmt.Errorf("%w: the disk has no space left, the reserve is kept for what ends", ErrFull)
	}
	if !s.refuse.IsZero() {
		if now.IsZero() {
			now = time.Now()
		}
		if now.Before(s.refuse) {
			return fmt.Errorf("%w: the disk has no space left", ErrFull)
		}
	}
	limit := s.cfg.Quota
	if room == Ordinary {
		limit -= s.cfg.Reserve
	}
	// A new file's header and the commit frame come on top of the frames.
	if used := s.bytes + s.pending + int64(len(s.open.buf)+size+headSize+commitSize); used > limit {
		return fmt.Errorf("%w: %d of %d bytes used", ErrFull, s.bytes, limit)
	}
	return nil
}

// Room is closed when something that was refused with [ErrFull] may be taken. Get it
// before the call that may be refused.
func (s *Spool) Room() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.room
}

// poke wakes the flusher; one poke is remembered.
func (s *Spool) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
