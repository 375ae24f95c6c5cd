//go:build !nodemo

package demo

import (
	"github.com/tierlock/tierlock/examples/order"
	"github.com/tierlock/tierlock/reconcile"
)

// standing leaves out what a later finding took in, and what is no overlap.
func standing(all []reconcile.Finding) []reconcile.Finding {
	var out []reconcile.Finding
	for _, f := range all {
		if f.Kind == reconcile.KindOverlap && f.State != reconcile.StateSuperseded && f.State != reconcile.StateWithdrawn {
			out = append(out, f)
		}
	}
	return out
}

// compareConflicts holds the findings against the oracle.
func compareConflicts(holds []*hold, findings []reconcile.Finding, r *ConflictReport) {
	pairs := overlaps(holds, (*hold).inner, tolerance)
	r.Oracle, r.Found = groups(pairs), len(findings)
	byRef := map[ref]*hold{}
	for _, h := range holds {
		byRef[h.ref()] = h
	}
	in := map[ref]map[int]bool{} // hold → findings it is in
	for i, f := range findings {
		if f.Certain && !possible(f, byRef) {
			r.False++
		}
		for _, m := range f.Members {
			at := refOf(m.Key, m.Holder)
			if in[at] == nil {
				in[at] = map[int]bool{}
			}
			in[at][i] = true
		}
	}
	for _, p := range pairs {
		if !together(in[p.a.ref()], in[p.b.ref()]) {
			r.Missed++
		}
	}
}

func (h *hold) ref() ref { return refOf(h.key, h.id.Fingerprint()) }

// together tells whether two holds are in one finding.
func together(a, b map[int]bool) bool {
	for i := range a {
		if b[i] {
			return true
		}
	}
	return false
}

// possible tells whether any two of a finding's members can have overlapped at all.
func possible(f reconcile.Finding, byRef map[ref]*hold) bool {
	var members []*hold
	for _, m := range f.Members {
		if h := byRef[refOf(m.Key, m.Holder)]; h != nil {
			members = append(members, h)
		}
	}
	return len(overlaps(members, func(h *hold) span { return h.outer }, 0)) > 0
}

// strongOverlaps counts the pairs of holds of the strong chain that were inside at once,
// whatever their tier: one below shared would be a fault already, and must not hide.
func strongOverlaps(holds []*hold) int {
	var strong []*hold
	for _, h := range holds {
		if h.chain == order.Chain {
			strong = append(strong, h)
		}
	}
	return len(overlaps(strong, (*hold).inner, 0))
}
