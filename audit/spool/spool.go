package spool

import (
	"context"
	"io"
	"sync"
	"time"
)

// Room says which part of the quota a record may use.
type Room uint8

// The rooms.
const (
	Ordinary Room = iota // refused once only the reserve is left
	Closing              // may use the reserve: what ends something begun, so that it can always be ended
)

// Spool is an open folder. All methods may be called at once from any goroutine. One
// goroutine, the flusher, does every write; Close waits for it.
type Spool struct {
	cfg    Config
	lock   io.Closer
	epoch  uint64
	former Former
	look   bool // nothing in the folder is changed: see Look

	wake    chan struct{} // there is something to write, or to close
	stopped chan struct{} // the flusher is gone

	mu       sync.Mutex
	open     *batch        // being filled
	taken    chan struct{} // closed when the flusher takes open
	segments []*segment    // in order; the last one is being written
	durable  uint64        // last seq on the disk
	grew     chan struct{} // closed when durable rises, or at Close
	room     chan struct{} // closed when there may be room again
	bytes    int64         // of all segments
	pending  int64         // of the batch that is being written
	lean     bool          // the reserve was given up: closing records only
	refill   time.Time     // when to try to have the reserve again
	refuse   time.Time     // the disk is full: refuse all until then
	failed   error         // for good
	closed   bool          // takes no more records
	freed    bool          // Close was called
	stats    Stats

	// Only the flusher uses these.
	file   File // of the last segment; nil: it is closed for good
	last   uint64
	number uint64 // of the newest file, whether it could be made or not
	spare  []byte // of the batch before, to be filled again
}

// Former is what Open found of the last epoch that has a record.
type Former struct {
	Epoch  uint64 // zero: there is none
	Label  string
	First  uint64 // seq of its first record
	Last   uint64 // seq of its last record
	Record []byte // its last record
	Torn   int64  // bytes cut off the folder's tail and kept beside the segment
}

// Stats is a moment of a spool. Counters start at Open.
type Stats struct {
	Epoch    uint64
	Durable  uint64 // last seq on the disk
	Bytes    int64  // of all segments
	Segments int
	Syncs    uint64
	Records  uint64
	SyncTime time.Duration // in total
	Dropped  uint64        // added without waiting and not written
	Closed   uint64        // files closed for good after a failed write or fsync
	Damaged  uint64        // seqs that could not be read back
	Torn     int64         // bytes cut off the tail at Open
	Full     bool          // an ordinary record of 1 KiB is refused now
	Failed   error         // nothing can be written any more
}

// Open recovers the folder, begins a new epoch and makes it durable. A folder that
// another process has open is refused with [ErrLocked].
func Open(cfg Config) (*Spool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Spool{
		cfg:  cfg.withDefaults(),
		wake: make(chan struct{}, 1), stopped: make(chan struct{}),
		open: &batch{done: make(chan struct{})}, taken: make(chan struct{}), grew: make(chan struct{}), room: make(chan struct{}),
	}
	if err := s.recover(); err != nil {
		return nil, err
	}
	go s.run()
	return s, nil
}

// Epoch is the number of this Open: higher than that of every Open before.
func (s *Spool) Epoch() uint64 { return s.epoch }

// Former is what Open found of the last epoch that has a record.
func (s *Spool) Former() Former { return s.former }

// nominal is the size of the record that Stats.Full speaks of.
const nominal = 1 << 10

// Stats is a moment of the spool.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Epoch, st.Durable, st.Bytes, st.Segments = s.epoch, s.durable, s.bytes, len(s.segments)
	st.Torn, st.Failed = s.former.Torn, s.failed
	st.Full = s.refusesLocked(nominal, Ordinary, time.Now()) != nil
	return st
}

// Finish ends the epoch: it writes everything that was added, and then, as the very last
// record, what final makes of the last seq before it. Later records are refused; readers
// go on. final runs under the spool's lock and must be quick.
func (s *Spool) Finish(ctx context.Context, final func(last uint64) []byte) error {
	for {
		if err := s.Flush(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		switch {
		case s.closed:
			s.mu.Unlock()
			return ErrClosed
		case s.open.count == 0 && s.pending == 0 && s.failed == nil:
			s.fillLocked([][]byte{final(s.durable)}, true)
			b := s.open
			s.closeLocked()
			s.mu.Unlock()
			s.poke()
			<-b.done
			return b.err
		}
		s.mu.Unlock() // somebody came in between
	}
}

// Close writes what was added, ends the flusher and frees the folder. Records that are
// appended later are refused.
func (s *Spool) Close() error {
	s.mu.Lock()
	s.closeLocked()
	first := !s.freed
	s.freed = true
	s.mu.Unlock()
	s.poke()
	<-s.stopped
	if !first {
		return nil
	}
	s.mu.Lock()
	close(s.grew)
	s.mu.Unlock()
	if s.file != nil {
		s.file.Close()
	}
	return s.lock.Close()
}

func (s *Spool) closeLocked() {
	if !s.closed {
		s.closed = true
		close(s.room)
	}
}
