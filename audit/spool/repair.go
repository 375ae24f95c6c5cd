package spool

import "fmt"

// Mended is what [Repair] did to one segment.
type Mended struct {
	Segment string `json:"segment"`
	Torn    int64  `json:"torn_bytes"`     // cut off its end, kept in Kept
	Records int    `json:"records"`        // carried over to the new file
	Bad     int64  `json:"bad_bytes"`      // that were no frame
	Header  bool   `json:"header_damaged"` // it was
	Label   string `json:"producer"`       // in the new header; empty: nothing tells
	Kept    string `json:"kept"`           // file with the bytes as they were
}

// Repair takes the folder and mends it: a torn tail is cut, a segment with damage is
// written anew from its intact records. The bytes as they were stay beside it. What was
// lost stays lost: its seqs are a hole, which a reader reports as it would have reported
// the damage. Stopped at any moment, it leaves each segment whole, old or new. The folder
// must not be in use: [ErrLocked].
func Repair(disk FS, dir string) (done []Mended, err error) {
	if _, err := Look(disk, dir); err != nil { // also: nothing is made where there is no spool
		return nil, err
	}
	s := &Spool{cfg: Config{FS: disk, Dir: dir}.withDefaults()}
	if s.lock, err = s.cfg.FS.Lock(dir); err != nil {
		return nil, fmt.Errorf("spool: lock folder %s: %w", dir, err)
	}
	defer s.lock.Close()
	if err := s.survey(); err != nil {
		return nil, fmt.Errorf("spool: repair %s: %w", dir, err)
	}
	s.durable = s.former.Last
	if s.former.Torn > 0 {
		last := s.segments[len(s.segments)-1]
		done = append(done, Mended{Segment: last.name(), Torn: s.former.Torn, Kept: last.name() + tornSuffix})
	}
	for i, g := range s.segments {
		m, err := s.mend(g, s.endOf(i))
		if err != nil {
			return done, fmt.Errorf("spool: repair %s: %w", g.name(), err)
		}
		if m.Kept != "" {
			done = append(done, m)
		}
	}
	return done, nil
}

// The names of files beside a segment.
const (
	tornSuffix       = ".torn"
	damagedSuffix    = ".damaged"
	quarantineSuffix = ".quarantine" // as it was before Repair
	repairedSuffix   = ".repaired"   // not in its place yet; without meaning after a crash
)

// mend writes a damaged segment anew.
func (s *Spool) mend(g *segment, end uint64) (Mended, error) {
	data, err := s.frames(g)
	if err != nil {
		return Mended{}, err
	}
	recs, bad := intact(data, end)
	g.damaged = g.damaged || g.size < headSize
	if bad == 0 && !g.damaged {
		return Mended{}, nil
	}
	m := Mended{Segment: g.name(), Records: len(recs), Bad: bad, Header: g.damaged, Kept: g.name() + quarantineSuffix}
	path := g.path(s.cfg.Dir)
	if err := s.keepWhole(g, path+quarantineSuffix); err != nil {
		return Mended{}, err
	}
	s.fillHeader(g)
	m.Label = g.label
	if err := s.writeFile(path+repairedSuffix, append(g.header(), rebatch(recs)...)); err != nil {
		return Mended{}, err
	}
	if err := s.cfg.FS.Rename(path+repairedSuffix, path); err != nil {
		return Mended{}, err
	}
	return m, s.cfg.FS.SyncDir(s.cfg.Dir)
}

// keepWhole copies a segment's file, durably, before anything happens to it.
func (s *Spool) keepWhole(g *segment, to string) error {
	f, err := s.cfg.FS.View(g.path(s.cfg.Dir))
	if err != nil {
		return err
	}
	defer f.Close()
	whole := make([]byte, g.size)
	if err := readFull(f, whole, 0); err != nil {
		return err
	}
	return s.writeFile(to, whole)
}

// writeFile makes a file with this content, durable in name and content.
func (s *Spool) writeFile(name string, content []byte) error {
	f, err := s.cfg.FS.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := writeSynced(f, content, 0); err != nil {
		return err
	}
	return s.cfg.FS.SyncDir(s.cfg.Dir)
}

// fillHeader takes from another segment of the epoch what a damaged header does not tell.
func (s *Spool) fillHeader(g *segment) {
	for _, other := range s.segments {
		if g.damaged && other.epoch == g.epoch && other != g && !other.damaged {
			g.label, g.epochFirst, g.damaged = other.label, other.epochFirst, false
		}
	}
	g.damaged = false
}

// rebatch writes records, whose seqs may have holes, in batches.
func rebatch(recs []frame) (all []byte) {
	var b []byte
	count := 0
	for i, rec := range recs {
		at := len(b)
		b = appendFrame(b, kindRecord, rec.body)
		stamp(b[at:], rec.seq)
		count++
		if len(b) >= MaxRecord || i == len(recs)-1 {
			all = append(all, appendCommit(b, count, rec.seq)...)
			b, count = b[:0], 0
		}
	}
	return all
}
