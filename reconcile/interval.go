package reconcile

import (
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// Interval is one hold as its events tell it. Its times are the producer's own wall clock,
// never corrected.
type Interval struct {
	Event     string // id of its acquire event; of its end event where the acquire is lost
	Chain     string
	Key       tierlock.Key
	Holder    string // fingerprint of the request id
	Tier      tierlock.Tier
	Store     string
	Token     tierlock.Token
	Producer  string
	Epoch     uint64
	GrantedAt time.Time
	EndedAt   time.Time     // zero: no end event
	Latest    time.Time     // latest possible end; EndedAt where there is one
	TTL       time.Duration // as granted; zero: not told
	Error     time.Duration // bound of the clock error, either side; zero: unknown
	How       audit.How
	Outcome   audit.Work
	Switch    audit.Switch
	Business  audit.Business

	// The seqs of its two events order holds of one producer without a clock; zero: not seen.
	AcquireSeq, EndSeq uint64
}

// Ended tells whether the end is known, so that a finding with it may be certain. An end
// that was forced is not: the log also forces an end on a hold whose caller had given up
// before it got the grant, and nobody was ever inside.
func (iv *Interval) Ended() bool { return !iv.EndedAt.IsZero() && iv.How != audit.Forced }

// undone tells whether the work under the hold was rolled back, so that nothing of it stands
// and nobody was harmed by it. That is what its holder said; unknown is not undone.
func (iv *Interval) undone() bool { return iv.Outcome == audit.RolledBack }

// sameProcess tells whether both were stamped by one process, so that its seqs order them.
func (iv *Interval) sameProcess(o *Interval) bool {
	return iv.Producer == o.Producer && iv.Epoch == o.Epoch && iv.Producer != ""
}

// before orders intervals of one key: by grant, then by event, so that every replay sees
// the same order.
func before(a, b *Interval) int {
	if c := a.GrantedAt.Compare(b.GrantedAt); c != 0 {
		return c
	}
	switch {
	case a.Event < b.Event:
		return -1
	case a.Event > b.Event:
		return 1
	}
	return 0
}
