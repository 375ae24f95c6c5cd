//go:build !nodemo

package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
)

// flips follows which chain is on which tier on which instance. A gateway's hook only
// nudges it, since a hook must not ask its gateway; it then looks for itself.
type flips struct {
	start     time.Time
	instances []*instance
	tell      func(Flip)
	poke      chan struct{} // buffered

	mu  sync.Mutex
	at  map[[2]string]place // by instance and chain; guarded by mu
	all []Flip              // guarded by mu
}

func newFlips(start time.Time, tell func(Flip)) *flips {
	return &flips{start: start, tell: tell, poke: make(chan struct{}, 1), at: map[[2]string]place{}}
}

func (f *flips) nudge() {
	select {
	case f.poke <- struct{}{}:
	default:
	}
}

// run looks after every nudge, and now and then without one, until ctx ends.
func (f *flips) run(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.poke:
		case <-tick.C:
		}
		f.look()
	}
}

func (f *flips) look() {
	now := time.Since(f.start).Seconds()
	for _, in := range f.instances {
		for _, c := range in.gw.Status().Chains {
			f.see(now, in.name, c)
		}
	}
}

func (f *flips) see(now float64, instance string, c gateway.ChainStatus) {
	is := placeOf(instance, c)
	at := [2]string{instance, c.Chain}
	f.mu.Lock()
	was, known := f.at[at]
	f.at[at] = is
	if !known {
		was = place{tier: tierlock.Shared.String()}
	}
	flipped := was.tier != is.tier
	flip := Flip{At: now, Instance: instance, Chain: c.Chain, From: was.tier, To: is.tier, Reason: is.reason}
	if flipped {
		f.all = append(f.all, flip)
	}
	f.mu.Unlock()
	if flipped {
		f.tell(flip)
	}
}

func (f *flips) list() []Flip {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Flip{}, f.all...)
}

// placeOf says in words where a chain stands. On a slow store a new request is answered
// optimistic but for the few that try, so that is what it says.
func placeOf(instance string, c gateway.ChainStatus) place {
	p := place{instance: instance, tier: tierlock.Shared.String(), reason: "the store is well"}
	if len(c.Targets) > 0 {
		t := c.Targets[0]
		p.tier = t.Tier.String()
		if t.Tier == 0 {
			p.tier = "refused"
		}
		switch t.State {
		case degrade.Slow:
			p.tier, p.reason = tierlock.Optimistic.String(), "the store is slow"
		case degrade.Saturated:
			p.reason = fmt.Sprintf("the wire of %d ran full", t.Limit)
		case degrade.Down:
			p.reason = "the store is " + string(t.Reason)
		case degrade.Recovering:
			p.reason = "the store is coming back"
		}
	}
	if o := c.Order; o.Mode != 0 {
		p.tier, p.reason = o.Mode.String(), fmt.Sprintf("switch version %d: %s", o.Version, o.Reason)
	}
	return p
}

// settled tells whether every chain of every instance stands on shared, and its store is
// well.
func (f *flips) settled() bool {
	for _, in := range f.instances {
		for _, c := range in.gw.Status().Chains {
			for _, t := range c.Targets {
				if t.State != degrade.Normal || t.Tier != tierlock.Shared {
					return false
				}
			}
		}
	}
	return true
}
