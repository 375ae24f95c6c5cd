package switchctl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/switchcfg"
)

// Change is one thing that a version says and the version before did not: an order or policy
// values of one chain, or, with no chain, who gets the version.
type Change struct {
	Chain     string               `json:"chain,omitempty"`
	Was       *switchcfg.Directive `json:"was,omitempty"` // nil: no order
	Is        *switchcfg.Directive `json:"is,omitempty"`  // nil: back to auto
	WasPolicy switchcfg.Values     `json:"was_policy,omitempty"`
	IsPolicy  switchcfg.Values     `json:"is_policy,omitempty"`
	WasCanary *switchcfg.Canary    `json:"was_canary,omitempty"` // nil: everybody
	IsCanary  *switchcfg.Canary    `json:"is_canary,omitempty"`
}

// Changes lists what is says otherwise than was: who gets it, then orders by chain, then
// policies by chain.
func Changes(was, is switchcfg.Document) []Change {
	var all []Change
	if was.Canary.String() != is.Canary.String() {
		all = append(all, Change{WasCanary: was.Canary, IsCanary: is.Canary})
	}
	for _, name := range either(was.Chains, is.Chains) {
		a, b := ordered(was, name), ordered(is, name)
		if a == nil && b == nil || a != nil && b != nil && same(*a, *b) {
			continue
		}
		all = append(all, Change{Chain: name, Was: a, Is: b})
	}
	for _, name := range either(was.Policies, is.Policies) {
		a, b := was.Policies[name], is.Policies[name]
		if a.String() != b.String() {
			all = append(all, Change{Chain: name, WasPolicy: a, IsPolicy: b})
		}
	}
	return all
}

// either are the names in a or b, sorted.
func either[V any](a, b map[string]V) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	return slices.Compact(names)
}

// ordered is what d orders of a chain; nil: nothing.
func ordered(d switchcfg.Document, chain string) *switchcfg.Directive {
	o, ok := d.Chains[chain]
	if !ok || o.Mode <= tierlock.ModeAuto {
		return nil
	}
	return &o
}

func same(a, b switchcfg.Directive) bool {
	return a.Mode == b.Mode && a.Until.Equal(b.Until) && a.Share() == b.Share() && a.Reason == b.Reason && a.By == b.By &&
		a.BreakGlass == b.BreakGlass && a.DryRun == b.DryRun
}

// Lines shows a change for a person: what goes and what comes.
func (c Change) Lines(now time.Time) []string {
	switch {
	case c.Chain == "":
		return []string{"- for " + c.WasCanary.String(), "+ for " + c.IsCanary.String()}
	case len(c.WasPolicy)+len(c.IsPolicy) > 0:
		return []string{"- " + c.Chain + " policy: " + values(c.WasPolicy), "+ " + c.Chain + " policy: " + values(c.IsPolicy)}
	}
	return []string{"- " + c.Chain + ": " + order(c.Was, now), "+ " + c.Chain + ": " + order(c.Is, now)}
}

func values(v switchcfg.Values) string {
	if len(v) == 0 {
		return "as configured"
	}
	return v.String()
}

func order(d *switchcfg.Directive, now time.Time) string {
	if d == nil {
		return "auto"
	}
	return Describe(*d, now)
}

// Describe tells an order in one line.
func Describe(d switchcfg.Directive, now time.Time) string {
	var b strings.Builder
	if d.DryRun {
		b.WriteString("dry run of ")
	}
	b.WriteString(d.Mode.String())
	if share := d.Share(); share < 100 {
		fmt.Fprintf(&b, " for %d %% of the keys", share)
	}
	fmt.Fprintf(&b, " until %s (%v)", d.Until.UTC().Format(time.RFC3339), d.Until.Sub(now).Round(time.Second))
	if d.BreakGlass {
		b.WriteString(", break_glass")
	}
	fmt.Fprintf(&b, ", by %s: %s", d.By, d.Reason)
	return b.String()
}
