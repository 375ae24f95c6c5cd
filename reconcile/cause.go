package reconcile

import (
	"math/bits"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// Cause is how two holds of one key came to overlap. A finding has the set of its pairs'
// causes, the gravest first.
type Cause string

// The causes, the gravest first: what breaks the strongest promise comes first.
const (
	CauseFailover       Cause = "failover"        // two shared holds, neither over: the store granted twice (failover, eviction, lost memory)
	CauseExpired        Cause = "expired_in_hold" // a shared hold ran out while its holder went on
	CauseUnguarded      Cause = "unguarded_write" // both committed from one version of one record: a write that compared none
	CauseClock          Cause = "clock"           // a clock was off by more than its process knew, or was stepped: times prove little
	CauseUnreleased     Cause = "unreleased"      // one end is unknown: its process died, or its event is lost
	CauseBypass         Cause = "bypass"          // one of them excluded nobody, by an operator's order
	CauseLocalElsewhere Cause = "local_elsewhere" // one of them excluded its own process only
	CauseOptimistic     Cause = "optimistic"      // one of them held nothing and committed beside a hold
	CausePermits        Cause = "permits"         // local holders of one process, as many as its policy permits
	CauseSplitKey       Cause = "split_key"       // one business record under different keys, each held as it should be: see SplitKeys
)

// causes by bit, the lowest the gravest.
var causes = [...]Cause{
	CauseFailover, CauseExpired, CauseUnguarded, CauseClock, CauseUnreleased, CauseBypass, CauseLocalElsewhere, CauseOptimistic, CausePermits, CauseSplitKey,
}

// causeSet is a set of causes.
type causeSet uint16

const (
	bitFailover causeSet = 1 << iota
	bitExpired
	bitUnguarded
	bitClock
	bitUnreleased
	bitBypass
	bitLocalElsewhere
	bitOptimistic
	bitPermits
	bitSplitKey
)

// causeOf says why a and b could be inside at once, in either order.
func causeOf(rule *Rule, a, b *Interval) causeSet {
	set := tierCause(a, b)
	if lostUpdate(a, b) {
		set |= bitUnguarded
	}
	switch {
	case rule.clockOff(a) || rule.clockOff(b):
		set = set&^bitFailover | bitClock
	case a.sameProcess(b) && !crosses(a.GrantedAt, a.Latest, b.GrantedAt, b.Latest, 0):
		set |= bitClock // see relateInside
	}
	return set
}

// tierCause is what the tiers and ends of two holds tell.
func tierCause(a, b *Interval) causeSet {
	has := func(t tierlock.Tier) bool { return a.Tier == t || b.Tier == t }
	switch {
	case has(tierlock.Optimistic):
		return bitOptimistic
	case has(tierlock.Bypass):
		return bitBypass
	case a.Tier == tierlock.Local && b.Tier == tierlock.Local && a.sameProcess(b):
		return bitPermits
	case has(tierlock.Local):
		return bitLocalElsewhere
	case forgotten(a) || forgotten(b):
		return bitFailover
	case ranOut(a) || ranOut(b):
		return bitExpired
	case a.EndedAt.IsZero() || b.EndedAt.IsZero():
		return bitUnreleased
	}
	return bitFailover
}

func ranOut(iv *Interval) bool { return iv.How == audit.Expired || iv.How == audit.Lost }

// forgotten tells whether a hold was gone from its store before its first ttl was over.
func forgotten(iv *Interval) bool {
	return iv.How == audit.Lost && iv.TTL > 0 && iv.EndedAt.Before(iv.GrantedAt.Add(iv.TTL))
}

// lostUpdate tells whether both committed from the same version of the same record: had
// each compared it, one would have failed.
func lostUpdate(a, b *Interval) bool {
	x, y := &a.Business, &b.Business
	return committed(a) && committed(b) && x.Type == y.Type && x.ID == y.ID && x.Before != nil && y.Before != nil && *x.Before == *y.Before
}

// guarded tells whether both told from which version they committed, and not from the same.
func guarded(a, b *Interval) bool {
	x, y := &a.Business, &b.Business
	return x.Type == y.Type && x.ID == y.ID && x.Before != nil && y.Before != nil && *x.Before != *y.Before
}

func committed(iv *Interval) bool { return iv.Outcome == audit.Committed }

// clockSlack is by how much a grant's time may lie after the token's in one attempt, and
// then some; beyond clockSense a token is no time at all, but some other store's count.
const (
	clockSlack = time.Second
	clockSense = 24 * time.Hour
)

// clockOff tells whether the store contradicts a hold's own time by more than the bound
// that its process gave: a token is the server's clock in microseconds.
func (r *Rule) clockOff(iv *Interval) bool {
	if iv.Tier != tierlock.Shared || iv.Token == 0 || iv.Token > 1<<53 {
		return false
	}
	off := iv.GrantedAt.Sub(time.UnixMicro(int64(iv.Token))).Abs()
	return off > r.margin(iv)+clockSlack && off < clockSense
}

// causesOf lists the causes of a set.
func causesOf(set causeSet) []Cause {
	out := make([]Cause, 0, bits.OnesCount16(uint16(set)))
	for i, c := range causes {
		if set&(1<<i) != 0 {
			out = append(out, c)
		}
	}
	return out
}
