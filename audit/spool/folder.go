package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Folder is a spool's folder as somebody sees it who does not open it: nothing in it is
// changed, and what its own process writes after [Look] is not seen. It belongs to one
// goroutine.
type Folder struct {
	s     *Spool // never runs
	inUse bool
}

// ErrNoSpool says that a folder holds no segment.
var ErrNoSpool = errors.New("spool: no segments in the folder")

// Look finds what is in dir; disk nil is [OS]. One that another process has open may be
// looked at too.
func Look(disk FS, dir string) (*Folder, error) {
	cfg := Config{FS: disk, Dir: dir}.withDefaults()
	for try := 0; ; try++ {
		f, err := look(cfg)
		// Files are removed while they are looked at, where the folder is in use.
		if !errors.Is(err, fs.ErrNotExist) || try == 2 {
			return f, err
		}
	}
}

func look(cfg Config) (*Folder, error) {
	list, err := listSegments(cfg.FS, cfg.Dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("spool: %w", err)
	case len(list) == 0:
		return nil, fmt.Errorf("%w: %s", ErrNoSpool, cfg.Dir)
	}
	f := &Folder{s: &Spool{cfg: cfg, look: true, stopped: make(chan struct{})}}
	close(f.s.stopped)
	lock, err := cfg.FS.Lock(cfg.Dir)
	switch f.inUse = errors.Is(err, ErrLocked); {
	case err == nil:
		err = lock.Close()
	case f.inUse:
		err = nil
	}
	if err == nil {
		err = f.s.survey()
	}
	if err != nil {
		return nil, fmt.Errorf("spool: look at %s: %w", cfg.Dir, err)
	}
	f.s.durable = f.s.former.Last
	return f, nil
}

// InUse tells whether a process had the folder open.
func (f *Folder) InUse() bool { return f.inUse }

// Former is what the next Open will find.
func (f *Folder) Former() Former { return f.s.former }

// First is the first seq that the folder may hold.
func (f *Folder) First() uint64 { return f.s.segments[0].first }

// Bytes is the size of all segments without the torn tail.
func (f *Folder) Bytes() int64 { return f.s.bytes }

// Reader begins at from, or at the oldest record there is, and ends with [ErrClosed].
func (f *Folder) Reader(from uint64) *Reader { return f.s.Reader(from) }

// SegmentCheck is what [Folder.Check] found in one segment.
type SegmentCheck struct {
	Name    string
	Epoch   uint64
	Label   string
	Bytes   int64
	Records int
	Header  bool   // the header is damaged: whose records these are is not known
	Bad     int64  // bytes that are no frame
	Lost    []Span // seqs that cannot be read back
}

// Span is seqs From to To, both included.
type Span struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// Check reads every byte of every segment. What is lost is told exactly: every record
// outside of it is intact.
func (f *Folder) Check() ([]SegmentCheck, error) {
	next := f.First()
	var all []SegmentCheck
	for i, g := range f.s.segments {
		frames, err := f.s.frames(g)
		if err != nil {
			return all, err
		}
		recs, bad := intact(frames, f.s.endOf(i))
		c := SegmentCheck{Name: g.name(), Epoch: g.epoch, Label: g.label, Bytes: g.size, Records: len(recs), Header: g.damaged, Bad: bad}
		for _, rec := range recs {
			if rec.seq > next {
				c.Lost = append(c.Lost, Span{next, rec.seq - 1})
			}
			next = max(next, rec.seq+1)
		}
		if end := f.s.endOf(i); next <= end {
			c.Lost = append(c.Lost, Span{next, end})
			next = end + 1
		}
		all = append(all, c)
	}
	return all, nil
}

// endOf is the last seq that counts in a segment: what the next one repeats is void.
func (s *Spool) endOf(i int) uint64 {
	if i+1 < len(s.segments) {
		return s.segments[i+1].first - 1
	}
	return s.durable
}

// frames is all of a segment behind its header, without a torn tail.
func (s *Spool) frames(g *segment) ([]byte, error) {
	f, err := s.cfg.FS.Open(g.path(s.cfg.Dir))
	if err != nil {
		return nil, fmt.Errorf("spool: open segment: %w", err)
	}
	defer f.Close()
	data := make([]byte, max(g.size-headSize, 0))
	if err := readFull(f, data, headSize); err != nil {
		return nil, fmt.Errorf("spool: read segment: %w", err)
	}
	return data, nil
}

// intact returns the records in data up to the seq most, in order and each once, and how
// many bytes belong to no frame.
func intact(data []byte, most uint64) (recs []frame, bad int64) {
	for at := 0; at < len(data); {
		f, _, ok := cut(data[at:])
		if !ok {
			at++
			bad++
			continue
		}
		at += f.size()
		if f.kind == kindRecord && f.seq <= most && (len(recs) == 0 || f.seq > recs[len(recs)-1].seq) {
			recs = append(recs, f)
		}
	}
	return slices.Clip(recs), bad
}
