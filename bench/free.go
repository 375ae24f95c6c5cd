package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// freeStore grants everything and costs nothing: what is measured over it is the gateway.
type freeStore struct{}

func (freeStore) Traits() tierlock.Traits {
	return tierlock.Traits{Store: "free", Tier: tierlock.Shared, Scope: tierlock.ScopeCluster, Fences: true, Wire: 1 << 20}
}

func (freeStore) Acquire(_ context.Context, r tierlock.Request) (tierlock.Answer, error) {
	return tierlock.Answer{Status: tierlock.Granted, Exclusive: true, Token: 1, Depth: 1, Until: r.NotAfter.Add(r.TTL)}, nil
}

func (freeStore) Renew(_ context.Context, holds []tierlock.Hold) ([]tierlock.Answer, error) {
	answers := make([]tierlock.Answer, len(holds))
	for i, h := range holds {
		answers[i] = tierlock.Answer{Status: tierlock.Mine, Depth: 1, Until: time.Now().Add(h.TTL)}
	}
	return answers, nil
}

func (freeStore) Release(context.Context, tierlock.Hold) (tierlock.Answer, error) {
	return tierlock.Answer{Status: tierlock.Released}, nil
}

func (freeStore) Lookup(context.Context, tierlock.Hold) (tierlock.Answer, error) {
	return tierlock.Answer{Status: tierlock.Mine, Depth: 1}, nil
}

// noted is a recorder that takes every event and keeps none.
type noted struct{ events atomic.Int64 }

func (n *noted) Record(context.Context, *audit.Event) error { n.events.Add(1); return nil }
func (n *noted) Note(*audit.Event)                          { n.events.Add(1) }
