//go:build !nodemo

package demo

import (
	"sync"
	"sync/atomic"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

// ledger counts what callers were told and keeps every grant they got, for comparison with
// the events in Kafka. It listens to the gateways' hooks, not to their recorder.
type ledger struct {
	outcomes [tierlock.SystemError + 1]atomic.Int64
	tiers    [tierlock.Bypass + 1]atomic.Int64
	chains   map[string]*chainCount // fixed after newLedger

	mu     sync.Mutex
	grants []granted
}

// granted is one lock that a caller got.
type granted struct {
	key  tierlock.Key
	id   tierlock.RequestID
	tier tierlock.Tier
}

// chainCount is what the live view shows of one chain.
type chainCount struct{ requests, conflicts atomic.Int64 }

func newLedger(chains ...string) *ledger {
	l := &ledger{chains: map[string]*chainCount{}}
	for _, c := range chains {
		l.chains[c] = &chainCount{}
	}
	return l
}

// acquired is a gateway's hook.
func (l *ledger) acquired(info gateway.AcquireInfo) {
	v := info.Verdict
	l.outcomes[v.Outcome].Add(1)
	if c := l.chains[info.Chain]; c != nil {
		c.requests.Add(1)
		if v.Outcome == tierlock.Failure {
			c.conflicts.Add(1)
		}
	}
	switch {
	case v.Outcome == tierlock.Success:
		l.tiers[info.Grant.Tier].Add(1)
		l.mu.Lock()
		l.grants = append(l.grants, granted{info.Grant.Key, info.Grant.RequestID, info.Grant.Tier})
		l.mu.Unlock()
	case v.Advice == tierlock.AdviseOptimistic:
		l.tiers[tierlock.Optimistic].Add(1)
	}
}

func (l *ledger) all() []granted {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]granted(nil), l.grants...)
}

func (l *ledger) tierCounts() Tiers {
	return Tiers{
		Shared: l.tiers[tierlock.Shared].Load(), Optimistic: l.tiers[tierlock.Optimistic].Load(),
		Local: l.tiers[tierlock.Local].Load(), Bypass: l.tiers[tierlock.Bypass].Load(),
	}
}

func (l *ledger) outcomeCounts() Outcomes {
	return Outcomes{
		Success: l.outcomes[tierlock.Success].Load(), Failure: l.outcomes[tierlock.Failure].Load(),
		Timeout: l.outcomes[tierlock.Timeout].Load(), SystemError: l.outcomes[tierlock.SystemError].Load(),
	}
}
