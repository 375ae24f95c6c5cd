package spool

import (
	"fmt"
	"time"
)

// Trim removes the files whose records all come before seq. The caller must have made
// durable, beforehand, that it needs them no more: a folder that lost a file is no fault,
// a cursor that points into a removed one would be. A file in which a reader met damage
// is kept under another name, for a person to look at.
func (s *Spool) Trim(before uint64) error {
	s.mu.Lock()
	n := 0
	for n < len(s.segments)-1 && s.segments[n+1].first <= before {
		s.bytes -= s.segments[n].size
		n++
	}
	gone := s.segments[:n:n]
	s.segments = s.segments[n:]
	s.mu.Unlock()
	if n == 0 {
		return nil
	}
	for _, g := range gone {
		if err := s.discard(g); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.refill = time.Time{}
	s.tellRoomLocked()
	s.mu.Unlock()
	s.poke()
	return nil
}

// discard removes one file, durably before the next one goes: a crash must not bring an
// older one back without those between, which would read as damage.
func (s *Spool) discard(g *segment) error {
	path := g.path(s.cfg.Dir)
	s.mu.Lock()
	damaged := g.damaged
	s.mu.Unlock()
	var err error
	if damaged {
		err = s.cfg.FS.Rename(path, path+damagedSuffix)
	} else {
		err = s.cfg.FS.Remove(path)
	}
	if err == nil {
		err = s.cfg.FS.SyncDir(s.cfg.Dir)
	}
	if err != nil {
		return fmt.Errorf("spool: remove segment: %w", err)
	}
	return nil
}
