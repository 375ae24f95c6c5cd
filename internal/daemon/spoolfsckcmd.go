package daemon

import (
	"context"
	"fmt"
	"slices"

	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/spool"
)

// checkedSpool is what fsck found in one folder.
type checkedSpool struct {
	Dir      string           `json:"dir"`
	InUse    bool             `json:"in_use"`
	Unsure   string           `json:"in_use_unknown,omitempty"` // why
	Segments []checkedSegment `json:"segments"`
	Torn     int64            `json:"torn_bytes"`
	Missing  []spool.Span     `json:"missing,omitempty"` // no segment has them, nor has Kafka
	Cursor   string           `json:"cursor,omitempty"`  // why it cannot be read
	Damaged  bool             `json:"damaged"`
	Repaired []spool.Mended   `json:"repaired,omitempty"`
	Error    string           `json:"error,omitempty"`
}

type checkedSegment struct {
	Name    string       `json:"name"`
	Records int          `json:"records"`
	Bytes   int64        `json:"bytes"`
	Bad     int64        `json:"bad_bytes"`
	Header  bool         `json:"header_damaged"`
	Cut     bool         `json:"cut"` // shorter than its header
	Lost    []spool.Span `json:"lost"`
	Mended  bool         `json:"mended"` // by a repair: what is lost was told then
}

func (p Process) spoolCheck(_ context.Context, o *spoolOptions) int {
	code := ExitOK
	checked := []checkedSpool{}
	for _, dir := range o.dirs {
		c := checkSpool(dir, o.repair)
		if c.Damaged || c.Error != "" {
			code = ExitError
		}
		checked = append(checked, c)
	}
	if *o.format == "json" {
		_ = encoder(p.Stdout).Encode(struct {
			Spools []checkedSpool `json:"spools"`
		}{checked})
		return code
	}
	for _, c := range checked {
		c.print(p)
	}
	return code
}

// checkSpool mends first where it may, so that what it tells is what is left.
func checkSpool(dir string, repair bool) checkedSpool {
	c := checkedSpool{Dir: dir, Segments: []checkedSegment{}}
	fail := func(err error) checkedSpool { c.Error = err.Error(); return c }
	if repair {
		mended, err := audit.Repair(nil, dir)
		if c.Repaired = mended; err != nil {
			return fail(err)
		}
	}
	info, err := audit.Inspect(nil, dir)
	if err != nil {
		return fail(err)
	}
	folder, err := spool.Look(nil, dir)
	if err != nil {
		return fail(err)
	}
	segments, err := folder.Check()
	if err != nil {
		return fail(err)
	}
	c.InUse, c.Unsure, c.Missing = info.InUse, text(info.Unsure), info.Missing
	if !c.InUse { // what looks torn is being written
		c.Torn = info.Torn
	}
	if info.Cursor != nil {
		c.Cursor = info.Cursor.Error()
	}
	c.Damaged = c.Torn > 0 || c.Cursor != "" || len(c.Missing) > 0
	for _, s := range segments {
		c.Damaged = c.Damaged || s.Bad > 0 || s.Header || s.Cut || !s.Mended && losesAbove(s.Lost, info.Sent)
		c.Segments = append(c.Segments, checkedSegment{s.Name, s.Records, s.Bytes, s.Bad, s.Header, s.Cut, append([]spool.Span{}, s.Lost...), s.Mended})
	}
	return c
}

// losesAbove tells whether any of lost is not safe in Kafka.
func losesAbove(lost []spool.Span, sent uint64) bool {
	return slices.ContainsFunc(lost, func(l spool.Span) bool { return l.To > sent })
}

func (c checkedSpool) print(p Process) {
	state := "ok"
	switch {
	case c.Error != "":
		fmt.Fprintf(p.Stderr, "tierlock spool fsck: %s: %s\n", c.Dir, c.Error)
		state = "not checked"
	case c.Damaged:
		state = "damaged (fsck --repair mends what can be mended)"
	}
	for _, m := range c.Repaired {
		fmt.Fprintf(p.Stdout, "%s: mended %s, as it was in %s\n", c.Dir, m.Segment, m.Kept)
	}
	fmt.Fprintf(p.Stdout, "%s: %s, %d %s\n", c.Dir, state, len(c.Segments), plural(len(c.Segments), "segment"))
	for _, s := range c.Segments {
		if s.Bad > 0 || s.Header {
			fmt.Fprintf(p.Stdout, "  %s: %d bad bytes, header damaged: %v\n", s.Name, s.Bad, s.Header)
		}
		if s.Cut {
			fmt.Fprintf(p.Stdout, "  %s: cut to %d bytes, less than its header: what it held, if anything, is lost\n", s.Name, s.Bytes)
		}
		for _, l := range s.Lost {
			fmt.Fprintf(p.Stdout, "  %s: seq %d to %d lost\n", s.Name, l.From, l.To)
		}
	}
	printMissing(p.Stdout, c.Missing, c.Unsure)
	if c.Torn > 0 {
		fmt.Fprintf(p.Stdout, "  %d torn bytes at the end\n", c.Torn)
	}
	if c.Cursor != "" {
		fmt.Fprintf(p.Stdout, "  %s: everything is sent again\n", c.Cursor)
	}
}
