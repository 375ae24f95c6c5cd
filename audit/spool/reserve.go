package spool

import (
	"fmt"
	"path/filepath"
	"time"
)

// reserveName is a file of zeroes. On a disk that is full, whoever filled it, it is given
// up so that what was begun can still be ended.
const reserveName = "reserve"

// makeReserve writes the reserve, unless it is there.
func (s *Spool) makeReserve() error {
	name := filepath.Join(s.cfg.Dir, reserveName)
	if f, err := s.cfg.FS.Open(name); err == nil {
		size, err := f.Size()
		f.Close()
		if err == nil && size >= s.cfg.Reserve {
			return nil
		}
	}
	f, err := s.cfg.FS.Create(name)
	if err != nil {
		return fmt.Errorf("create reserve: %w", err)
	}
	zeroes := make([]byte, min(s.cfg.Reserve, 1<<20))
	for at := int64(0); at < s.cfg.Reserve && err == nil; at += int64(len(zeroes)) {
		_, err = f.WriteAt(zeroes[:min(int64(len(zeroes)), s.cfg.Reserve-at)], at)
	}
	if err == nil {
		err = f.Sync()
	}
	f.Close()
	if err != nil {
		_ = s.cfg.FS.Remove(name) // half a reserve would take the space that is needed now
		return fmt.Errorf("write reserve: %w", err)
	}
	return nil
}

// spendReserve gives the reserve up. From now on only closing records are taken.
func (s *Spool) spendReserve() {
	_ = s.cfg.FS.Remove(filepath.Join(s.cfg.Dir, reserveName)) // gone already: then there is nothing left to give
	s.mu.Lock()
	s.lean, s.refill = true, time.Now().Add(fullPause)
	s.mu.Unlock()
}

// refillReserve is the flusher's: whenever it is woken while the reserve is spent, which a
// refused record and a Trim do, and at most every fullPause, it tries to have it again.
func (s *Spool) refillReserve() {
	s.mu.Lock()
	due := s.lean && !s.closed && !time.Now().Before(s.refill)
	s.mu.Unlock()
	if !due {
		return
	}
	err := s.makeReserve()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.refill = time.Now().Add(fullPause)
		return
	}
	s.lean, s.refuse = false, time.Time{}
	s.tellRoomLocked()
}

func (s *Spool) tellRoomLocked() {
	if !s.closed {
		close(s.room)
		s.room = make(chan struct{})
	}
}
