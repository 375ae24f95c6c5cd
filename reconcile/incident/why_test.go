package incident

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
)

// story: one coupon under an order, claimed twice at once, and otherwise one at a time; a
// second key of the same record; a neighbour on the first one.
func story(t *testing.T) *stream {
	t.Helper()
	s := newStream(t)
	return s.lives(func(minute int) {
		switch minute {
		case 2:
			s.hold("shop-1", span{tier: tierlock.Shared, id: "u1", from: at(2 * time.Minute), last: time.Second, outcome: audit.Committed})
		case 6:
			s.hold("shop-1", bypass("u1", 6*time.Minute, time.Second))
			s.hold("shop-2", bypass("u1", 6*time.Minute+200*time.Millisecond, time.Second))
			s.hold("shop-2", bypass("u2", 6*time.Minute, time.Second))
		case 25:
			s.hold("shop-1", span{tier: tierlock.Local, id: "u1", from: at(25 * time.Minute), reason: tierlock.ReasonDown})
		}
	}).sealed()
}

func why(t *testing.T, s *stream, q Question) *Answer {
	t.Helper()
	var opened []*closed
	q.Open = func(only []int) (Closed, error) {
		c := s.source()
		c.only = only
		opened = append(opened, c)
		return c, nil
	}
	a, err := Why(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(opened); n == 2 && len(opened[1].only) == 0 {
		t.Error("the second reading is not of the key's partition alone")
	}
	return a
}

// Two services lock one coupon under different keys: each had a lock to itself, and no
// finding of a key tells of it.
func TestWhyTellsOfOneRecordUnderTwoKeys(t *testing.T) {
	s := newStream(t)
	s = s.lives(func(minute int) {
		if minute == 6 {
			s.hold("shop-1", span{tier: tierlock.Shared, id: "u1", from: at(6 * time.Minute), last: time.Second})
			s.hold("shop-2", span{tier: tierlock.Shared, id: "u1", under: "cart-9", from: at(6*time.Minute + 200*time.Millisecond), last: time.Second})
			s.hold("shop-2", span{tier: tierlock.Shared, id: "u2", under: "cart-8", from: at(6 * time.Minute), last: time.Second})
		}
	}).sealed()
	a := why(t, s, Question{Type: "coupon", ID: "u1", At: at(6*time.Minute + 500*time.Millisecond)})
	if len(a.Keys) != 2 || len(a.Holds) != 2 || len(a.Conflicts) != 0 {
		t.Fatalf("%+v", a)
	}
	for i, h := range a.Holds {
		if len(h.Overlaps) != 1 || !h.Overlaps[0].Certain || len(h.Overlaps[0].Causes) != 1 || h.Overlaps[0].Causes[0] != reconcile.CauseSplitKey {
			t.Errorf("hold %d: %+v", i, h.Overlaps)
		}
	}
}

func TestWhyTellsWhoWasInside(t *testing.T) {
	a := why(t, story(t), Question{Type: "coupon", ID: "u1", At: at(6*time.Minute + 500*time.Millisecond)})
	if !a.Complete || len(a.Keys) != 1 || len(a.Holds) != 4 || len(a.Conflicts) != 1 {
		t.Fatalf("%+v", a)
	}
	for i, want := range []string{WhenBefore, WhenHeld, WhenHeld, WhenAfter} {
		if a.Holds[i].When != want {
			t.Errorf("hold %d: %s, want %s", i, a.Holds[i].When, want)
		}
	}
	first := a.Holds[1]
	if first.Hold.Producer != "shop-1" || first.Why != "let through: by the operators' order of version 7 (store under attack), reason forced; nobody was excluded" {
		t.Errorf("%+v", first)
	}
	if len(first.Overlaps) != 1 || !first.Overlaps[0].Certain || first.Overlaps[0].Holder != a.Holds[2].Hold.Holder || len(first.Findings) != 1 {
		t.Errorf("overlaps %+v, findings %v", first.Overlaps, first.Findings)
	}
	if after := a.Holds[3]; after.Why != "locked inside shop-1 alone: reason down" || len(after.Overlaps) != 0 {
		t.Errorf("%+v", after)
	}
	if before := a.Holds[0]; before.Why != "granted by the store shared" {
		t.Errorf("%+v", before)
	}
	var text bytes.Buffer
	if err := a.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"who held coupon:u1 at 2026-11-29T10:06:00.500Z", "held         2026-11-29T10:06:00.200Z to 2026-11-29T10:06:01.200Z, bypass", "its end was not told", "complete     yes"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
}

func TestWhyByKeyAlone(t *testing.T) {
	a := why(t, story(t), Question{Key: key(t, "u2"), At: at(6*time.Minute + 500*time.Millisecond)})
	if len(a.Holds) != 1 || a.Holds[0].Hold.Producer != "shop-2" || a.Holds[0].When != WhenHeld || len(a.Conflicts) != 0 {
		t.Errorf("%+v", a)
	}
}

func TestWhyOfAHoldThatNobodyEnded(t *testing.T) {
	a := why(t, story(t), Question{ID: "u1", At: at(25*time.Minute + 5*time.Second)})
	last := a.Holds[len(a.Holds)-1]
	if last.When != WhenMaybe || last.Hold.Tier != tierlock.Local {
		t.Errorf("%+v", last)
	}
}

func TestWhyTellsRepairsAndWhatIsMissing(t *testing.T) {
	s := story(t)
	q := Question{ID: "u1", At: at(6*time.Minute + 500*time.Millisecond)}
	f := why(t, s, q).Conflicts[0]
	loser := f.Members[1].Event
	q.Store = &table{findings: []reconcile.Finding{{
		ID: f.ID, Kind: reconcile.KindOverlap, State: reconcile.StateRepaired, Key: f.Key, Members: f.Members, From: f.From, To: f.To,
		Repairs: []reconcile.Repair{{Key: "k", Loser: loser, Result: reconcile.ResultApplied, Wrong: 1}},
	}}}
	a := why(t, s, q)
	if a.Holds[2].Action != "repair applied" || a.Conflicts[0].State != reconcile.StateRepaired {
		t.Errorf("%+v", a)
	}

	s = newStream(t)
	s.lives(func(minute int) {
		if minute == 6 {
			s.hold("shop-1", bypass("u1", 6*time.Minute, time.Second))
			lost := bypass("u1", 6*time.Minute+200*time.Millisecond, 0)
			lost.lost = true
			s.hold("shop-2", lost)
		}
	}).sealed()
	a = why(t, s, q)
	if a.Complete || len(a.Missing) != 1 || !strings.Contains(a.Missing[0], "shop-2") {
		t.Errorf("missing %v", a.Missing)
	}
	if a = why(t, s, Question{ID: "nobody", At: begin}); a.Complete || len(a.Missing) != 1 {
		t.Errorf("%+v", a)
	}
	_, err := Why(t.Context(), Question{Longest: -1})
	if n := len(tierlock.Invalids(err)); n != 4 {
		t.Errorf("%d faults: %v", n, err)
	}
}
