package reconcile

import (
	"errors"
	"strconv"
	"time"

	"github.com/tierlock/tierlock"
)

// Apply says whether repairs of one business type are made. It matters only with
// [Config].Apply; without that every hook only checks.
type Apply string

// The ways to apply.
const (
	ApplyAuto    Apply = "auto"    // by itself, up to Consent.Over
	ApplyApprove Apply = "approve" // each one after people have said yes
	ApplyNever   Apply = "never"   // a dry run for good
)

// Consent is the rule for one business type: what is repaired by itself, and what waits for
// people. The zero Consent repairs everything by itself, within the [Caps].
type Consent struct {
	Apply Apply // default ApplyAuto
	// Over is how much may be wrong, by the check, for ApplyAuto to go ahead; more waits for
	// people. Default 0: no bound.
	Over int64
	// Approvers is how many different people must say yes, 1 or 2. Default 1.
	Approvers int
	// Valid is how long a yes counts. Default 24 h.
	Valid time.Duration
}

// Validate reports every bad field at once.
func (c Consent) Validate() error {
	var f invalid
	switch c.Apply {
	case "", ApplyAuto, ApplyApprove, ApplyNever:
	default:
		f.add("apply", string(c.Apply), "want auto, approve or never")
	}
	if c.Over < 0 {
		f.add("approve_over", strconv.FormatInt(c.Over, 10), "want 0 (no bound) or more")
	}
	if c.Over > 0 && c.Apply != "" && c.Apply != ApplyAuto {
		f.add("approve_over", strconv.FormatInt(c.Over, 10), "goes with apply: auto only")
	}
	if c.Approvers < 0 || c.Approvers > 2 {
		f.add("approvers", strconv.Itoa(c.Approvers), "want 1 or 2")
	}
	if c.Valid < 0 {
		f.add("approval_valid", c.Valid.String(), "want 0s (24h) or more")
	}
	return f.err()
}

// asks tells whether anything of this rule can wait for people.
func (c Consent) asks() bool { return c.Apply == ApplyApprove || c.Apply != ApplyNever && c.Over > 0 }

// needs tells whether repairing so much needs people.
func (c Consent) needs(wrong int64) bool {
	return c.Apply == ApplyApprove || c.Apply != ApplyNever && c.Over > 0 && wrong > c.Over
}

func (c Consent) withDefaults() Consent {
	c.Apply = or(c.Apply, ApplyAuto)
	c.Approvers = or(c.Approvers, 1)
	c.Valid = or(c.Valid, 24*time.Hour)
	return c
}

// invalid collects faults.
type invalid struct{ errs []error }

func (f *invalid) err() error { return errors.Join(f.errs...) }

func (f *invalid) add(field, value, rule string) {
	f.errs = append(f.errs, tierlock.Invalid(field, value, rule))
}
