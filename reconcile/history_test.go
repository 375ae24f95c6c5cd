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

// base is when made histories begin.
var base = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

// ttl of every hold here; none is longer, since none is renewed.
const ttl = 3 * time.Second

func key(tb testing.TB, s string) tierlock.Key {
	tb.Helper()
	k, err := tierlock.ParseKey(s)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// truth is one hold of a made history as it really was, and the interval that its
// producer's wrong clock makes of it.
type truth struct {
	from, to time.Time // true time
	seen     Interval
}

// history makes holds on a few keys by producers whose clocks are off by up to their
// stated error: holds of every tier, some of them long, some without an end event.
// Shared holds of one store never really overlap, unless twice is set.
func history(tb testing.TB, rng *rand.Rand, holds, keys int, twice bool) []truth {
	tb.Helper()
	type producer struct {
		name       string
		off, bound time.Duration
	}
	producers := make([]*producer, 4)
	for i := range producers {
		bound := time.Duration(1+rng.IntN(20)) * time.Millisecond
		producers[i] = &producer{name: fmt.Sprintf("p%d", i), bound: bound, off: time.Duration(rng.Int64N(int64(2*bound))) - bound}
	}
	var out []truth
	free := map[string]time.Time{} // when the shared store has the key free
	for i := range holds {
		p := producers[rng.IntN(len(producers))]
		k := fmt.Sprintf("biz:coupon:lock:k%d", rng.IntN(keys))
		from := base.Add(time.Duration(rng.Int64N(int64(time.Duration(holds) * 20 * time.Millisecond))))
		to := from.Add(time.Duration(rng.IntN(60_000)) * time.Microsecond)
		if rng.IntN(20) == 0 { // now and then a long one, which keeps windows open
			to = from.Add(time.Duration(rng.IntN(2_000)) * time.Millisecond)
		}
		tier := []tierlock.Tier{tierlock.Shared, tierlock.Local, tierlock.Bypass}[rng.IntN(3)]
		if tier == tierlock.Shared && !twice {
			if from.Before(free[k]) {
				length := to.Sub(from)
				from = free[k].Add(time.Duration(rng.IntN(500)) * time.Microsecond)
				to = from.Add(length)
			}
			free[k] = to
		}
		t := truth{from: from, to: to, seen: Interval{
			Event: fmt.Sprintf("%s/1/%d", p.name, i), Chain: "coupon", Key: key(tb, k), Holder: fmt.Sprintf("h%06d", i), Tier: tier,
			Store: tier.String(), Producer: p.name, Epoch: 1, GrantedAt: from.Add(p.off).Truncate(time.Microsecond), Error: p.bound,
			EndedAt: to.Add(p.off).Truncate(time.Microsecond), How: audit.Released, Outcome: outcomeOf(i),
		}}
		t.seen.Latest = t.seen.EndedAt
		if rng.IntN(20) == 0 {
			t.seen.EndedAt, t.seen.How, t.seen.Outcome = time.Time{}, "", ""
			t.seen.Latest = t.seen.GrantedAt.Add(ttl)
		}
		out = append(out, t)
	}
	number(out)
	return out
}

// outcomeOf is how the work of the nth hold ended: of every three, one was rolled back.
func outcomeOf(n int) audit.Work {
	return []audit.Work{audit.RolledBack, audit.Committed, audit.Unknown, audit.Committed, audit.RolledBack, audit.Committed}[n%6]
}

// number gives every event its producer's next seq, in the order in which they really were.
func number(all []truth) {
	type moment struct {
		at  time.Time
		set *uint64
		who string
	}
	var moments []moment
	for i := range all {
		t := &all[i]
		moments = append(moments, moment{t.from, &t.seen.AcquireSeq, t.seen.Producer})
		if !t.seen.EndedAt.IsZero() {
			moments = append(moments, moment{t.to, &t.seen.EndSeq, t.seen.Producer})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return a.at.Compare(b.at) })
	next := map[string]uint64{}
	for _, m := range moments {
		next[m.who]++
		*m.set = next[m.who]
	}
}

// overlap is how long two holds were really inside together; negative: how far apart.
func (t *truth) overlap(o *truth) time.Duration {
	from, to := t.from, t.to
	if o.from.After(from) {
		from = o.from
	}
	if o.to.Before(to) {
		to = o.to
	}
	return to.Sub(from)
}

func intervals(all []truth) []Interval {
	out := make([]Interval, len(all))
	for i := range all {
		out[i] = all[i].seen
	}
	return out
}

// together tells for every two holders whether one finding has both.
func together(findings []Finding) map[[2]string]bool {
	pairs := map[[2]string]bool{}
	for _, f := range findings {
		for _, a := range f.Members {
			for _, b := range f.Members {
				pairs[[2]string{a.Holder, b.Holder}] = true
			}
		}
	}
	return pairs
}
