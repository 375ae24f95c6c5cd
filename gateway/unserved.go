package gateway

import (
	"sync"

	"github.com/tierlock/tierlock"
)

// unserved count the calls of a chain that ended without a grant and leave no event of
// their own: heartbeats tell them, so that a report on an outage can. What another holder
// was in the way of is the lock's daily work and not counted; an optimistic answer has its
// event.
type unserved struct {
	mu sync.Mutex // a leaf
	by map[verdict]uint64
}

type verdict struct {
	outcome tierlock.Outcome
	reason  tierlock.Reason
}

// note counts one verdict.
func (r *unserved) note(err *tierlock.Error) {
	if err.Outcome == tierlock.Failure || err.Is(tierlock.ErrOptimistic) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[verdict]uint64{}
	}
	r.by[verdict{err.Outcome, err.Reason}]++
}

// told is the counts since New, by outcome and reason: "system_error down"; nil: none.
func (r *unserved) told() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.by) == 0 {
		return nil
	}
	out := make(map[string]uint64, len(r.by))
	for what, n := range r.by {
		answer := what.outcome.String()
		if what.reason != "" {
			answer += " " + string(what.reason)
		}
		out[answer] = n
	}
	return out
}
