//go:build !nodemo

package demo

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierlock/tierlock"
)

// tolerance is how long two inner spans of a weak chain must overlap to count as missed.
const tolerance = time.Millisecond

// pair are two holds of one key that overlapped.
type pair struct{ a, b *hold }

// overlaps returns the pairs of one key whose spans overlap by more than least.
func overlaps(holds []*hold, of func(*hold) span, least time.Duration) []pair {
	byKey := map[tierlock.Key][]*hold{}
	for _, h := range holds {
		byKey[h.key] = append(byKey[h.key], h)
	}
	var pairs []pair
	for _, same := range byKey {
		slices.SortFunc(same, func(a, b *hold) int { return cmp.Compare(of(a).from, of(b).from) })
		var inside []*hold
		for _, h := range same {
			s := of(h)
			inside = slices.DeleteFunc(inside, func(other *hold) bool { return of(other).to <= s.from })
			for _, other := range inside {
				if min(of(other).to, s.to)-s.from > int64(least) {
					pairs = append(pairs, pair{other, h})
				}
			}
			inside = append(inside, h)
		}
	}
	return pairs
}

// groups counts the sets of holds that are connected through pairs.
func groups(pairs []pair) int {
	parent := map[*hold]*hold{}
	var root func(*hold) *hold
	root = func(h *hold) *hold {
		p, ok := parent[h]
		if !ok || p == h {
			parent[h] = h
			return h
		}
		p = root(p)
		parent[h] = p
		return p
	}
	n := 0
	for _, p := range pairs {
		for _, h := range []*hold{p.a, p.b} {
			if _, known := parent[h]; !known {
				parent[h] = h
				n++
			}
		}
		if a, b := root(p.a), root(p.b); a != b {
			parent[a] = b
			n--
		}
	}
	return n
}
