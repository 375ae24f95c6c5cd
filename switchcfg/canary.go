package switchcfg

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/tierlock/tierlock"
)

// Canary says which instances get a version first; the others keep what they have, as if
// it had not been published, until a newer version without a canary comes. An instance is
// in if it is named or in the share. This is a share of the instances; a share of the keys,
// the same on all of them, is [Directive].Percent.
type Canary struct {
	Instances []string `yaml:"instances,omitempty" json:"instances,omitempty"` // by the name under which they record events
	Percent   uint8    `yaml:"percent,omitempty" json:"percent,omitempty"`     // by hash of that name, 1 to 99; who is in a share is in every larger one
}

// Covers says whether the instance of that name gets the version. One without a name does
// not.
func (c *Canary) Covers(instance string) bool {
	if c == nil {
		return true
	}
	if instance == "" {
		return false
	}
	sum := sha256.Sum256([]byte(instance))
	return slices.Contains(c.Instances, instance) || binary.BigEndian.Uint64(sum[:8])%100 < uint64(c.Percent)
}

// String tells who gets it, for people.
func (c *Canary) String() string {
	if c == nil {
		return "every instance"
	}
	var parts []string
	if len(c.Instances) > 0 {
		parts = append(parts, strings.Join(c.Instances, ", "))
	}
	if c.Percent > 0 {
		parts = append(parts, fmt.Sprintf("%d %% of the instances", c.Percent))
	}
	return strings.Join(parts, " and ")
}

func (c *Canary) check() error {
	if c == nil {
		return nil
	}
	var faults []error
	if len(c.Instances) == 0 && c.Percent == 0 {
		faults = append(faults, tierlock.Invalid("canary", "", "names nobody: want instances or percent, or no canary"))
	}
	if c.Percent > 99 {
		faults = append(faults, tierlock.Invalid("canary.percent", fmt.Sprint(c.Percent), "want 1 to 99; leave canary out for all"))
	}
	for i, name := range c.Instances {
		if name == "" || len(name) > maxWords || strings.ContainsFunc(name, unicode.IsSpace) {
			faults = append(faults, tierlock.Invalid(fmt.Sprintf("canary.instances[%d]", i), name, fmt.Sprintf("want a name of 1 to %d bytes without spaces", maxWords)))
		}
	}
	return errors.Join(faults...)
}
