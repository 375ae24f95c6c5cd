package incident

import (
	"cmp"
	"encoding/json"
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
	base, top map[string]map[string]uint64
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
		t.base = refused(ev)
	case !t.final:
		t.top, t.final = refused(ev), !ev.At.Before(r.cfg.To)
	}
}

// refused reads the counts of a heartbeat, by chain and answer; other text is none.
func refused(ev *audit.Event) (by map[string]map[string]uint64) {
	if text, told := ev.Extra["refused"]; told && json.Unmarshal(text, &by) != nil {
		return nil
	}
	return by
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
