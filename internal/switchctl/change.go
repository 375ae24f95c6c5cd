package switchctl

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/switchcfg"
)

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
		return switchcfg.Document{}, err
	}
	if d.Version > switchcfg.MaxVersion {
		return switchcfg.Document{}, tierlock.Invalid("version", strconv.FormatUint(d.Version, 10), fmt.Sprintf("want at most %d", uint64(switchcfg.MaxVersion)))
	}
	live, _ := d.Live(now)
	return live, nil
}

// Next is the document after d in which the chains of o are ordered so, or not ordered any
// more; every other order stays. Its faults are those that every instance would find.
func Next(d switchcfg.Document, o Order, now time.Time) (switchcfg.Document, error) {
	next := Promote(d)
	for _, chain := range o.Chains {
		if o.Directive.Mode == tierlock.ModeAuto {
			delete(next.Chains, chain)
		} else {
			next.Chains[chain] = o.Directive
		}
	}
	return next, next.Check(now)
}

// Promote is the document after d that says the same to every instance: its canary is over,
// and it is not signed yet.
func Promote(d switchcfg.Document) switchcfg.Document {
	next := switchcfg.Document{Version: d.Version + 1, Chains: maps.Clone(d.Chains), Policies: maps.Clone(d.Policies)}
	if next.Chains == nil {
		next.Chains = map[string]switchcfg.Directive{}
	}
	return next
}

// Amend is the document after d with other values of the policy of a chain, by dotted name;
// nil takes a value back to what the chain is configured with.
func Amend(d switchcfg.Document, chain string, set map[string]any, now time.Time) (switchcfg.Document, error) {
	next := Promote(d)
	values := next.Policies[chain]
	for name, value := range set {
		values = values.With(name, value)
	}
	if next.Policies == nil {
		next.Policies = map[string]switchcfg.Values{}
	}
	if next.Policies[chain] = values; len(values) == 0 {
		delete(next.Policies, chain)
	}
	return next, next.Check(now)
}

// Extend is the document after d in which the orders on chains end at until. One that is
// not ordered, or would end earlier than it does, is refused.
func Extend(d switchcfg.Document, chains []string, until, now time.Time) (switchcfg.Document, error) {
	next := Promote(d)
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
