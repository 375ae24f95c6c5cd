package reconcile

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tierlock/tierlock"
)

// A brief finding has both ends, counts the rest, and names the same findings as absorbed.
func TestABriefFindingNamesWhatItTookIn(t *testing.T) {
	var holds []Interval
	for i := range 100 {
		iv := at(t, fmt.Sprint("h", i), tierlock.Bypass, "p", i, 1000)
		holds = append(holds, iv)
	}
	parts := Overlaps(Rule{Group: 60}, holds)
	for n, f := range parts {
		f.Repairs = make([]Repair, 30)
		for _, keep := range []int{2, 3, 7, 20, 50, 99, 200} {
			b := f.Brief(keep, true)
			if got := len(b.Members) + b.Omitted; got != len(f.Members) || len(b.Members) > keep+keep/4 || len(b.Repairs)+b.OmittedRepairs != len(f.Repairs) {
				t.Errorf("part %d, keep %d: %d members and %d omitted of %d, repairs %d and %d", n, keep, len(b.Members), b.Omitted, len(f.Members), len(b.Repairs), b.OmittedRepairs)
			}
			if b.Members[b.Carried].Holder != f.Members[f.Carried].Holder || b.Members[len(b.Members)-1].Holder != f.Members[len(f.Members)-1].Holder {
				t.Errorf("part %d, keep %d: not both ends", n, keep)
			}
			want, got := f.Supersedes(), b.Supersedes()
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("part %d, keep %d: names %d findings, want %d", n, keep, len(got), len(want))
			}
			if again := b.Brief(2, false); len(again.Members)+again.Omitted != len(f.Members) || len(again.Absorbed) != 0 {
				t.Errorf("part %d, keep %d, then 2: %d members, %d omitted", n, keep, len(again.Members), again.Omitted)
			}
		}
	}
	if len(parts) != 2 || parts[1].Carried == 0 {
		t.Fatalf("a weak case: %d parts", len(parts))
	}
}
