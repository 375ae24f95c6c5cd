package switchcfg

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
)

// MaxAhead is how far ahead an order's Until may lie: a switch that nobody remembers ends
// by itself within a day.
const MaxAhead = 24 * time.Hour

// MaxVersion is the highest version: room for whoever counts in milliseconds, and below what a
// JSON reader rounds.
const MaxVersion = 1_000_000_000_000_000

const chainName = "want a chain's name, a-z 0-9 _ -; there is no wildcard"

// maxWords bounds, in bytes, what is copied into every event of an order.
const maxWords = 256

// Document is one version of the switch. A strictly newer one replaces it whole: a chain
// that it does not name goes back to auto. One document may serve many services.
type Document struct {
	Version   uint64               `yaml:"version" json:"version"`                         // 1 to MaxVersion
	Canary    *Canary              `yaml:"canary,omitempty" json:"canary,omitempty"`       // who gets this version first; nil: everybody
	Chains    map[string]Directive `yaml:"chains" json:"chains"`                           // orders, by chain
	Policies  map[string]Values    `yaml:"policies,omitempty" json:"policies,omitempty"`   // live policy values, by chain; what is not named is as the process was started with
	Signature string               `yaml:"signature,omitempty" json:"signature,omitempty"` // see Sign; "": none
}

// Directive is what the document says of one chain. Every mode but auto needs Until,
// Reason and By.
type Directive struct {
	Mode       tierlock.Mode `yaml:"mode" json:"mode"`
	Until      time.Time     `yaml:"until,omitempty" json:"until,omitzero"`      // when the order ends by itself; at most MaxAhead
	Percent    *uint8        `yaml:"percent,omitempty" json:"percent,omitempty"` // of the chain's keys, by hash, 1 to 100; nil is 100
	Reason     string        `yaml:"reason,omitempty" json:"reason,omitempty"`
	By         string        `yaml:"by,omitempty" json:"by,omitempty"`                   // who ordered it
	BreakGlass bool          `yaml:"break_glass,omitempty" json:"break_glass,omitempty"` // may put a strong chain below shared
	DryRun     bool          `yaml:"dry_run,omitempty" json:"dry_run,omitempty"`         // nobody obeys: what would have happened is counted
}

// Share is Percent with its default.
func (d Directive) Share() uint8 {
	if d.Percent == nil {
		return 100
	}
	return *d.Percent
}

// Parse reads YAML or JSON strictly, as [Decode] does. What the document means is checked
// by [Document.Check].
func Parse(text []byte) (Document, error) {
	var d Document
	if err := Decode(text, &d); err != nil {
		return Document{}, err
	}
	return d, nil
}

// Check holds d against itself at now and reports every fault at once, each a
// [*tierlock.InvalidError]. What needs a chain's policy or the version in force is for the
// gateway.
func (d Document) Check(now time.Time) error {
	faults := []error{d.Canary.check()}
	if d.Version == 0 {
		faults = append(faults, tierlock.Invalid("version", "0", "want 1 or more, and more at every change"))
	}
	if d.Version > MaxVersion { // after it there would be none that is newer
		faults = append(faults, tierlock.Invalid("version", strconv.FormatUint(d.Version, 10), fmt.Sprintf("want at most %d", uint64(MaxVersion))))
	}
	if d.Chains == nil { // else a text cut off after its version would switch everything back
		faults = append(faults, tierlock.Invalid("chains", "", "is missing: write {} to order nothing"))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Chains)) {
		faults = append(faults, d.Chains[name].check(name, now)...)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Policies)) {
		if !isName(name) {
			faults = append(faults, tierlock.Invalid("policies", name, chainName))
		}
	}
	return errors.Join(faults...)
}

func (d Directive) check(chain string, now time.Time) (faults []error) {
	bad := func(field, value, rule string) {
		faults = append(faults, tierlock.Invalid("chains."+chain+"."+field, value, rule))
	}
	if !isName(chain) {
		faults = append(faults, tierlock.Invalid("chains", chain, chainName))
	}
	if d.Mode < tierlock.ModeAuto || d.Mode > tierlock.ModeReject {
		bad("mode", "", "want one of auto, shared, optimistic, local, bypass, reject")
	}
	if d.Percent != nil && (*d.Percent == 0 || *d.Percent > 100) {
		bad("percent", fmt.Sprint(*d.Percent), "want 1 to 100; leave it out for all, say auto for none")
	}
	needed := d.Mode > tierlock.ModeAuto
	if d.DryRun && !needed {
		bad("dry_run", "true", "want a mode to rehearse")
	}
	for _, words := range []struct{ field, text string }{{"reason", d.Reason}, {"by", d.By}} {
		switch {
		case len(words.text) > maxWords:
			bad(words.field, "", fmt.Sprintf("is %d bytes, want at most %d", len(words.text), maxWords))
		case needed && strings.TrimSpace(words.text) == "":
			bad(words.field, "", "is missing: every mode but auto needs it")
		}
	}
	switch until := d.Until.Format(time.RFC3339); {
	case !needed:
	case d.Until.IsZero():
		bad("until", "", "is missing: every mode but auto ends by itself")
	case !d.Until.After(now):
		bad("until", until, "has passed")
	case d.Until.Sub(now) > MaxAhead:
		bad("until", until, fmt.Sprintf("want at most %v ahead", MaxAhead))
	}
	return faults
}

// Live is d without the orders that have passed at now, and their chains' names, sorted.
// So an instance that starts late comes to the same orders as those that ran all along.
func (d Document) Live(now time.Time) (live Document, passed []string) {
	live = d
	live.Chains = maps.Clone(d.Chains)
	for name, order := range d.Chains {
		if order.Mode != tierlock.ModeAuto && !order.Until.IsZero() && !order.Until.After(now) {
			delete(live.Chains, name)
			passed = append(passed, name)
		}
	}
	slices.Sort(passed)
	return live, passed
}

// Hash is the same for documents that say the same, however they are written and whoever
// has signed them: the first 16 hex digits of a SHA-256.
func (d Document) Hash() string {
	text, err := d.canonical()
	if err != nil { // a mode or a year that is none: Check refuses such a document
		text = []byte(err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// isName says whether s can be a chain's name.
func isName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return s != ""
}
