package reconcile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// recordHold is a shared hold of one key for one record, in ms.
func recordHold(tb testing.TB, holder, producer, lock, record string, from, to int) Interval {
	tb.Helper()
	iv := at(tb, holder, tierlock.Shared, producer, from, to)
	iv.Key = key(tb, "biz:pay:lock:"+lock)
	iv.Business = audit.Business{Type: "payment", ID: record}
	return iv
}

// Two services that lock a payment by its order and by its user have each a lock to
// themselves, and the payment is open to both.
func TestOneRecordUnderTwoKeysIsFound(t *testing.T) {
	byOrder, byUser := recordHold(t, "a", "p", "o1", "m1", 0, 100), recordHold(t, "b", "q", "u1", "m1", 50, 150)
	after := recordHold(t, "c", "p", "o1", "m1", 400, 500)
	other, nameless := recordHold(t, "d", "q", "u2", "m2", 0, 100), recordHold(t, "e", "q", "u3", "", 0, 100)
	holds := []Interval{byOrder, byUser, after, other, nameless}
	if got := Overlaps(Rule{}, holds); len(got) != 0 {
		t.Fatalf("by key: %+v", got)
	}
	got := SplitKeys(Rule{}, holds)
	if len(got) != 1 || len(got[0].Members) != 2 || !got[0].Certain || !slices.Equal(got[0].Causes, []Cause{CauseSplitKey}) {
		t.Fatalf("by record: %+v", got)
	}
	if got[0].ID == overlapID(&byOrder) {
		t.Error("it has the id that an overlap under the first key would have")
	}
	before := ver(7)
	byOrder.Outcome, byOrder.Business.Before = audit.Committed, before
	byUser.Outcome, byUser.Business.Before = audit.Committed, before
	if got := SplitKeys(Rule{}, []Interval{byUser, byOrder}); len(got) != 1 || !slices.Equal(got[0].Causes, []Cause{CauseUnguarded, CauseSplitKey}) {
		t.Errorf("both from version 7: %+v", got)
	}
}

// What one store or one process knows of the order of one key says nothing of two.
func TestTwoKeysAreNoHandOver(t *testing.T) {
	a, b := recordHold(t, "a", "p", "o1", "m1", 0, 100), recordHold(t, "b", "q", "u1", "m1", 101, 200)
	a.Error, b.Error = 5*time.Millisecond, 5*time.Millisecond
	if got := SplitKeys(Rule{}, []Interval{a, b}); len(got) != 1 || got[0].Certain {
		t.Errorf("within the clocks' error: %+v", got)
	}
	b.Key = a.Key
	if got := Overlaps(Rule{}, []Interval{a, b}); len(got) != 0 {
		t.Errorf("handed over: %+v", got)
	}
	same := recordHold(t, "c", "p", "u1", "m1", 50, 150)
	a.AcquireSeq, a.EndSeq, same.AcquireSeq, same.EndSeq = 1, 2, 3, 4 // though c's was granted before a's end
	if got := SplitKeys(Rule{}, []Interval{a, same}); len(got) != 1 || got[0].Certain {
		t.Errorf("inside one process: %+v", got)
	}
}

func TestSplitKeysAgreeWithEveryPair(t *testing.T) {
	rule := Rule{}.withDefaults()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var holds []Interval
		for i := range 30 {
			from := rng.IntN(1000)
			holds = append(holds, recordHold(t, fmt.Sprint("h", i), fmt.Sprint("p", rng.IntN(4)), fmt.Sprint("k", rng.IntN(4)), fmt.Sprint("m", rng.IntN(3)), from, from+1+rng.IntN(120)))
		}
		pairs, certain := 0, 0
		for i := range holds {
			for j := range holds[:i] {
				a, b := &holds[i], &holds[j]
				if a.Key == b.Key || a.Business.ID != b.Business.ID {
					continue
				}
				switch rule.relate(a, b) {
				case certainly:
					certain++
					fallthrough
				case possible:
					pairs++
				}
			}
		}
		gotPairs, gotCertain := 0, 0
		for _, f := range SplitKeys(Rule{}, holds) {
			gotPairs, gotCertain = gotPairs+f.Pairs, gotCertain+f.CertainPairs
			for i := range f.Members {
				if f.Members[i].Business.ID != f.Members[0].Business.ID {
					t.Fatalf("seed %d: two records in one finding", seed)
				}
			}
		}
		if gotPairs != pairs || gotCertain != certain {
			t.Fatalf("seed %d: %d pairs, %d certain; want %d, %d", seed, gotPairs, gotCertain, pairs, certain)
		}
	}
}

const certainly = certain
