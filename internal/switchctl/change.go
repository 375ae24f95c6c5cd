package switchctl

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/switchcfg"
)

// Change is what one version says of one chain that the version before did not.
type Change struct {
	Chain string               `json:"chain"`
	Was   *switchcfg.Directive `json:"was,omitempty"` // nil: no order
	Is    *switchcfg.Directive `json:"is,omitempty"`  // nil: back to auto
}

// Order is what an operator wants of some chains.
type Order struct {
	Chains    []string
	Directive switchcfg.Directive // mode auto ends what is ordered
}

// Current reads what stands at a place at now: its orders that have not passed, and its
// version. No text is version 0 without orders.
func Current(text []byte, now time.Time) (switchcfg.Document, error) {
	if len(strings.TrimSpace(string(text))) == 0 {
		return switchcfg.Document{Chains: map[string]switchcfg.Directive{}}, nil
	}
	d, err := switchcfg.Parse(text)
	if err != nil {
		return switchcfg.Document{}, fmt.Errorf("what is published cannot be read: %w", err)
	}
	live, _ := d.Live(now)
	return live, nil
}

// Next is the document after d in which the chains of o are ordered so, or not ordered any
// more; every other order stays. Its faults are those that every instance would find.
func Next(d switchcfg.Document, o Order, now time.Time) (switchcfg.Document, error) {
	next := switchcfg.Document{Version: d.Version + 1, Chains: maps.Clone(d.Chains)}
	if next.Chains == nil {
		next.Chains = map[string]switchcfg.Directive{}
	}
	for _, chain := range o.Chains {
		if o.Directive.Mode == tierlock.ModeAuto {
			delete(next.Chains, chain)
		} else {
			next.Chains[chain] = o.Directive
		}
	}
	return next, next.Check(now)
}

// Extend is the document after d in which the orders on chains end at until. One that is
// not ordered, or would end earlier than it does, is refused.
func Extend(d switchcfg.Document, chains []string, until, now time.Time) (switchcfg.Document, error) {
	next := switchcfg.Document{Version: d.Version + 1, Chains: maps.Clone(d.Chains)}
	var faults []error
	for _, chain := range chains {
		o, ok := d.Chains[chain]
		switch {
		case !ok || o.Mode == tierlock.ModeAuto:
			faults = append(faults, tierlock.Invalid("chain", chain, "is not ordered: there is nothing to extend"))
		case until.Before(o.Until):
			faults = append(faults, tierlock.Invalid("for", until.Sub(now).Round(time.Second).String(), "would end the order on "+chain+" earlier: it ends in "+o.Until.Sub(now).Round(time.Second).String()))
		default:
			o.Until = until
			next.Chains[chain] = o
		}
	}
	if err := errors.Join(faults...); err != nil {
		return switchcfg.Document{}, err
	}
	return next, next.Check(now)
}

// Changes lists what is says otherwise than was, by chain.
func Changes(was, is switchcfg.Document) []Change {
	names := map[string]bool{}
	for name := range was.Chains {
		names[name] = true
	}
	for name := range is.Chains {
		names[name] = true
	}
	var all []Change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := ordered(was, name), ordered(is, name)
		if a == nil && b == nil || a != nil && b != nil && same(*a, *b) {
			continue
		}
		all = append(all, Change{name, a, b})
	}
	return all
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
	return a.Mode == b.Mode && a.Until.Equal(b.Until) && a.Share() == b.Share() && a.Reason == b.Reason && a.By == b.By && a.BreakGlass == b.BreakGlass
}

// Lines shows a change for a person: what goes and what comes.
func (c Change) Lines(now time.Time) []string {
	var lines []string
	if c.Was != nil {
		lines = append(lines, "- "+c.Chain+": "+Describe(*c.Was, now))
	} else {
		lines = append(lines, "- "+c.Chain+": auto")
	}
	if c.Is != nil {
		return append(lines, "+ "+c.Chain+": "+Describe(*c.Is, now))
	}
	return append(lines, "+ "+c.Chain+": auto")
}

// Describe tells an order in one line.
func Describe(d switchcfg.Directive, now time.Time) string {
	var b strings.Builder
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
