// Package backendtest TESTS that a backend keeps the contract of [tierlock.Backend]: one
// suite that every store, the table inside the process and the bypass pass.
//
// It tests what the backend's Traits declare and never skips: a store that cannot be
// reached fails it. It knows nothing of any one store; what only one store does is tested
// beside that store.
package backendtest

import (
	"slices"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
)

// Options tell what Traits cannot. Zero fields mean the stated default.
type Options struct {
	Holders int           // who may hold one key at once; 1
	TTL     time.Duration // of the holds that the suite waits out; 300 ms
	// Hang makes the store silent while its connections stay open, and returns what ends
	// that; both are called once. Nil: the store cannot be made so.
	Hang func(t *testing.T) (resume func())
}

// behaviour is one thing that a backend does; its name ends the sentence "it …".
type behaviour struct {
	name string
	test func(*stage)
}

// Run runs the suite against b, one subtest for each behaviour. server is the name and
// version of what b really talks to; it is logged, so that a run can be judged afterwards.
func Run(t *testing.T, server string, b tierlock.Backend, o Options) {
	t.Helper()
	if o.Holders == 0 {
		o.Holders = 1
	}
	if o.TTL == 0 {
		o.TTL = 300 * time.Millisecond
	}
	traits := b.Traits()
	t.Logf("server %s: store %s, tier %s, scope %s, fences %t, holders %d", server, traits.Store, traits.Tier, traits.Scope, traits.Fences, o.Holders)
	for _, one := range suite(traits, o) {
		t.Run(one.name, func(t *testing.T) { one.test(newStage(t, b, o)) })
	}
}

// suite picks the behaviours that traits declare and o makes possible.
func suite(traits tierlock.Traits, o Options) []behaviour {
	if traits.Scope == tierlock.ScopeNone {
		return slices.Concat(traitful, bypassing)
	}
	all := slices.Concat(traitful, excluding, ending, punctual, crowded)
	if traits.Fences {
		all = append(all, fencing...)
	} else {
		all = append(all, unfenced...)
	}
	if traits.Tier == tierlock.Shared {
		all = append(all, renewing...)
	}
	if traits.Entries {
		all = append(all, entering...)
	}
	if traits.Waiter != nil {
		all = append(all, waiting...)
	}
	if traits.Passer != nil {
		all = append(all, passing...)
	}
	if traits.Prober != nil {
		all = append(all, probing...)
	}
	if traits.Wired != nil {
		all = append(all, wired...)
	}
	if traits.Clocked != nil {
		all = append(all, clocked...)
	}
	if traits.Memory != nil {
		all = append(all, remembering...)
	}
	if o.Hang != nil {
		all = append(all, hanging...)
	}
	return all
}
