package gateway

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/switchcfg"
)

// applied is the switch document in force.
type applied struct {
	mu      sync.Mutex
	version uint64 // 0: none was ever seen; guarded by mu
	hash    string // guarded by mu

	policies string // hash of the policies in force; guarded by mu

	withheld atomic.Uint64 // version of the last answer whose canary leaves the instance out; 0: it was another one
}

// look reads the version in force and the hash of the policies.
func (a *applied) look() (version uint64, policies string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.version, a.policies
}

// Apply puts a switch document in force: whole, or not at all with the reason. Every
// request that starts after Apply has returned obeys it; locks in hand stay what they
// are. Strictly newer wins: an older document is refused, and so is one of the same
// version with other content; the very same again changes nothing. A document that puts a
// strong chain of this gateway below shared without break_glass is refused whole, and so is
// one with a policy value that [Policy.Amend] refuses. Chains that this gateway does not
// have are ignored: one document serves many services. A canary and a signature are for
// whoever follows a source; Apply looks at neither.
func (g *Gateway) Apply(d switchcfg.Document) error {
	now := time.Now()
	if err := d.Check(now); err != nil {
		return err
	}
	changed, amended, err := g.putInForce(d, now)
	for _, name := range amended {
		g.log.Info("policy changed", "chain", name, "version", d.Version, "fields", d.Policies[name].Names())
	}
	for _, c := range changed {
		c.orders.news.tell(c.tellOrder)
	}
	return err
}

// putInForce is Apply but for the telling; changed are the chains with another order,
// amended those with another policy.
func (g *Gateway) putInForce(d switchcfg.Document, now time.Time) (changed []*Chain, amended []string, err error) {
	g.applied.mu.Lock()
	defer g.applied.mu.Unlock()
	hash := d.Hash()
	switch {
	case d.Version == g.applied.version && hash == g.applied.hash:
		return nil, nil, nil
	case d.Version < g.applied.version:
		return nil, nil, tierlock.Invalid("version", utoa(d.Version), "older than "+utoa(g.applied.version)+", which is in force")
	case d.Version == g.applied.version:
		return nil, nil, tierlock.Invalid("version", utoa(d.Version), "is in force with other content; a change needs a newer version")
	}
	policies, err := g.amended(d)
	if err := errors.Join(g.breakGlass(d), err); err != nil {
		return nil, nil, err
	}
	sum, err := hashPolicies(policies)
	if err != nil {
		return nil, nil, err
	}
	g.applied.version, g.applied.hash, g.applied.policies = d.Version, hash, sum
	for name, c := range g.chains {
		if c.amend(policies[name]) {
			amended = append(amended, name)
		}
		if c.obey(d, now) {
			changed = append(changed, c)
		}
	}
	for _, s := range g.stores {
		s.tolerate()
	}
	slices.Sort(amended)
	return changed, amended, nil
}

// modeWord says auto for no order.
func modeWord(m tierlock.Mode) string {
	if m == 0 {
		m = tierlock.ModeAuto
	}
	return m.String()
}

func utoa(v uint64) string { return strconv.FormatUint(v, 10) }

// breakGlass refuses, all at once, the strong chains that d would put below shared.
func (g *Gateway) breakGlass(d switchcfg.Document) error {
	var errs []error
	for name, c := range g.chains {
		if o, ok := d.Chains[name]; ok && !o.BreakGlass && c.policy.Ladder.NeedsBreakGlass(o.Mode) {
			errs = append(errs, tierlock.Invalid("chains."+name+".mode", o.Mode.String(), "puts a strong chain below shared: needs break_glass: true"))
		}
	}
	return errors.Join(errs...)
}

// obey puts what d says of the chain in force; nothing, or auto, ends an order. Ladders of
// targets that appear later obey it too: the order is the chain's.
func (c *Chain) obey(d switchcfg.Document, now time.Time) (changed bool) {
	var next *order
	var dry *rehearsal
	if o, ok := d.Chains[c.name]; ok && o.Mode > tierlock.ModeAuto && o.Until.After(now) {
		next = newOrder(degrade.Order{Mode: o.Mode, Percent: o.Share(), Version: d.Version, Reason: o.Reason, By: o.By}, o.Until, now)
		if o.DryRun {
			next, dry = nil, &rehearsal{Order: next.Order}
		}
	}
	c.dry.Store(dry)
	return c.change(nil, next, now, d.Version)
}

// AppliedVersion is the version of the switch document in force; 0: none was seen yet.
func (g *Gateway) AppliedVersion() uint64 {
	version, _ := g.applied.look()
	return version
}
