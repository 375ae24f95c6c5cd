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
	s      *Spool // never runs
	inUse  bool
	unsure error
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
	f.inUse, f.unsure = cfg.FS.Held(cfg.Dir)
	if err := f.s.survey(); err != nil {
		return nil, fmt.Errorf("spool: look at %s: %w", cfg.Dir, err)
	}
	f.s.durable = f.s.former.Last
	return f, nil
}

// Dir is where the folder is.
func (f *Folder) Dir() string { return f.s.cfg.Dir }

// InUse tells whether a process had the folder open.
func (f *Folder) InUse() bool { return f.inUse }

// Unsure is why InUse cannot be told, where its lock may not be looked at; nil otherwise.
func (f *Folder) Unsure() error { return f.unsure }

// Former is what the next Open will find.
func (f *Folder) Former() Former { return f.s.former }

// First is the first seq that the folder may hold.
func (f *Folder) First() uint64 { return f.s.segments[0].first }

// Bytes is the size of all segments without the torn tail.
func (f *Folder) Bytes() int64 { return f.s.bytes }

// Reader begins at from, or at the oldest record there is, and ends with [ErrClosed].
func (f *Folder) Reader(from uint64) *Reader { return f.s.Reader(from) }

// Missing returns the seqs of segments that are not there, though those before and after
// are: where a number and seqs are left out together. It reads no more than the segments in
// front of such places.
func (f *Folder) Missing() (all []Span, err error) {
	for i, g := range f.s.segments {
		if !f.s.leavesOut(i) {
			continue
		}
		frames, err := f.s.frames(g)
		if err != nil {
			return all, err
		}
		last := g.first - 1
		if recs, _ := intact(frames, f.s.endOf(i)); len(recs) > 0 {
			last = recs[len(recs)-1].seq
		}
		if end := f.s.endOf(i); last < end {
			all = append(all, Span{last + 1, end})
		}
	}
	return all, nil
}

// leavesOut tells whether numbers are left out behind segment i. That alone is no loss: a
// file that could not be made has used one up.
func (s *Spool) leavesOut(i int) bool {
	return i+1 < len(s.segments) && s.segments[i+1].number > s.segments[i].number+1
}

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
	Mended  bool   // [Repair] has written it anew: the bytes as they were are beside it
	Cut     bool   // shorter than a header, and what it held is gone, if anything
}

// Span is seqs From to To, both included.
type Span struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// Check reads every byte of every segment. What is lost is told exactly: every record
// outside of it is intact.
func (f *Folder) Check() ([]SegmentCheck, error) {
	names, err := f.s.cfg.FS.ReadDir(f.s.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("spool: list folder: %w", err)
	}
	next := f.First()
	var all []SegmentCheck
	for i, g := range f.s.segments {
		frames, err := f.s.frames(g)
		if err != nil {
			return all, err
		}
		recs, bad := intact(frames, f.s.endOf(i))
		c := SegmentCheck{Name: g.name(), Epoch: g.epoch, Label: g.label, Bytes: g.size, Records: len(recs), Header: g.damaged, Bad: bad}
		c.Mended = slices.Contains(names, g.name()+quarantineSuffix)
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
		// A start that was interrupted leaves a file without its header, and so does a
		// disk that lost one. The next start makes up for the former with its own.
		last := i == len(f.s.segments)-1
		c.Cut = g.size < headSize && (len(c.Lost) > 0 || last && !f.inUse)
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
	f, err := s.cfg.FS.View(g.path(s.cfg.Dir))
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
