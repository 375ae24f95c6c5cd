package main

import (
	"cmp"
	"slices"
)

// gathered is what all processes of one round did.
type gathered struct {
	locks    int // those to connect included
	turns    int
	overlaps int
	stalls   int
	delays   []float64 // µs
	commands map[string]int64
}

// add looks at every end of a lock that somebody waited for: how long until anybody had it?
func (g *gathered) add(turns []turn) {
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.Granted, b.Granted) })
	g.turns += len(turns)
	g.locks += len(turns)
	for i := range len(turns) - 1 {
		given, next := turns[i].Given, turns[i+1]
		if next.Granted < given {
			g.overlaps++
			continue
		}
		if slices.ContainsFunc(turns[i+1:], func(t turn) bool { return t.Asked < given }) {
			g.delays = append(g.delays, float64(next.Granted-given)/1000)
		}
	}
}

// at is a quantile of the delays, which must be sorted.
func (g *gathered) at(q float64) float64 { return g.delays[int(q*float64(len(g.delays)-1))] }

// perTurn is how many commands a lock took.
func (g *gathered) perTurn() float64 {
	var sent int64
	for _, n := range g.commands {
		sent += n
	}
	return float64(sent) / float64(max(g.locks, 1))
}

// handoverRow takes the medians over the rounds in which a lock was handed over.
func handoverRow(name string, processes int, rounds []*gathered) handoverResult {
	r := handoverResult{Impl: name, Processes: processes, Commands: map[string]int64{}}
	var half, late, each []float64
	for _, g := range rounds {
		r.Turns, r.Handovers, r.Overlaps, r.Stalls = r.Turns+g.turns, r.Handovers+len(g.delays), r.Overlaps+g.overlaps, r.Stalls+g.stalls
		for command, n := range g.commands {
			r.Commands[command] += n
		}
		each = append(each, g.perTurn())
		if len(g.delays) > 0 {
			slices.Sort(g.delays)
			half, late, r.Max = append(half, g.at(.5)), append(late, g.at(.99)), max(r.Max, tenth(g.at(1)))
		}
	}
	r.PerTurn, r.PerMin, r.PerMax = tenths(each)
	if len(half) > 0 {
		r.P50, r.P50Min, r.P50Max = tenths(half)
		r.P99, r.P99Min, r.P99Max = tenths(late)
	}
	return r
}

// tenths are the median, the least and the most of all, to one decimal.
func tenths(all []float64) (median, least, most float64) {
	s := spreadOver(all)
	return tenth(s.median), tenth(s.least), tenth(s.most)
}
