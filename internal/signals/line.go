package signals

import (
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
)

// line is one line of a recording: of one chain, and exactly one of what follows.
type line struct {
	At     time.Time `json:"at"`
	Chain  string    `json:"chain,omitempty"`
	Target string    `json:"target,omitempty"`

	Policy  map[string]string         `json:"policy,omitempty"`  // the chain's thresholds, by their names in files
	Start   bool                      `json:"start,omitempty"`   // with policy: a process begins
	Stands  *stands                   `json:"stands,omitempty"`  // the state in which a further file begins
	Signals *gateway.ExplainedSignals `json:"signals,omitempty"` // one look at the target
	Step    *Step                     `json:"step,omitempty"`    // the machine changed its state
	Order   *order                    `json:"order,omitempty"`   // an operator's order begins; mode auto: it ends
	Calls   map[string]int            `json:"calls,omitempty"`   // by what they got, since the line before
	Dropped int64                     `json:"dropped,omitempty"` // lines that came faster than the disk took them
}

// stands is a machine's state.
type stands struct {
	State  degrade.State   `json:"state"`
	Reason tierlock.Reason `json:"reason,omitempty"`
	Since  time.Time       `json:"since"`
}

// Step is one change of health.
type Step struct {
	At     time.Time       `json:"at,omitzero"` // in a report; in a recording the line has it
	Target string          `json:"target,omitempty"`
	From   degrade.State   `json:"from"`
	To     degrade.State   `json:"to"`
	Reason tierlock.Reason `json:"reason,omitempty"`
}

// order is an operator's order.
type order struct {
	Mode    tierlock.Mode `json:"mode"`
	Until   time.Time     `json:"until,omitzero"`
	Percent uint8         `json:"percent,omitempty"`
	Version uint64        `json:"version,omitempty"`
}

// What calls get, beside the names of the tiers.
const (
	gotHeld    = "held"    // another had the key
	gotRefused = "refused" // no lock, and no leave to go on without
	gotSlow    = "slow"    // the store is slow: two a second try
	gotRamp    = "recovering"
	gotOne     = "coalesced" // the wire is full: one call at a time for each key
	gotPart    = "relapsed"  // the wire was full too often: what is free of it serves
)

// got is what a call got.
func got(v tierlock.Verdict) string {
	switch {
	case v.Outcome == tierlock.Success:
		return v.Tier.String()
	case v.Outcome == tierlock.Failure:
		return gotHeld
	case v.Advice == tierlock.AdviseOptimistic:
		return tierlock.Optimistic.String()
	}
	return gotRefused
}
