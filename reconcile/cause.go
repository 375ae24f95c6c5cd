package reconcile

import (
	"math/bits"

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
	CauseUnreleased     Cause = "unreleased"      // one end is unknown: its process died, or its event is lost
	CauseBypass         Cause = "bypass"          // one of them excluded nobody, by an operator's order
	CauseLocalElsewhere Cause = "local_elsewhere" // one of them excluded its own process only
	CausePermits        Cause = "permits"         // local holders of one process, as many as its policy permits
)

// causes by bit, the lowest the gravest.
var causes = [...]Cause{CauseFailover, CauseExpired, CauseUnreleased, CauseBypass, CauseLocalElsewhere, CausePermits}

const (
	bitFailover = 1 << iota
	bitExpired
	bitUnreleased
	bitBypass
	bitLocalElsewhere
	bitPermits
)

// causeOf says why a and b could be inside at once, in either order.
func causeOf(a, b *Interval) uint8 {
	switch {
	case a.Tier == tierlock.Bypass || b.Tier == tierlock.Bypass:
		return bitBypass
	case a.Tier == tierlock.Local && b.Tier == tierlock.Local && a.sameProcess(b):
		return bitPermits
	case a.Tier == tierlock.Local || b.Tier == tierlock.Local:
		return bitLocalElsewhere
	case ranOut(a) || ranOut(b):
		return bitExpired
	case a.EndedAt.IsZero() || b.EndedAt.IsZero():
		return bitUnreleased
	}
	return bitFailover
}

func ranOut(iv *Interval) bool { return iv.How == audit.Expired || iv.How == audit.Lost }

// causesOf lists the causes of a set.
func causesOf(set uint8) []Cause {
	out := make([]Cause, 0, bits.OnesCount8(set))
	for i, c := range causes {
		if set&(1<<i) != 0 {
			out = append(out, c)
		}
	}
	return out
}
