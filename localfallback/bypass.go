package localfallback

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
)

// Bypass grants everything and excludes nobody: the fake that an operator's switch puts in
// place of a store. It remembers nothing, so Release and Lookup believe the caller. Who
// records what it let through is not its business. The zero Bypass is ready, and safe for
// any number of goroutines.
type Bypass struct{}

// Traits tells tier bypass, scope none, and no token.
func (Bypass) Traits() tierlock.Traits {
	return tierlock.Traits{Store: "bypass", Tier: tierlock.Bypass, Scope: tierlock.ScopeNone}
}

// Acquire always grants, never exclusively, until ttl from now.
func (Bypass) Acquire(_ context.Context, req tierlock.Request) (tierlock.Answer, error) {
	if err := checkTTL(req.TTL); err != nil {
		return tierlock.Answer{}, err
	}
	return tierlock.Answer{Status: tierlock.Granted, Depth: 1, Until: time.Now().Add(req.TTL)}, nil
}

// Renew always says Mine, until ttl from now.
func (Bypass) Renew(_ context.Context, holds []tierlock.Hold) ([]tierlock.Answer, error) {
	now := time.Now()
	answers := make([]tierlock.Answer, len(holds))
	for i, hold := range holds {
		answers[i] = tierlock.Answer{Status: tierlock.Mine, Depth: 1, Until: now.Add(hold.TTL)}
	}
	return answers, nil
}

// Release always says Released.
func (Bypass) Release(context.Context, tierlock.Hold) (tierlock.Answer, error) {
	return tierlock.Answer{Status: tierlock.Released}, nil
}

// Lookup always says Mine.
func (Bypass) Lookup(context.Context, tierlock.Hold) (tierlock.Answer, error) {
	return tierlock.Answer{Status: tierlock.Mine, Depth: 1}, nil
}
