package localfallback

import (
	"errors"
	"strconv"
	"time"

	"github.com/tierlock/tierlock"
)

// The defaults are the requirement's: a lock in the process for 10 s, at most three
// holders of one business id, and a memory bound that is kept by refusing.
const (
	defaultTTL     = 10 * time.Second
	defaultPermits = 3
	defaultKeys    = 100_000
)

// The limits on a chain's policy. A local hold is the price of an outage, so its hard end
// stays within the longest ttl a shared lock may have.
const (
	minTTL = time.Second
	maxTTL = 10 * time.Minute
)

// Policy is the part of a chain's policy that this package serves. Zero fields mean the
// stated default.
type Policy struct {
	TTL     time.Duration `json:"ttl,omitempty" yaml:"ttl"`         // hard end of a local hold, never renewed past; 10 s
	Permits int           `json:"permits,omitempty" yaml:"permits"` // holders per key; 1 excludes inside the process; 3
	Keys    int           `json:"keys,omitempty" yaml:"keys"`       // keys that may be held at once, kept by refusal; 100,000
}

// WithDefaults returns p with every zero field set to its default.
func (p Policy) WithDefaults() Policy {
	if p.TTL == 0 {
		p.TTL = defaultTTL
	}
	if p.Permits == 0 {
		p.Permits = defaultPermits
	}
	if p.Keys == 0 {
		p.Keys = defaultKeys
	}
	return p
}

// Validate reports every fault at once, each a [*tierlock.InvalidError]; zero fields are
// not faults.
func (p Policy) Validate() error {
	var faults []error
	if p.TTL != 0 && (p.TTL < minTTL || p.TTL > maxTTL) {
		faults = append(faults, tierlock.Invalid("local.ttl", p.TTL.String(), "want 1s to 10m"))
	}
	if p.Permits < 0 {
		faults = append(faults, tierlock.Invalid("local.permits", strconv.Itoa(p.Permits), "want 1 or more"))
	}
	if p.Keys < 0 {
		faults = append(faults, tierlock.Invalid("local.keys", strconv.Itoa(p.Keys), "want 1 or more"))
	}
	return errors.Join(faults...)
}
