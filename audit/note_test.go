package audit

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
)

// A note is written as the event that it was made of, whatever fields that has: one that is
// added to [Event] and forgotten in note fails here.
func TestNoteKeepsAllThatIsWritten(t *testing.T) {
	t.Parallel()
	full := full(t)
	for _, kind := range []Type{TypeAcquire, TypeEnd, TypeOptimistic} {
		full.Type = kind
		var n note
		n.of(&full)
		// Whatever was written before it in the same place.
		got := Event{Business: Business{Type: "other"}, Switch: Switch{Version: 9}, Extra: map[string]json.RawMessage{"other": json.RawMessage("1")}}
		n.fill(&got)
		if got, want := string(got.appendBody(nil)), string(full.appendBody(nil)); got != want {
			t.Errorf("%s: noted\n%q, want\n%q", kind, got, want)
		}
		empty := Event{Type: kind, Key: full.Key}
		n.of(&empty)
		n.fill(&got)
		if got, want := string(got.appendBody(nil)), string(empty.appendBody(nil)); got != want {
			t.Errorf("%s, empty: noted\n%q, want\n%q", kind, got, want)
		}
	}
}

// full is an event of which every field says something.
func full(t *testing.T) Event {
	t.Helper()
	one := int64(1)
	key, err := tierlock.ParseKey("biz:order:lock:1")
	if err != nil {
		t.Fatal(err)
	}
	ev := Event{
		Key: key, ID: tierlock.NewRequestID(), GrantedAt: time.Unix(1, 0), EndedAt: time.Unix(2, 0),
		Switch: Switch{1, "why"}, Business: Business{"coupon", "7", "claim", 1, &one, &one},
		Extra: map[string]json.RawMessage{"x": json.RawMessage("1")},
	}
	v := reflect.ValueOf(&ev).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case !f.IsZero() || v.Type().Field(i).Name == "Holder": // which hides the id
		case f.CanInt():
			f.SetInt(int64(time.Hour))
		case f.CanUint():
			f.SetUint(1)
		case f.Kind() == reflect.String:
			f.SetString(v.Type().Field(i).Name)
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		}
	}
	return ev
}

// Notes come out of a stripe in the order in which they were put, however many pieces they
// fill, and one stripe takes no more than its part.
func TestNotesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	const room = 3*pieceNotes + 1
	n := newNotes(room * noteStripes)
	ev := full(t)
	for range 2 { // the second time in pieces that were used
		for i := range room {
			ev.Token = tierlock.Token(i + 1)
			if !n.put(&ev) {
				t.Fatalf("no room for %d of %d", i+1, room)
			}
		}
		if n.put(&ev) {
			t.Fatal("room for one more than there is")
		}
		var seen int
		for i := range n.stripes {
			for p := n.stripes[i].take(); p != nil; p = p.done() {
				for _, one := range p.notes[:p.n] {
					if seen++; one.token != tierlock.Token(seen) {
						t.Fatalf("note %d came at place %d", one.token, seen)
					}
				}
			}
		}
		if seen != room {
			t.Fatalf("%d came out, want %d", seen, room)
		}
	}
	if lost := n.lost.Load(); lost != 2 {
		t.Errorf("%d found no room, want 2", lost)
	}
}
