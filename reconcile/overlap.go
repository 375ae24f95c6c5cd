package reconcile

import (
	"cmp"
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
		if rule.counts(holds[i].Tier) {
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
			out = append(out, g.findings(&rule)...)
		}
		sorted = sorted[n:]
	}
	return out
}

// group is a connected component of holds of one key: each is in a pair with at least one
// other, unless it is alone.
type group struct {
	members []*Interval // by grant
	tallies []tally     // of the pairs in which the member is the later one
}

// tally counts pairs.
type tally struct {
	pairs, certain int
	causes         uint8
}

func (t *tally) add(o tally) {
	t.pairs += o.pairs
	t.certain += o.certain
	t.causes |= o.causes
}

// groups finds the components of the holds of one key, which are sorted by grant. Holds
// that are in no pair come back as groups of one.
func groups(rule *Rule, holds []*Interval) []group {
	s := sweep{rule: rule, holds: holds, parent: make([]int, len(holds)), tallies: make([]tally, len(holds))}
	for i := range s.parent {
		s.parent[i] = i
	}
	s.run()
	return s.components()
}

// sweep is one pass over the holds of one key.
type sweep struct {
	rule    *Rule
	holds   []*Interval
	parent  []int // union-find over indexes into holds
	tallies []tally
}

// run visits holds by stretched start and pairs each with those whose stretched end is
// still ahead: no others can be related to it.
func (s *sweep) run() {
	order := make([]int, len(s.holds))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return s.start(a).Compare(s.start(b)) })
	var active []int
	for _, x := range order {
		start := s.start(x)
		active = slices.DeleteFunc(active, func(y int) bool { return !s.end(y).After(start) })
		for _, y := range active {
			s.pair(min(x, y), max(x, y))
		}
		active = append(active, x)
	}
}

func (s *sweep) start(i int) time.Time { return s.rule.start(s.holds[i]) }
func (s *sweep) end(i int) time.Time   { return s.rule.end(s.holds[i]) }

// start and end stretch a hold by its clock error.
func (r *Rule) start(iv *Interval) time.Time { return iv.GrantedAt.Add(-r.margin(iv)) }
func (r *Rule) end(iv *Interval) time.Time   { return iv.Latest.Add(r.margin(iv)) }

func (s *sweep) pair(a, b int) {
	first, second := s.holds[a], s.holds[b]
	if first.Holder == second.Holder {
		return
	}
	rel := s.rule.relate(first, second)
	if rel == apart {
		return
	}
	t := tally{pairs: 1, causes: causeOf(first, second)}
	if rel == certain {
		t.certain = 1
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

func (s *sweep) components() []group {
	var out []group
	at := make(map[int]int, len(s.holds))
	for i, iv := range s.holds {
		root := s.root(i)
		n, known := at[root]
		if !known {
			n = len(out)
			at[root] = n
			out = append(out, group{})
		}
		out[n].members = append(out[n].members, iv)
		out[n].tallies = append(out[n].tallies, s.tallies[i])
	}
	return out
}

// findings makes one finding of the group, or a chain of parts where it has more than
// Rule.Group members; none of a hold that is alone. Each part shows again the members of
// earlier parts that may still be inside, so that both holds of every pair are in one part.
func (g *group) findings(rule *Rule) []Finding {
	if len(g.members) < 2 {
		return nil
	}
	var out []Finding
	for from := 0; from < len(g.members); from += rule.Group {
		to := min(from+rule.Group, len(g.members))
		f := g.part(rule, from, to)
		if from > 0 {
			f.Part = len(out) + 1
		}
		out = append(out, f)
	}
	return out
}

func (g *group) part(rule *Rule, from, to int) Finding {
	own := g.members[from:to]
	f := Finding{ID: overlapID(own[0]), Kind: KindOverlap, State: StateOpen, Chain: own[0].Chain, Key: own[0].Key}
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
	f.Pairs, f.CertainPairs, f.Certain, f.Causes = sum.pairs, sum.certain, sum.certain > 0, causesOf(sum.causes)
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
	parts := []string{f.ID, strconv.Itoa(f.Pairs), strconv.Itoa(f.CertainPairs)}
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
