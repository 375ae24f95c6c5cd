package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/tierlock/tierlock/reconcile"
)

// verdicts keeps of each finding who is in it and how many of its pairs are certain. It
// implements reconcile.Findings.
type verdicts struct {
	groups  int
	groupOf map[int]int // hold number → group
	certain []int       // pairs, by group
}

// Put takes one finding; each is given out once, since no event of the stream is late.
// Parts of one group begin with holds of the part before.
func (v *verdicts) Put(_ context.Context, f reconcile.Finding) error {
	if f.Kind != reconcile.KindOverlap {
		return nil
	}
	if v.groupOf == nil {
		v.groupOf = map[int]int{}
	}
	group := v.groups
	for i := range f.Members {
		number, err := strconv.ParseInt(f.Members[i].Holder, 16, 64)
		if err != nil {
			return err
		}
		if i < f.Carried {
			group = v.groupOf[int(number)]
			continue
		}
		v.groupOf[int(number)] = group
	}
	if group == v.groups {
		v.groups++
		v.certain = append(v.certain, 0)
	}
	v.certain[group] += f.CertainPairs
	return nil
}

// truth is the made history as it really was, by key and start.
type truth struct {
	holds  []numbered
	clocks []madeClock
}

type numbered struct {
	madeHold
	number int
}

func truthOf(seed uint64, holds int) truth {
	m := newMaker(seed, holds)
	t := truth{holds: make([]numbered, holds), clocks: m.clocks}
	for i := range t.holds {
		t.holds[i] = numbered{m.next(), i}
	}
	slices.SortFunc(t.holds, func(a, b numbered) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.from, b.from), cmp.Compare(a.number, b.number))
	})
	return t
}

// judge counts what the findings have wrong. A pair must be told as certain when both ends
// are known and it overlapped by more than twice both clocks' bounds; inside one process,
// by more than the resolution of its clock. It must not be when it did not overlap.
func (v *verdicts) judge(t truth) (missed, wrong int) {
	must, really := make([]int, v.groups), make([]int, v.groups)
	var active []*numbered
	for i := range t.holds {
		b := &t.holds[i]
		kept := active[:0]
		for _, a := range active {
			if a.key != b.key || a.to <= b.from {
				continue
			}
			kept = append(kept, a)
			if a.crashed || b.crashed {
				continue
			}
			group, known := v.groupOf[a.number]
			if other, too := v.groupOf[b.number]; !known || !too || other != group {
				if min(a.to, b.to)-b.from > t.margin(a, b) {
					missed++
				}
				continue
			}
			really[group]++
			if min(a.to, b.to)-b.from > t.margin(a, b) {
				must[group]++
			}
		}
		active = append(kept, b)
	}
	for g, certain := range v.certain {
		missed += max(0, must[g]-certain)
		wrong += max(0, certain-really[g])
	}
	return missed, wrong
}

func (t *truth) margin(a, b *numbered) int64 {
	const resolution = 2 * time.Microsecond
	if a.producer == b.producer {
		return int64(resolution)
	}
	return int64(2*(t.clocks[a.producer].bound+t.clocks[b.producer].bound) + 2*resolution)
}
