package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/internal/switchctl"
	"github.com/tierlock/tierlock/switchcfg"
)

// What set, extend, policy and promote make of the document.

func (p Process) switchSet(ctx context.Context, f *switchFlags, cfg Config, place switchctl.Place) error {
	now := time.Now()
	o, err := f.order(cfg, now)
	if err != nil {
		return err
	}
	return p.publish(ctx, f, cfg, place, now, func(d switchcfg.Document) (switchcfg.Document, error) { return switchctl.Next(d, o, now) })
}

func (p Process) switchExtend(ctx context.Context, f *switchFlags, cfg Config, place switchctl.Place) error {
	if f.fs.NArg() == 0 {
		return tierlock.Invalid("chain", "", "say which orders to extend")
	}
	if f.last <= 0 {
		return tierlock.Invalid("for", f.last.String(), "want how long from now, such as 30m")
	}
	now := time.Now()
	return p.publish(ctx, f, cfg, place, now, func(d switchcfg.Document) (switchcfg.Document, error) {
		return switchctl.Extend(d, f.fs.Args(), now.Add(f.last).Truncate(time.Second), now)
	})
}

// switchPromote gives every instance what a canary has.
func (p Process) switchPromote(ctx context.Context, f *switchFlags, cfg Config, place switchctl.Place) error {
	if f.canary != "" {
		return tierlock.Invalid("canary", f.canary, "is not for promote, which ends one")
	}
	return p.publish(ctx, f, cfg, place, time.Now(), func(d switchcfg.Document) (switchcfg.Document, error) { return switchctl.Promote(d), nil })
}

// switchPolicy changes values of one chain's policy. The chain's own policy says which may
// change and to what.
func (p Process) switchPolicy(ctx context.Context, f *switchFlags, cfg Config, place switchctl.Place) error {
	chain := f.fs.Arg(0)
	policy, ours := cfg.Chains[chain]
	switch {
	case chain == "" || f.fs.NArg() == 1:
		return tierlock.Invalid("chain", chain, "want a chain and FIELD=VALUE, such as coupon wait=500ms")
	case !ours:
		return tierlock.Invalid("chain", chain, cfg.otherChain())
	}
	set, err := settings(f.fs.Args()[1:])
	if err != nil {
		return err
	}
	now := time.Now()
	return p.publish(ctx, f, cfg, place, now, func(d switchcfg.Document) (switchcfg.Document, error) {
		next, err := switchctl.Amend(d, chain, set, now)
		if err != nil {
			return next, err
		}
		_, err = policy.Amend(next.Policies[chain])
		return next, prefixed("policies."+chain+".", err)
	})
}

// settings reads FIELD=VALUE words; a value is read as in a file, and none is nil.
func settings(words []string) (map[string]any, error) {
	set := map[string]any{}
	var faults []error
	for _, word := range words {
		name, text, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			faults = append(faults, tierlock.Invalid("policy", word, "want FIELD=VALUE"))
			continue
		}
		if set[name] = nil; text == "" {
			continue
		}
		var read struct {
			Value any `yaml:"value"`
		}
		if err := switchcfg.Decode([]byte("value: "+text), &read); err != nil {
			faults = append(faults, tierlock.Invalid("policy", word, "want one value as in a file"))
		}
		set[name] = read.Value
	}
	return set, errors.Join(faults...)
}

// checkWords looks at what stands behind the flags of a verb that publishes. There the flag
// package takes a flag for one more word: an order that was meant as a dry run would be a
// real one, on a chain of that name besides.
func (f *switchFlags) checkWords() error {
	var faults []error
	for _, word := range f.fs.Args() {
		switch {
		case strings.HasPrefix(word, "-"):
			faults = append(faults, tierlock.Invalid("argument", word, "flags go before the chain"))
		case f.verb == verbPromote:
			faults = append(faults, tierlock.Invalid("argument", word, "promote takes flags only"))
		}
	}
	return errors.Join(faults...)
}

// order makes an order of the flags and holds it against the configuration. What the
// document's own rules say of it is told by [switchctl.Next].
func (f *switchFlags) order(cfg Config, now time.Time) (switchctl.Order, error) {
	o := switchctl.Order{Chains: f.fs.Args(), Directive: switchcfg.Directive{Mode: f.mode, Reason: f.reason, By: f.by, BreakGlass: f.breakGlass, DryRun: f.dryRun}}
	if f.weak {
		for _, name := range slices.Sorted(maps.Keys(cfg.Chains)) {
			if cfg.Chains[name].Ladder.Class == degrade.ClassWeak {
				o.Chains = append(o.Chains, name)
			}
		}
	}
	var faults []error
	bad := func(field, value, rule string) { faults = append(faults, tierlock.Invalid(field, value, rule)) }
	switch {
	case f.mode == 0:
		bad("mode", "", "is required: auto, shared, optimistic, local, bypass or reject")
	case f.mode != tierlock.ModeAuto && f.last <= 0:
		bad("for", f.last.String(), "want how long from now, such as 10m: every order ends by itself")
	}
	if f.mode == tierlock.ModeAuto { // what an order has; none stands here
		for flag, given := range map[string]bool{"percent": f.percent != 100, "dry-run": f.dryRun, "break-glass": f.breakGlass, "for": f.last != 0} {
			if given {
				bad(flag, "", "is for an order: --mode auto ends one")
			}
		}
	}
	if f.last > 0 {
		o.Directive.Until = now.Add(f.last).Truncate(time.Second)
	}
	switch {
	case f.percent == 0 || f.percent > 100:
		bad("percent", fmt.Sprint(f.percent), "want 1 to 100")
	case f.percent < 100:
		share := uint8(f.percent)
		o.Directive.Percent = &share
	}
	if len(o.Chains) == 0 {
		bad("chain", "", "say which, or --"+allWeak)
	}
	for _, name := range o.Chains {
		policy, ours := cfg.Chains[name]
		switch {
		case !ours && f.foreign && !chainName.MatchString(name):
			bad("chain", name, "want "+chainName.String()+", as every configuration does")
		case !ours && !f.foreign:
			bad("chain", name, cfg.otherChain()+": say --foreign for a chain of another service")
		case ours && !f.breakGlass && policy.Ladder.NeedsBreakGlass(f.mode):
			bad("mode", f.mode.String(), "puts the strong chain "+name+" below shared: its service refuses the document without --break-glass")
		}
	}
	return o, errors.Join(faults...)
}

func (c *Config) otherChain() string {
	return "is not in this configuration, which has " + strings.Join(slices.Sorted(maps.Keys(c.Chains)), ", ")
}

// readCanary reads who gets a version first: names of instances, and at most one share as
// 10%, with commas between.
func readCanary(text string) (*switchcfg.Canary, error) {
	if text == "" {
		return nil, nil
	}
	c := new(switchcfg.Canary)
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		share, ok := strings.CutSuffix(part, "%")
		if !ok {
			c.Instances = append(c.Instances, part)
			continue
		}
		n, err := strconv.ParseUint(share, 10, 8)
		if err != nil || c.Percent > 0 {
			return nil, tierlock.Invalid("canary", text, "want names, or one share from 1% to 99%, with commas")
		}
		c.Percent = uint8(n)
	}
	return c, nil
}
