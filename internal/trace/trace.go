// Package trace REPLAYS what happened in real shops: it reads the CSV that scripts/trace.sh
// makes and delivers its events in their own rhythm, faster. It knows nothing of locks.
package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Header is the CSV's first line.
const Header = "at,kind,id,who,what"

// Kind of event.
type Kind string

// The kinds.
const (
	Sale  Kind = "sale"  // one piece of a product
	Claim Kind = "claim" // one coupon, by one household
)

// Event is one line.
type Event struct {
	At   time.Time // UTC, whole seconds
	Kind Kind
	ID   string // of the order or the claim
	Who  string // household
	What string // product or coupon
}

// Reader reads events one at a time, in order of time. It is not safe for concurrent use.
type Reader struct {
	in   *bufio.Scanner
	line int
	last time.Time
}

// NewReader checks the header.
func NewReader(r io.Reader) (*Reader, error) {
	rd := &Reader{in: bufio.NewScanner(r), line: 1}
	if !rd.in.Scan() {
		return nil, fmt.Errorf("trace: no header: %w", orEOF(rd.in.Err()))
	}
	if got := rd.in.Text(); got != Header {
		return nil, fmt.Errorf("trace: line 1: want header %q, got %q", Header, clip(got))
	}
	return rd, nil
}

// Next returns the next event, or io.EOF after the last. Any other error names its line.
func (r *Reader) Next() (Event, error) {
	if !r.in.Scan() {
		return Event{}, orEOF(r.in.Err())
	}
	r.line++
	ev, err := parse(r.in.Text())
	if err == nil && ev.At.Before(r.last) {
		err = errors.New("at: is earlier than the line before")
	}
	if err != nil {
		return Event{}, fmt.Errorf("trace: line %d: %w", r.line, err)
	}
	r.last = ev.At
	return ev, nil
}

func parse(line string) (Event, error) {
	f := strings.Split(line, ",")
	if len(f) != 5 {
		return Event{}, fmt.Errorf("want 5 fields (%s), got %d", Header, len(f))
	}
	at, err := time.Parse(time.RFC3339, f[0])
	if err != nil {
		return Event{}, fmt.Errorf("at: %q is no time like 2017-06-17T12:00:00Z", clip(f[0]))
	}
	ev := Event{At: at.UTC(), Kind: Kind(f[1]), ID: f[2], Who: f[3], What: f[4]}
	if ev.Kind != Sale && ev.Kind != Claim {
		return Event{}, fmt.Errorf("kind: %q is not sale or claim", clip(f[1]))
	}
	for _, name := range []struct{ field, value string }{{"id", ev.ID}, {"who", ev.Who}, {"what", ev.What}} {
		if !word(name.value) {
			return Event{}, fmt.Errorf("%s: %q: want 1 to 64 of a-z A-Z 0-9 -", name.field, clip(name.value))
		}
	}
	return ev, nil
}

// word tells whether s may be a part of a lock key.
func word(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 64
}

func orEOF(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
