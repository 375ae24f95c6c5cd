package incident

import (
	"cmp"
	"slices"

	"github.com/tierlock/tierlock/audit"
)

// refusals are the requests without a grant, which leave no event of their own: heartbeats
// count them since their epoch began.
type refusals struct {
	cfg *Config
	by  map[epochOf]*tallies
}

type epochOf struct {
	producer string
	epoch    uint64
}

// tallies are the counts of one epoch where the period begins and where it ends.
type tallies struct {
	base, top audit.Refused
	final     bool // top is of a heartbeat after the period
}

func newRefusals(cfg *Config) refusals { return refusals{cfg: cfg, by: map[epochOf]*tallies{}} }

func (r *refusals) hear(ev *audit.Event) {
	id := epochOf{ev.Producer, ev.Epoch}
	t := r.by[id]
	if t == nil {
		t = &tallies{}
		r.by[id] = t
	}
	switch {
	case ev.At.Before(r.cfg.From):
		t.base = ev.Refused
	case !t.final:
		t.top, t.final = ev.Refused, !ev.At.Before(r.cfg.To)
	}
}

// list sums what was counted between the last heartbeat before the period and the first
// after it.
func (r *refusals) list() []Refused {
	sums := map[[2]string]uint64{}
	for _, t := range r.by {
		for chain, answers := range t.top {
			for answer, n := range answers {
				if was := t.base[chain][answer]; n > was {
					sums[[2]string{chain, answer}] += n - was
				}
			}
		}
	}
	out := []Refused{}
	for id, n := range sums {
		out = append(out, Refused{Chain: id[0], Answer: id[1], Count: int(n)})
	}
	slices.SortFunc(out, func(a, b Refused) int {
		return cmp.Or(cmp.Compare(a.Chain, b.Chain), cmp.Compare(a.Answer, b.Answer))
	})
	return out
}
