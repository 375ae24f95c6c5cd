package gatewaytest

import (
	"context"
	"slices"
	"sync"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// Audit is an [audit.Recorder] that keeps its events in memory. The zero Audit is ready.
type Audit struct {
	mu     sync.Mutex
	fail   error         // guarded by mu
	shed   int           // guarded by mu
	events []audit.Event // guarded by mu
	steps  []audit.Step  // guarded by mu
	news   []audit.Replaced
	status func() audit.Status
}

// Fail makes every Record fail with err from now on, as a full disk would, and every Note
// be lost; nil mends it.
func (a *Audit) Fail(err error) {
	a.mu.Lock()
	a.fail = err
	a.mu.Unlock()
}

// Record keeps ev, or fails as told. A chain whose policy is shed goes on without it.
func (a *Audit) Record(ctx context.Context, ev *audit.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.fail == nil:
		a.keepLocked(ev)
	case ev.OnFull == audit.Shed:
		a.shed++
	default:
		return a.fail
	}
	return nil
}

// Note keeps ev, unless told to fail.
func (a *Audit) Note(ev *audit.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fail == nil {
		a.keepLocked(ev)
	}
}

func (a *Audit) keepLocked(ev *audit.Event) {
	kept := *ev
	kept.Holder = kept.ID.Fingerprint()
	a.events = append(a.events, kept)
}

// Stepped keeps a change of health; see [Audit.Steps].
func (a *Audit) Stepped(s audit.Step) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.steps = append(a.steps, s)
}

// Replaced keeps that a store was replaced; see [Audit.Replacements].
func (a *Audit) Replaced(r audit.Replaced) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.news = append(a.news, r)
}

// Steps returns a copy of the changes of health that heartbeats would tell, in order.
func (a *Audit) Steps() []audit.Step {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.steps)
}

// Replacements returns a copy of what heartbeats would tell of replaced stores, in order.
func (a *Audit) Replacements() []audit.Replaced {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.news)
}

// Describe takes what heartbeats would tell; see [Audit.Status].
func (a *Audit) Describe(status func() audit.Status) {
	a.mu.Lock()
	a.status = status
	a.mu.Unlock()
}

// Status is what a heartbeat would tell of the gateway now.
func (a *Audit) Status() audit.Status {
	a.mu.Lock()
	status := a.status
	a.mu.Unlock()
	if status == nil {
		return audit.Status{}
	}
	return status()
}

// Shed counts the grants that went unrecorded by policy.
func (a *Audit) Shed() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shed
}

// Events returns a copy of all events, in order.
func (a *Audit) Events() []audit.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.events)
}

// Of returns the events of one request, in order.
func (a *Audit) Of(id tierlock.RequestID) []audit.Event {
	return slices.DeleteFunc(a.Events(), func(ev audit.Event) bool { return ev.ID != id })
}
