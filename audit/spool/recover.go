package spool

import "fmt"

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
	if s.segments, err = listSegments(fs, dir); err != nil {
		return err
	}
	for i, g := range s.segments {
		if err := s.load(g, i == len(s.segments)-1); err != nil {
			return err
		}
		s.bytes += g.size
		s.epoch = max(s.epoch, g.epoch)
	}
	return s.begin()
}

// load reads a segment's header and size; of the last one also its tail.
func (s *Spool) load(g *segment, tail bool) error {
	f, err := s.cfg.FS.Open(g.path(s.cfg.Dir))
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	if g.size, err = f.Size(); err != nil {
		return fmt.Errorf("size of segment: %w", err)
	}
	n := int64(headSize)
	if tail {
		n = max(g.size, headSize)
	}
	data := make([]byte, min(n, g.size))
	if err := readFull(f, data, 0); err != nil {
		return fmt.Errorf("read segment: %w", err)
	}
	g.readHeader(data)
	if !tail {
		return nil
	}
	return s.loadTail(g, f, data)
}

// loadTail finds what the former epoch left. What it accepts is synced once more: after a
// kill it may stand in the page cache only, and from now on others rely on it.
func (s *Spool) loadTail(g *segment, f File, data []byte) error {
	frames := data[min(headSize, len(data)):]
	last, end := lastCommit(frames)
	if end == 0 {
		last = g.first - 1
	}
	s.former = Former{Epoch: g.epoch, Label: g.label, First: g.epochFirst, Last: last, Record: lastRecord(frames[:end])}
	good := int64(headSize + end)
	if torn := g.size - good; torn > 0 {
		if err := s.keepTorn(g, frames[end:]); err != nil {
			return err
		}
		if err := f.Truncate(good); err != nil {
			return fmt.Errorf("cut torn tail: %w", err)
		}
		s.former.Torn = torn
	}
	g.size = min(g.size, good)
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync last segment: %w", err)
	}
	return nil
}

// keepTorn saves the cut bytes beside the segment, before they are cut.
func (s *Spool) keepTorn(g *segment, torn []byte) error {
	f, err := s.cfg.FS.Create(g.path(s.cfg.Dir) + ".torn")
	if err != nil {
		return fmt.Errorf("keep torn tail: %w", err)
	}
	defer f.Close()
	if err := writeSynced(f, torn, 0); err != nil {
		return fmt.Errorf("keep torn tail: %w", err)
	}
	return s.cfg.FS.SyncDir(s.cfg.Dir)
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
	if !s.lean && s.makeReserve() != nil {
		s.lean = true // no room for the reserve is no room for ordinary records
	}
	return nil
}
