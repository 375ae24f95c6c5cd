package signals

import (
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
)

// world is one chain under one policy.
type world struct {
	policy   degrade.Policy
	machines map[string]*degrade.Machine // by target
	steps    []Step
	spent    map[string]time.Duration // by what new calls got
	window   map[string]time.Duration // the same, since calls were last counted
	calls    map[string]float64
}

func newWorld(p degrade.Policy) *world {
	return &world{policy: p, machines: map[string]*degrade.Machine{}, spent: map[string]time.Duration{}, window: map[string]time.Duration{}, calls: map[string]float64{}}
}

// machine is that of a target, which begins in good health at that moment.
func (w *world) machine(target string, at time.Time) *degrade.Machine {
	m := w.machines[target]
	if m == nil {
		started := degrade.Start(at)
		m = &started
		w.machines[target] = m
	}
	return m
}

// step feeds the machine of a target what was seen.
func (w *world) step(target string, s degrade.Signals) {
	m := w.machine(target, s.At)
	next, edge, changed := m.Step(&w.policy, s)
	*m = next
	if changed {
		w.steps = append(w.steps, Step{At: edge.At, Target: target, From: edge.From, To: edge.To, Reason: edge.Reason})
	}
}

// pass lets d go by from at on: each target's share of it goes to what new calls got there.
func (w *world) pass(o *degrade.Order, at time.Time, d time.Duration) {
	if len(w.machines) == 0 {
		return
	}
	each := d / time.Duration(len(w.machines))
	for _, m := range w.machines {
		covered := time.Duration(0)
		if o.Covers(at, 0) { // the key with hash 0 is covered by every percentage
			covered = each
			if o.Percent > 0 {
				covered = each * time.Duration(o.Percent) / 100
			}
			w.spend(w.gets(o, m, at), covered)
		}
		if rest := each - covered; rest > 0 {
			w.spend(w.gets(nil, m, at), rest)
		}
	}
}

func (w *world) spend(what string, d time.Duration) {
	w.spent[what] += d
	w.window[what] += d
}

// gets is what a new call got.
func (w *world) gets(o *degrade.Order, m *degrade.Machine, at time.Time) string {
	route := degrade.Decide(&w.policy, o, m, at, 0)
	switch {
	case route.Tier == 0:
		return gotRefused
	case route.Admit == degrade.AdmitTrickle:
		return gotSlow
	case route.Admit == degrade.AdmitUnder:
		return gotPart
	case route.Admit == degrade.AdmitRamp:
		return gotRamp
	case route.Admit == degrade.AdmitOne:
		return gotOne
	}
	return route.Tier.String()
}

// count lets n calls come, spread evenly over the time since they were last counted. Of
// those that met a slow store two a second tried; how many were admitted to one that came
// back, nobody recorded.
func (w *world) count(n int) {
	var all time.Duration
	for _, d := range w.window {
		all += d
	}
	if all == 0 {
		return
	}
	for what, d := range w.window {
		part := float64(n) * float64(d) / float64(all)
		if what == gotSlow {
			tried := min(part, 2*d.Seconds())
			w.calls[gotSlow] += tried
			w.calls[got(w.policy.Refusal(tierlock.ReasonSlow))] += part - tried
			continue
		}
		w.calls[what] += part
	}
	clear(w.window)
}
