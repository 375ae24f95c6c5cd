package gateway

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
)

// Status is one look at a gateway, for dashboards, the command line and the demo.
type Status struct {
	At         time.Time
	Applied    uint64        // version of the switch document in force; 0: none was seen
	PolicyHash string        // see Gateway.PolicyHash
	InDoubt    int           // entries of the ledger: acquires in doubt, releases put off
	Dropped    int64         // entries that found no room in it, since New
	HookPanics int64         // calls of hooks that panicked, since New
	Chains     []ChainStatus // by name
}

// ChainStatus is where one chain stands.
type ChainStatus struct {
	Chain   string
	Class   degrade.Class
	Store   string         // its name in Config.Stores
	Live    int64          // locks in hand
	Local   int            // keys held in this process's table
	Order   degrade.Order  // in force; zero: none
	DryRun  *Rehearsal     // nil: none
	Targets []TargetStatus // those that were asked for, by name; at least one on a store without parts
}

// TargetStatus is where one chain stands with one target of its store.
type TargetStatus struct {
	Target    string // empty on a store without parts
	State     degrade.State
	Tier      tierlock.Tier // what a new request gets; 0: it is refused. With a percentage: what the covered keys get
	Reason    tierlock.Reason
	Since     time.Time // of State
	Epoch     uint64    // changes of State so far
	Occupancy float64   // of the wire, as this chain's class meets it
	Out       int       // operations on the wire
	Own       int       // of them, this chain's
	Limit     int       // of the wire
}

// Status looks at every chain. It does no I/O and may be called as often as wanted.
func (g *Gateway) Status() Status {
	now := time.Now()
	version, policies := g.applied.look()
	s := Status{At: now, Applied: version, PolicyHash: policies, InDoubt: g.ledger.len(), Dropped: g.ledger.full.Load(), HookPanics: g.faults.all.Load()}
	for _, c := range g.chains {
		s.Chains = append(s.Chains, c.status(now))
	}
	slices.SortFunc(s.Chains, func(a, b ChainStatus) int { return cmp.Compare(a.Chain, b.Chain) })
	return s
}

func (c *Chain) status(now time.Time) ChainStatus {
	s := ChainStatus{Chain: c.name, Class: c.policy.Ladder.Class, Store: c.store.name, Live: c.live.Load(), Local: c.table.Live()}
	order := c.order.Load().of()
	if order.Covers(now, 0) {
		s.Order = *order
	}
	s.DryRun = c.rehearsed(now)
	for _, l := range c.standing() {
		s.Targets = append(s.Targets, l.status(order, now))
	}
	slices.SortFunc(s.Targets, func(a, b TargetStatus) int { return cmp.Compare(a.Target, b.Target) })
	return s
}

func (l *ladder) status(order *degrade.Order, now time.Time) TargetStatus {
	p, m := &l.chain.current.Load().Ladder, l.now.Load()
	route := degrade.Decide(p, order, m, now, 0) // the key with hash 0 is covered by every percentage
	r := l.target.sensor.Read(now)
	s := TargetStatus{
		Target: l.target.name, State: m.State, Tier: route.Tier, Reason: route.Reason, Since: m.Since, Epoch: m.Epoch,
		Occupancy: r.Occupancy, Out: l.target.sensor.Out(), Own: l.wire.Out(), Limit: l.target.sensor.Limit(),
	}
	if p.Class == degrade.ClassWeak {
		s.Occupancy = max(r.Occupancy, r.WeakOccupancy)
	}
	return s
}

// Tier is the lowest tier that new requests of the chain get on any target; 0: some are
// refused.
func (s *ChainStatus) Tier() tierlock.Tier {
	low := tierlock.Shared
	for _, t := range s.Targets {
		switch {
		case t.Tier == 0:
			return 0
		case t.Tier > low:
			low = t.Tier
		}
	}
	return low
}

// describe is what the audit log's heartbeats tell of this gateway.
func (g *Gateway) describe() audit.Status {
	s := g.Status()
	tiers := make(map[string]string, len(s.Chains))
	for _, c := range s.Chains {
		tiers[c.Chain] = "refused"
		if t := c.Tier(); t != 0 {
			tiers[c.Chain] = t.String()
		}
	}
	return audit.Status{Applied: s.Applied, Refused: g.refused(), PolicyHash: s.PolicyHash, Tiers: tiers}
}

// refused is what no chain gave a grant for; nil: nothing.
func (g *Gateway) refused() audit.Refused {
	var all audit.Refused
	for name, c := range g.chains {
		if counts := c.unserved.told(); counts != nil {
			if all == nil {
				all = audit.Refused{}
			}
			all[name] = counts
		}
	}
	return all
}

// PolicyHash is 16 hex digits over all policies in force: two services that configure one
// chain differently show it in their heartbeats, and so does one that has not applied what a
// switch document has changed.
func (g *Gateway) PolicyHash() string {
	_, policies := g.applied.look()
	return policies
}

func hashPolicies(chains map[string]Policy) (string, error) {
	text, err := json.Marshal(chains) // maps by name, structs by field: the same text for the same policies
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}
