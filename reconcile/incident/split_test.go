package incident

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
)

// makeSplit makes a report that looks at so many holds of records under several keys at once.
func makeSplit(t *testing.T, s *stream, most int) *Report {
	t.Helper()
	cfg := Config{From: begin, To: at(30 * time.Minute), Author: "kim", Source: s.source()}
	m := newMaker(cfg.withDefaults())
	m.mostSplit = most
	r, err := m.make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOneRecordUnderTwoKeysIsAConflict(t *testing.T) {
	shared := func(id, under string, from, last time.Duration) span {
		return span{tier: tierlock.Shared, id: id, under: under, from: at(from), last: last}
	}
	s := newStream(t).lives(nil)
	const m = time.Minute
	s.hold("shop-1", shared("u1", "u1", 6*m, time.Second))
	s.hold("shop-2", shared("u1", "cart-9", 6*m+200*time.Millisecond, time.Second))
	s.hold("shop-2", shared("u2", "cart-8", 6*m, time.Second)) // another record
	s.hold("shop-1", shared("u3", "u3", 7*m, time.Second))     // two keys, one after the other
	s.hold("shop-2", shared("u3", "cart-7", 8*m, time.Second))
	s.hold("shop-1", shared("out", "o1", -10*m, time.Second)) // before the period
	s.hold("shop-2", shared("out", "o2", -10*m, time.Second))
	s.hold("shop-1", shared("late", "l1", 30*m-time.Second, 9*time.Second)) // the second one after it
	s.hold("shop-2", shared("late", "l2", 30*m+time.Second, time.Second))
	s.hold("shop-1", shared("later", "l3", 30*m-time.Second, 9*time.Second)) // one key in, and again after it
	s.hold("shop-2", shared("later", "l3", 31*m, time.Second))
	s.sealed()
	r := makeSplit(t, s, mostSplit)
	var ids []string
	for i := range r.Conflicts {
		c := &r.Conflicts[i]
		ids = append(ids, c.Business...)
		if !c.Certain || c.Holds != 2 || c.Pairs != 1 || !c.Open || c.Where != Found || !slices.Equal(c.Causes, []reconcile.Cause{reconcile.CauseSplitKey}) ||
			c.Members[0].Key == c.Members[1].Key {
			t.Errorf("%+v", c)
		}
	}
	if !slices.Equal(ids, []string{"coupon:u1", "coupon:late"}) {
		t.Errorf("conflicts of %v", ids)
	}
	if r.Causes["split_key"] != 2 || r.Total.Conflicts != 2 || r.Total.Certain != 2 || !r.Certificate.Complete {
		t.Errorf("causes %v, total %+v, %+v", r.Causes, r.Total, r.Certificate)
	}
	if len(r.Amounts) != 1 || r.Amounts[0].AtRisk != 4 { // one losing hold of each, at 2
		t.Errorf("amounts %+v", r.Amounts)
	}
	for i := range r.Records {
		if x := &r.Records[i]; (len(x.Conflicts) > 0) != (x.ID == "u1" || x.ID == "late") {
			t.Errorf("record %s: conflicts %v", x.ID, x.Conflicts)
		}
	}
}

// An overlap under one key and one of the same record under two are two findings, and
// neither hides the other.
func TestAnOverlapByKeyAndOneByRecordStandBesideEachOther(t *testing.T) {
	s := newStream(t).lives(nil)
	from := 6 * time.Minute
	s.hold("shop-2", span{tier: tierlock.Shared, id: "u1", under: "cart", from: at(from), last: time.Second})
	s.hold("shop-1", bypass("u1", from+100*time.Millisecond, time.Second))
	s.hold("shop-2", bypass("u1", from+200*time.Millisecond, time.Second))
	s.sealed()
	r := makeSplit(t, s, 1)
	if len(r.Conflicts) != 2 || r.Conflicts[0].Holds != 3 || r.Conflicts[1].Holds != 2 || r.Causes["split_key"] != 1 || r.Causes["bypass"] != 1 {
		t.Fatalf("%+v", r.Conflicts)
	}
	if len(r.Records) != 1 || len(r.Records[0].Conflicts) != 2 || r.Records[0].AtRisk != 4 { // a hold that loses in both loses once
		t.Errorf("%+v", r.Records)
	}
}

// However few holds are looked at together, and whatever is read twice, the conflicts are
// those that the rule finds with all holds in hand.
func TestSplitKeysOfAPeriodAreThoseOfAllHoldsInHand(t *testing.T) {
	for round := range 20 {
		rng := rand.New(rand.NewPCG(uint64(round), 7))
		s := newStream(t).lives(nil)
		var gather reconcile.Gather
		for range 300 {
			x := span{
				tier: tierlock.Shared, id: fmt.Sprint("r", rng.IntN(12)), from: at(time.Minute + time.Duration(rng.IntN(60_000))*time.Millisecond),
				last: time.Duration(1+rng.IntN(400)) * time.Millisecond, unsure: rng.IntN(4) == 0,
			}
			x.under = fmt.Sprint("k", rng.IntN(8))
			s.hold([]string{"shop-1", "shop-2"}[rng.IntN(2)], x)
		}
		s.sealed()
		var parser audit.Parser
		for _, part := range s.records {
			for i := range part {
				if ev, err := parser.Parse(part[i].Value); err == nil {
					gather.Take(&ev)
				}
			}
		}
		want := map[string]int{}
		for _, f := range reconcile.SplitKeys(reconcile.Rule{}, gather.Holds()) {
			want[f.ID] = f.Pairs
		}
		if len(want) < 10 {
			t.Fatalf("a weak case: %d", len(want))
		}
		for _, most := range []int{1, 70, mostSplit} {
			got := map[string]int{}
			for _, c := range makeSplit(t, s, most).Conflicts {
				if slices.Contains(c.Causes, reconcile.CauseSplitKey) {
					got[c.ID] = c.Pairs
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("round %d, %d at once: got %v, want %v", round, most, got, want)
			}
		}
	}
}

// What retention takes between the two readings is told.
func TestWhatTheSecondReadingMissesIsAGap(t *testing.T) {
	s := newStream(t)
	s.lives(func(minute int) {
		if minute == 1 {
			s.hold("shop-1", span{tier: tierlock.Shared, id: "u1", from: at(time.Minute), last: time.Second})
			s.hold("shop-2", span{tier: tierlock.Shared, id: "u1", under: "u2", from: at(time.Minute), last: time.Second})
		}
	}).sealed()
	source := &shrinking{closed: s.source()}
	r := make1(t, s, func(c *Config) { c.Source = source })
	if g := r.Certificate.Gaps; r.Certificate.Complete || len(g) != 1 || g[0].Cause != "retention" || g[0].Count != 5 {
		t.Errorf("%+v", g)
	}
}

// shrinking loses five records when it is rewound.
type shrinking struct {
	*closed
	lost bool
}

func (s *shrinking) Rewind(ctx context.Context, p int) error {
	s.lost = true
	return s.closed.Rewind(ctx, p)
}

func (s *shrinking) Next(ctx context.Context) (reconcile.Batch, error) {
	b, err := s.closed.Next(ctx)
	if s.lost && !errors.Is(err, io.EOF) {
		s.lost, b.Lost = false, []reconcile.Loss{{Partition: 1, From: 0, To: 5}}
	}
	return b, err
}
