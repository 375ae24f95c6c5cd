package reconcile

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"time"
)

// Overlaps groups holds that overlapped, and returns one finding for each group, by key
// and first grant. Holds may come in any order and of any keys; two of the same holder are
// no conflict. It is pure: the same holds give the same findings.
//
// It sweeps each key's holds by start and looks at the pairs that are close in time only:
// O(n log n) and one look per such pair.
func Overlaps(rule Rule, holds []Interval) []Finding {
	rule = rule.withDefaults()
	sorted := make([]*Interval, 0, len(holds))
	for i := range holds {
		if rule.counts(&holds[i]) {
			sorted = append(sorted, &holds[i])
		}
	}
	slices.SortFunc(sorted, func(a, b *Interval) int {
		return cmp.Or(cmp.Compare(a.Key.String(), b.Key.String()), before(a, b))
	})
	var out []Finding
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && sorted[n].Key == sorted[0].Key {
			n++
		}
		for _, g := range groups(&rule, sorted[:n]) {
			out = slices.AppendSeq(out, g.findings(&rule))
		}
		sorted = sorted[n:]
	}
	return out
}

// group is a connected component of holds of one key: each is in a pair with at least one
// other, unless it is alone.
type group struct {
	members []*Interval // by grant
	at      []int       // their places in what groups was given
	tallies []tally     // of the pairs in which the member is the later one
}

// tally counts pairs.
type tally struct {
	pairs, certain, atRisk int
	causes                 causeSet
}

func (t *tally) add(o tally) {
	t.pairs += o.pairs
	t.certain += o.certain
	t.atRisk += o.atRisk
	t.causes |= o.causes
}

// groups finds the components of the holds of one key, which are sorted by grant. Holds
// that are in no pair come back as groups of one.
func groups(rule *Rule, holds []*Interval) []group {
	if len(holds) == 1 {
		return []group{{members: holds, at: []int{0}, tallies: make([]tally, 1)}}
	}
	s := sweep{rule: rule, holds: holds, parent: make([]int, len(holds)), tallies: make([]tally, len(holds))}
	s.run()
	return s.components()
}

// sweep is one pass over the holds of one key.
type sweep struct {
	rule    *Rule
	holds   []*Interval
	parent  []int // union-find over indexes into holds
	tallies []tally
	split   bool // holds are of one record, and pairs under one key are not looked for
}

// span is a hold stretched by its clock error, in whole microseconds, rounded outwards: it
// only picks the pairs that are worth a look.
type span struct {
	start, end int64
	hold       int
}

// run visits holds by stretched start and pairs each with those whose stretched end is
// still ahead: no others can be related to it.
func (s *sweep) run() {
	spans := make([]span, len(s.holds))
	for i, iv := range s.holds {
		s.parent[i] = i
		spans[i] = span{s.rule.start(iv).UnixMicro(), s.rule.end(iv).UnixMicro() + 1, i}
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	var active []span
	for _, x := range spans {
		kept := active[:0]
		for _, y := range active {
			if y.end > x.start {
				kept = append(kept, y)
				s.pair(min(x.hold, y.hold), max(x.hold, y.hold))
			}
		}
		active = append(kept, x)
	}
}

// start and end stretch a hold by its clock error.
func (r *Rule) start(iv *Interval) time.Time { return iv.GrantedAt.Add(-r.margin(iv)) }
func (r *Rule) end(iv *Interval) time.Time   { return iv.Latest.Add(r.margin(iv)) }

func (s *sweep) pair(a, b int) {
	first, second := s.holds[a], s.holds[b]
	if first.Holder == second.Holder || s.split && first.Key == second.Key {
		return
	}
	rel := s.rule.relate(first, second)
	if rel == apart {
		return
	}
	t := tally{pairs: 1, causes: causeOf(s.rule, first, second)}
	if s.split { // each key was held as it should be: tiers and ends say nothing of it
		if t.causes = bitSplitKey; lostUpdate(first, second) {
			t.causes |= bitUnguarded
		}
	}
	if rel == certain {
		t.certain = 1
	}
	if !first.undone() && !second.undone() {
		t.atRisk = 1
	}
	s.tallies[b].add(t)
	if ra, rb := s.root(a), s.root(b); ra != rb {
		s.parent[max(ra, rb)] = min(ra, rb)
	}
}

// root finds the earliest hold of i's component, halving the path on its way.
func (s *sweep) root(i int) int {
	for s.parent[i] != i {
		s.parent[i] = s.parent[s.parent[i]]
		i = s.parent[i]
	}
	return i
}

// components lists the groups by their earliest members, which are their roots.
func (s *sweep) components() []group {
	sizes, place := make([]int, len(s.holds)), make([]int, len(s.holds))
	n := 0
	for i := range s.holds {
		root := s.root(i)
		if sizes[root]++; root == i {
			place[root], n = n, n+1
		}
	}
	out := make([]group, n)
	for i, iv := range s.holds {
		root := s.root(i)
		g := &out[place[root]]
		if root == i {
			size := sizes[root]
			*g = group{make([]*Interval, 0, size), make([]int, 0, size), make([]tally, 0, size)}
		}
		g.members, g.at, g.tallies = append(g.members, iv), append(g.at, i), append(g.tallies, s.tallies[i])
	}
	return out
}

// findings makes one finding of the group, or a chain of parts where it has more than
// Rule.Group members; none of a hold that is alone. Each part shows again the members of
// earlier parts that may still be inside, so that both holds of every pair are in one part.
func (g *group) findings(rule *Rule) iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		if len(g.members) < 2 {
			return
		}
		state := StateHarmless // of all parts: the other hold of a pair may stand in another
		if slices.ContainsFunc(g.tallies, func(t tally) bool { return t.atRisk > 0 }) {
			state = StateOpen
		}
		for from := 0; from < len(g.members); from += rule.Group {
			f := g.part(rule, from, min(from+rule.Group, len(g.members)))
			f.State = state
			if from > 0 {
				f.Part = from/rule.Group + 1
			}
			if !yield(f) {
				return
			}
		}
	}
}

func (g *group) part(rule *Rule, from, to int) Finding {
	own := g.members[from:to]
	f := Finding{ID: overlapID(own[0]), Kind: KindOverlap, Chain: own[0].Chain, Key: own[0].Key}
	opens := rule.start(own[0])
	for _, iv := range own {
		if s := rule.start(iv); s.Before(opens) {
			opens = s
		}
	}
	for _, iv := range g.members[:from] {
		if rule.end(iv).After(opens) {
			f.Members = append(f.Members, *iv)
		}
	}
	f.Carried = len(f.Members)
	var sum tally
	for i, iv := range own {
		f.Members = append(f.Members, *iv)
		sum.add(g.tallies[from+i])
	}
	f.Pairs, f.CertainPairs, f.AtRiskPairs, f.Certain, f.Causes = sum.pairs, sum.certain, sum.atRisk, sum.certain > 0, causesOf(sum.causes)
	f.From, f.To, f.Depth = f.Members[0].GrantedAt, latest(f.Members), depth(f.Members)
	f.Digest = digest(&f)
	return f
}

func latest(members []Interval) time.Time {
	var t time.Time
	for i := range members {
		if members[i].Latest.After(t) {
			t = members[i].Latest
		}
	}
	return t
}

// digest is the same for findings that know the same of the same holds.
func digest(f *Finding) string {
	parts := []string{f.ID, strconv.Itoa(f.Pairs), strconv.Itoa(f.CertainPairs), strconv.Itoa(f.AtRiskPairs)}
	for i := range f.Members {
		m := &f.Members[i]
		parts = append(parts, m.Event, m.Holder, stamp(m.GrantedAt), stamp(m.Latest), string(m.How), string(m.Outcome))
	}
	return idOf(parts...)
}

// depth is the most members inside at once, by raw time.
func depth(members []Interval) int {
	ends := make([]time.Time, len(members))
	for i := range members {
		ends[i] = members[i].Latest
	}
	slices.SortFunc(ends, time.Time.Compare)
	most, gone := 0, 0
	for i := range members { // by grant
		for gone < len(ends) && !ends[gone].After(members[i].GrantedAt) {
			gone++
		}
		most = max(most, i+1-gone)
	}
	return most
}
