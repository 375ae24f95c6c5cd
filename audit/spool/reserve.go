package spool

import (
	"fmt"
	"path/filepath"
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
	s.lean = true
	s.mu.Unlock()
}

// refillReserve is tried whenever segments were removed.
func (s *Spool) refillReserve() {
	s.mu.Lock()
	lean := s.lean
	s.mu.Unlock()
	if !lean || s.makeReserve() != nil {
		return // the disk is still full; the next Trim tries again
	}
	s.mu.Lock()
	s.lean, s.refuse = false, s.refuse.Add(-fullPause)
	s.mu.Unlock()
}
