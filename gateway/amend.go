package gateway

import (
	"errors"
	"slices"
	"strings"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/switchcfg"
)

// amendable are the fields of a policy that a switch document may change while the process
// runs: how long calls wait and where the ladder's steps are. The rest is what the code that
// uses the chain was written for (class, version_guard, fencing …) or what locks in hand and
// other instances rely on (ttl, attempt …): it takes a restart.
var amendable = []string{
	"wait", "wait_schedule", "on_saturated", "on_down", "saturated_at", "relaxed_at", "saturate_in", "relax_in",
	"slow_timeouts", "fast_probes", "down_failures", "probe_lost", "ramp_from", "ramp_every", "local.ttl", "local.permits",
}

// Amend is p with the values of a switch document. It reports every fault at once, each a
// [*tierlock.InvalidError]: a field that cannot change while the process runs, one that is
// not known, and whatever [Policy.Validate] says of the whole.
func (p Policy) Amend(values switchcfg.Values) (Policy, error) {
	var faults []error
	for _, name := range values.Names() {
		if !slices.Contains(amendable, name) {
			faults = append(faults, tierlock.Invalid(name, "", unamendable(name)+": want one of "+strings.Join(amendable, ", ")))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return Policy{}, err
	}
	if err := values.Decode(&p); err != nil {
		return Policy{}, err
	}
	p.Local = p.Local.WithDefaults()
	return p, p.Validate()
}

// unamendable is why a document may not change what has that name: no policy has it, or it
// takes a restart.
func unamendable(name string) string {
	full := Weak("anything", Reconcile).Flow() // each field of it has a word
	for field := range switchcfg.Words(full) {
		switch {
		case field == name:
			return "cannot change while the process runs"
		case strings.HasPrefix(field, name+"."):
			return "has fields and is none itself"
		}
	}
	return "is no field of a policy"
}

// amended is the policies that d puts in force, by chain: all of them, or every fault. What
// chains it has that are not this gateway's is ignored.
func (g *Gateway) amended(d switchcfg.Document) (map[string]Policy, error) {
	policies := make(map[string]Policy, len(g.chains))
	var faults []error
	for name, c := range g.chains {
		p, err := c.policy.Amend(d.Policies[name])
		if err != nil {
			faults = append(faults, under("policies."+name+".", err))
		}
		policies[name] = p
	}
	return policies, errors.Join(faults...)
}

// amend puts a policy in force for every request that starts from now on, and says whether it
// is another one.
func (c *Chain) amend(p Policy) bool {
	was := c.current.Swap(&p)
	c.table.Permit(p.Local.Permits)
	return *was != p
}
