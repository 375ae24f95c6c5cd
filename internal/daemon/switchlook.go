package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tierlock/tierlock/internal/api"
	"github.com/tierlock/tierlock/internal/switchctl"
	"github.com/tierlock/tierlock/switchcfg"
)

// What get, history and watch tell.

// seen is what get prints as JSON: what is published, and what instances make of it.
type seen struct {
	switchcfg.Document
	Error     string     `json:"error,omitempty"` // why there is no document; the rest of it is empty
	Instances []instance `json:"instances"`
}

// instance is what one instance says of itself.
type instance struct {
	Admin string `json:"admin"`
	Error string `json:"error,omitempty"` // it does not answer; the rest is empty
	switchHealth
	Rehearsals map[string]*rehearsalHealth `json:"dry_runs,omitempty"` // by chain
}

func (p Process) switchGet(ctx context.Context, f *switchFlags, cfg Config, place switchctl.Place) error {
	now := time.Now()
	var all []instance
	var asking sync.WaitGroup
	asking.Go(func() { all = askInstances(ctx, f.instances(cfg)) })
	_, d, err := current(ctx, place, now)
	asking.Wait()
	told := seen{Document: d, Instances: all}
	if err != nil {
		told.Error = oneLine(err)
	}
	if *f.format == "json" {
		if err := encoder(p.Stdout).Encode(told); err != nil {
			return err
		}
	} else {
		p.show(told, now)
	}
	if told.Error != "" || slices.ContainsFunc(all, func(i instance) bool { return i.Error != "" || i.Alarm != nil }) {
		return errTold
	}
	return nil
}

// errTold ends a command that has told already what is wrong.
var errTold = errors.New("told")

// show tells what is published, or why that is not known, and what instances make of it.
func (p Process) show(told seen, now time.Time) {
	if told.Error != "" {
		fmt.Fprintf(p.Stdout, "no document: %s\n", told.Error)
	} else {
		fmt.Fprintf(p.Stdout, "version %d\n", told.Version)
		p.showOrders(told.Document, now)
	}
	for _, i := range told.Instances {
		fmt.Fprintln(p.Stdout, strings.Join(i.lines(), "\n"))
	}
}

// askInstances asks the admin pages at addresses, with commas between, all at once.
func askInstances(ctx context.Context, addresses string) []instance {
	names := strings.Split(addresses, ",")
	all := make([]instance, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() { all[i] = askInstance(ctx, strings.TrimSpace(name)) })
	}
	asking.Wait()
	return all
}

func askInstance(ctx context.Context, addr string) instance {
	i := instance{Admin: addr}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	text, err := get(ctx, pageURL(addr, "/healthz"))
	var h struct {
		api.Health
		Details health `json:"details"`
	}
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err != nil {
		i.Error = err.Error()
		return i
	}
	i.switchHealth = h.Details.switchHealth
	for _, c := range h.Details.Chains {
		if c.DryRun != nil {
			if i.Rehearsals == nil {
				i.Rehearsals = map[string]*rehearsalHealth{}
			}
			i.Rehearsals[c.Chain] = c.DryRun
		}
	}
	return i
}

func (i *instance) lines() []string {
	if i.Error != "" {
		return []string{fmt.Sprintf("instance at %s does not answer: %s", i.Admin, i.Error)}
	}
	lines := []string{fmt.Sprintf("instance %s at %s applies version %d, policies %s", or(i.Instance, "without a name"), i.Admin, i.Switch, i.PolicyHash)}
	lines = append(lines, i.switchHealth.lines()...)
	for _, name := range slices.Sorted(maps.Keys(i.Rehearsals)) {
		lines = append(lines, "  "+name+": "+i.Rehearsals[name].line())
	}
	return lines
}

// showOrders tells every order of d in a line, and what else it says.
func (p Process) showOrders(d switchcfg.Document, now time.Time) {
	if d.Canary != nil {
		fmt.Fprintf(p.Stdout, "  for %s\n", d.Canary)
	}
	orders := 0
	for _, c := range switchctl.Changes(switchcfg.Document{}, d) {
		switch {
		case c.Is != nil:
			orders++
			fmt.Fprintf(p.Stdout, "  %s: %s\n", c.Chain, switchctl.Describe(*c.Is, now))
		case c.IsPolicy != nil:
			fmt.Fprintf(p.Stdout, "  %s policy: %s\n", c.Chain, c.IsPolicy)
		}
	}
	if orders == 0 {
		fmt.Fprintln(p.Stdout, "  nothing is ordered: every chain is on auto")
	}
}

func (p Process) switchHistory(ctx context.Context, f *switchFlags, _ Config, place switchctl.Place) error {
	ctx, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	all, err := place.History(ctx)
	if err != nil {
		return err
	}
	if *f.format == "json" {
		if all == nil {
			all = []switchctl.Entry{}
		}
		return encoder(p.Stdout).Encode(all)
	}
	for _, e := range all {
		fmt.Fprintf(p.Stdout, "version %d, %s, by %s\n", e.Document.Version, e.At.Format(time.RFC3339), e.By)
		for _, c := range e.Changes {
			fmt.Fprintln(p.Stdout, "  "+strings.Join(c.Lines(e.At), "\n  "))
		}
	}
	if len(all) == 0 {
		fmt.Fprintln(p.Stdout, "nothing was published with this command yet")
	}
	return nil
}

// switchWatch follows the document as a service does, and tells every version, and every
// alarm when it begins and ends.
func (p Process) switchWatch(ctx context.Context, f *switchFlags, cfg Config, place switchctl.Place) error {
	lines := encoder(p.Stdout)
	was := switchcfg.Document{}
	keys, err := cfg.Switch.keys()
	if err != nil {
		return prefixed("switch.", err)
	}
	follow := switchcfg.FollowConfig{Poll: cfg.Switch.Poll, Keys: keys, Canaries: true, Report: func(r switchcfg.Report) {
		switch {
		case r.Edge && r.Fault != nil:
			fmt.Fprintf(p.Stderr, "%s not followed: %s: %v\n", time.Now().Format(time.TimeOnly), r.Fault.Why, r.Fault.Err)
		case r.Edge:
			fmt.Fprintf(p.Stderr, "%s followed again, version %d\n", time.Now().Format(time.TimeOnly), r.Version)
		}
	}}
	err = switchcfg.Follow(ctx, place, follow, func(d switchcfg.Document) error {
		now := time.Now()
		if *f.format == "json" {
			_ = lines.Encode(switchctl.Entry{At: now.UTC().Round(time.Millisecond), Document: d, Changes: switchctl.Changes(was, d)})
		} else {
			fmt.Fprintf(p.Stdout, "%s version %d\n", now.Format(time.TimeOnly), d.Version)
			p.showOrders(d, now)
		}
		was = d
		return nil
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // interrupted, which is how a watch ends
	}
	return err
}
