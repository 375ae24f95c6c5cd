package drills

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
)

// heard keeps what an instance's hooks told.
type heard struct {
	mu    sync.Mutex
	steps []gateway.StepInfo  // guarded by mu
	took  map[string][]answer // by chain; guarded by mu
}

// answer is how long a caller's answer took, without what the process did not get to run, and
// how much of that it waited for another holder of its key: that is its own budget, up to the
// policy's wait, and no fault of the store makes it longer.
type answer struct{ took, waited time.Duration }

func (h *heard) hooks() gateway.Hooks {
	return gateway.Hooks{
		Stepped: h.stepped,
		Acquired: func(a gateway.AcquireInfo) {
			now := time.Now()
			took := a.Took - beat.Stalled(now.Add(-a.Took), now)
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.took == nil {
				h.took = map[string][]answer{}
			}
			h.took[a.Chain] = append(h.took[a.Chain], answer{took, a.Waited})
		},
	}
}

func (h *heard) stepped(s gateway.StepInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps = append(h.steps, s)
}

// of are the edges of one chain.
func (h *heard) of(chain string) []gateway.StepInfo {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.steps), func(s gateway.StepInfo) bool { return s.Chain != chain })
}

// reached is when the chain first came to a state after that moment; ok is false if never.
func (h *heard) reached(chain string, state degrade.State, after time.Time) (at time.Time, ok bool) {
	for _, s := range h.of(chain) {
		if s.To == state && s.At.After(after) {
			return s.At, true
		}
	}
	return at, false
}

// p99 of a chain's answers since it was last asked: as the caller had them, and without the
// wait for another holder.
func (h *heard) p99(chain string) (whole, own time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.took[chain]
	delete(h.took, chain)
	if len(all) == 0 {
		return 0, 0
	}
	of := func(length func(answer) time.Duration) time.Duration {
		lengths := make([]time.Duration, len(all))
		for i, a := range all {
			lengths[i] = length(a)
		}
		slices.Sort(lengths)
		return lengths[len(lengths)*99/100]
	}
	return of(func(a answer) time.Duration { return a.took }), of(func(a answer) time.Duration { return a.took - a.waited })
}

// whole checks that no edge was lost or told twice, that each begins where the one before
// ended, and that it knows for how long.
func (h *heard) whole(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	last := map[string]gateway.StepInfo{}
	for _, s := range h.steps {
		before := last[s.Chain+"/"+s.Target]
		if s.Epoch != before.Epoch+1 || before.Epoch > 0 && (s.From != before.To || s.Dwell != s.At.Sub(before.At)) {
			t.Errorf("%s: edge %+v after %+v", s.Chain, s.Transition, before.Transition)
		}
		last[s.Chain+"/"+s.Target] = s
	}
}

// most is the largest number of edges of the chain within any span of that length, those
// before that moment left out.
func (h *heard) most(chain string, span time.Duration, from time.Time) (most int) {
	var at []time.Time
	for _, s := range h.of(chain) {
		if s.At.After(from) {
			at = append(at, s.At)
		}
	}
	for i := range at {
		n := 0
		for n < len(at)-i && at[i+n].Sub(at[i]) < span {
			n++
		}
		most = max(most, n)
	}
	return most
}
