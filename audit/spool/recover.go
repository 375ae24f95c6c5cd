package spool

import (
	"fmt"
	"math"
)

// recover takes the folder, finds the last whole batch, cuts what is torn behind it and
// begins the next epoch, all of it durable before it returns.
func (s *Spool) recover() (err error) {
	fs, dir := s.cfg.FS, s.cfg.Dir
	if err := fs.MkdirAll(dir); err != nil {
		return fmt.Errorf("spool: make folder: %w", err)
	}
	if s.lock, err = fs.Lock(dir); err != nil {
		return fmt.Errorf("spool: lock folder %s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			s.lock.Close()
			err = fmt.Errorf("spool: open %s: %w", dir, err)
		}
	}()
	if err := s.survey(); err != nil {
		return err
	}
	return s.begin()
}

// survey finds the segments and the last whole batch.
func (s *Spool) survey() (err error) {
	if s.segments, err = listSegments(s.cfg.FS, s.cfg.Dir); err != nil {
		return err
	}
	for _, g := range s.segments {
		if err := s.load(g); err != nil {
			return err
		}
		s.bytes += g.size
		s.epoch = max(s.epoch, g.epoch)
	}
	return s.loadTail()
}

// load reads a segment's size and header.
func (s *Spool) load(g *segment) error {
	f, err := s.cfg.FS.View(g.path(s.cfg.Dir))
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	if g.size, err = f.Size(); err != nil {
		return fmt.Errorf("size of segment: %w", err)
	}
	head := make([]byte, min(headSize, g.size))
	if err := readFull(f, head, 0); err != nil {
		return fmt.Errorf("read segment header: %w", err)
	}
	g.readHeader(head)
	return nil
}

// loadTail finds the last record: in the last segment, or before it where an Open was
// interrupted before its first record. Only the last segment can be torn.
func (s *Spool) loadTail() error {
	most := uint64(math.MaxUint64)
	for i := len(s.segments) - 1; i >= 0; i-- {
		g := s.segments[i]
		found, err := s.scan(g, most, i == len(s.segments)-1)
		if err != nil || found {
			return err
		}
		most = g.first - 1
	}
	return nil
}

// scan looks for the last whole batch in g. What is accepted of the folder's tail is
// synced once more: after a kill it may stand in the page cache only, and from now on
// others rely on it.
func (s *Spool) scan(g *segment, most uint64, tail bool) (found bool, err error) {
	open := s.cfg.FS.View
	if tail && !s.look {
		open = s.cfg.FS.Open
	}
	f, err := open(g.path(s.cfg.Dir))
	if err != nil {
		return false, fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	frames := make([]byte, max(g.size-headSize, 0))
	if err := readFull(f, frames, headSize); err != nil {
		return false, fmt.Errorf("read segment: %w", err)
	}
	last, end := lastCommit(frames, most)
	if tail {
		if err := s.cutTorn(g, f, frames[end:]); err != nil {
			return false, err
		}
		if err := s.settle(f); err != nil {
			return false, err
		}
	}
	if end == 0 {
		s.former.Last = max(s.former.Last, g.first-1) // used up, or at least promised
		return false, nil
	}
	s.former.Epoch, s.former.Label, s.former.First, s.former.Last = g.epoch, g.label, g.epochFirst, max(s.former.Last, last)
	s.former.Record = lastRecord(frames[:end])
	return true, nil
}

// cutTorn cuts what lies behind the last whole batch of the last segment, and keeps it
// beside the segment, before that.
func (s *Spool) cutTorn(g *segment, f File, torn []byte) error {
	if len(torn) == 0 {
		return nil
	}
	if !s.look {
		if err := s.writeFile(g.path(s.cfg.Dir)+tornSuffix, torn); err != nil {
			return fmt.Errorf("keep torn tail: %w", err)
		}
		if err := f.Truncate(g.size - int64(len(torn))); err != nil {
			return fmt.Errorf("cut torn tail: %w", err)
		}
	}
	g.size -= int64(len(torn))
	s.bytes -= int64(len(torn))
	s.former.Torn = int64(len(torn))
	return nil
}

func (s *Spool) settle(f File) error {
	if s.look {
		return nil
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync last segment: %w", err)
	}
	return nil
}

// lastRecord is a copy of the last record in data, which ends with a commit frame.
func lastRecord(data []byte) (rec []byte) {
	for at := 0; at < len(data); {
		f, _, ok := cut(data[at:])
		if !ok {
			at++
			continue
		}
		if f.kind == kindRecord {
			rec = f.body
		}
		at += f.size()
	}
	return append([]byte(nil), rec...)
}

// begin makes the first segment of the next epoch, which makes its number durable. On a
// disk that is full the reserve pays for it.
func (s *Spool) begin() error {
	if n := len(s.segments); n > 0 {
		s.number = s.segments[n-1].number
		s.epoch++
	} else {
		s.epoch = s.cfg.Epoch
	}
	s.last = max(s.former.Last, s.cfg.Floor)
	s.durable = s.last
	s.number++
	g := &segment{number: s.number, epoch: s.epoch, first: s.last + 1, epochFirst: s.last + 1, label: s.cfg.Label}
	f, err := createSegment(s.cfg.FS, s.cfg.Dir, g)
	if err != nil && noSpace(err) {
		s.spendReserve()
		f, err = createSegment(s.cfg.FS, s.cfg.Dir, g)
	}
	if err != nil {
		return err
	}
	s.file = f
	s.segments = append(s.segments, g)
	s.bytes += g.size
	if s.lean {
		return nil
	}
	err = s.makeReserve()
	if noSpace(err) { // no room for the reserve is no room for ordinary records
		s.lean = true
		return nil
	}
	if err != nil {
		f.Close()
	}
	return err
}
