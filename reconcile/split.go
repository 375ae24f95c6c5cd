package reconcile

import (
	"cmp"
	"slices"

	"github.com/tierlock/tierlock/audit"
)

// SplitKeys groups holds of one business record that overlapped under different keys: each
// key was held by one holder at a time, and the record was not. It returns one finding for
// each group, by record and first grant, with cause split_key; overlaps under one key are
// [Overlaps]' and are left out. Holds that name no record are passed over. It is pure.
//
// A [Job] does not do this: the keys lie in different partitions, which may belong to
// different members. It is for whoever has all holds of a period, as [Gather] lists them;
// the report of package incident has.
func SplitKeys(rule Rule, holds []Interval) []Finding {
	rule = rule.withDefaults()
	var sorted []*Interval
	for i := range holds {
		if b := holds[i].Business; b.Type != "" && b.ID != "" && rule.counts(&holds[i]) {
			sorted = append(sorted, &holds[i])
		}
	}
	record := func(iv *Interval) audit.Business { return audit.Business{Type: iv.Business.Type, ID: iv.Business.ID} }
	slices.SortFunc(sorted, func(a, b *Interval) int {
		x, y := record(a), record(b)
		return cmp.Or(cmp.Compare(x.Type, y.Type), cmp.Compare(x.ID, y.ID), before(a, b))
	})
	var out []Finding
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && record(sorted[n]) == record(sorted[0]) {
			n++
		}
		for _, g := range groupsApart(&rule, sorted[:n]) {
			for f := range g.findings(&rule) {
				// The key is that of the earliest hold, as everywhere; members tell theirs.
				f.ID = idOf("split", f.Members[f.Carried].Business.Type, f.Members[f.Carried].Business.ID, f.ID)
				f.Digest = digest(&f)
				out = append(out, f)
			}
		}
		sorted = sorted[n:]
	}
	return out
}

// groupsApart is groups, of pairs under different keys only.
func groupsApart(rule *Rule, holds []*Interval) []group {
	if len(holds) == 1 {
		return nil
	}
	s := sweep{rule: rule, holds: holds, parent: make([]int, len(holds)), tallies: make([]tally, len(holds)), split: true}
	s.run()
	return s.components()
}
