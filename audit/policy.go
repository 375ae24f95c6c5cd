package audit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tierlock/tierlock"
)

// Policy is the part of a chain's policy that is about recording. The zero Policy means
// record everything, refuse when full, wait for the disk in bypass only.
type Policy struct {
	Record Record `yaml:"audit"`
	OnFull OnFull `yaml:"on_full"`
	Wait   Wait   `yaml:"audit_wait"`
}

// Record says which grants leave events. What it leaves out, reconcile is blind to.
type Record uint8

// What is recorded. The zero Record is RecordAll.
const (
	RecordAll      Record = iota + 1 // every grant and its end
	RecordDegraded                   // local, bypass, optimistic; blind to shared against local or bypass
	RecordOff                        // nothing but bypass, which never goes unrecorded
)

// OnFull says what a grant that must wait for the disk gets when the disk takes nothing.
type OnFull uint8

// What happens when the disk is full. The zero OnFull is Reject.
const (
	Reject OnFull = iota + 1 // no record, no grant
	Block                    // wait for room inside the attempt
	Shed                     // granted, counted, and a gap event as soon as a write works
)

// Wait says which grants wait until their event is on the disk.
type Wait uint8

// Which grants wait. The zero Wait is WaitBypass.
const (
	WaitBypass   Wait = iota + 1 // bypass alone
	WaitDegraded                 // bypass and local
	WaitAll                      // shared too
)

// Records tells whether a grant of this tier leaves events.
func (p *Policy) Records(t tierlock.Tier) bool {
	switch p.Record {
	case RecordDegraded:
		return t != tierlock.Shared
	case RecordOff:
		return t == tierlock.Bypass
	}
	return true
}

// Waits tells whether a grant of this tier waits until its event is durable.
func (p *Policy) Waits(t tierlock.Tier) bool {
	switch t {
	case tierlock.Bypass:
		return true
	case tierlock.Local:
		return p.Wait == WaitDegraded || p.Wait == WaitAll
	case tierlock.Shared:
		return p.Wait == WaitAll
	}
	return false
}

// Validate reports every field that holds no word of its set, all at once.
func (p *Policy) Validate() error {
	return errors.Join(
		recordWords.check("audit", int(p.Record)),
		onFullWords.check("on_full", int(p.OnFull)),
		waitWords.check("audit_wait", int(p.Wait)))
}

// set are the words of a closed set by value; the zero value reads as the first of them.
type set []string

var (
	recordWords = set{"all", "degraded", "off"}
	onFullWords = set{"reject", "block", "shed"}
	waitWords   = set{"bypass", "degraded", "all"}
)

func (w set) rule() string { return "want one of " + strings.Join(w, ", ") }

func (w set) check(field string, i int) error {
	if i > len(w) {
		return tierlock.Invalid(field, fmt.Sprint(i), w.rule())
	}
	return nil
}

func (w set) of(i int) string {
	if i > len(w) {
		return "invalid"
	}
	return w[max(i, 1)-1]
}

func parseWord[T ~uint8](w set, field string, text []byte, into *T) error {
	for i, word := range w {
		if word == string(text) {
			*into = T(i + 1)
			return nil
		}
	}
	return tierlock.Invalid(field, clip(text), w.rule())
}

// clip keeps an error short when the value is a mistake of some megabytes.
func clip(b []byte) string {
	const most = 120
	if len(b) > most {
		return string(b[:most]) + "…"
	}
	return string(b)
}

// String returns the word in force; that of the default for zero.
func (r Record) String() string { return recordWords.of(int(r)) }

// MarshalText returns what String does; a value that is no word is an error.
func (r Record) MarshalText() ([]byte, error) {
	return []byte(r.String()), recordWords.check("audit", int(r))
}

// UnmarshalText accepts all, degraded and off.
func (r *Record) UnmarshalText(b []byte) error { return parseWord(recordWords, "audit", b, r) }

// String returns the word in force; that of the default for zero.
func (f OnFull) String() string { return onFullWords.of(int(f)) }

// MarshalText returns what String does; a value that is no word is an error.
func (f OnFull) MarshalText() ([]byte, error) {
	return []byte(f.String()), onFullWords.check("on_full", int(f))
}

// UnmarshalText accepts reject, block and shed.
func (f *OnFull) UnmarshalText(b []byte) error { return parseWord(onFullWords, "on_full", b, f) }

// String returns the word in force; that of the default for zero.
func (w Wait) String() string { return waitWords.of(int(w)) }

// MarshalText returns what String does; a value that is no word is an error.
func (w Wait) MarshalText() ([]byte, error) {
	return []byte(w.String()), waitWords.check("audit_wait", int(w))
}

// UnmarshalText accepts bypass, degraded and all.
func (w *Wait) UnmarshalText(b []byte) error { return parseWord(waitWords, "audit_wait", b, w) }
