package gateway

import (
	"crypto/ed25519"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/switchcfg"
)

// Config of a [Gateway].
type Config struct {
	// Chains names every business flow and its policy: ^[a-z0-9_-]+$. Required.
	Chains map[string]Policy
	// Stores are the shared stores by name; a policy's Store picks one, and may be left
	// out when there is only one. Required. The gateway never closes them: whoever opened
	// them does, after it.
	Stores map[string]tierlock.Backend
	// Audit records holds. Required unless every chain says audit: off. Without one, or
	// with [audit.Discard], bypass is refused. The gateway never closes it.
	Audit audit.Recorder
	// Switch is where operators' orders come from, followed until Close. Nil: none but
	// [Gateway.Apply]'s.
	Switch switchcfg.Source
	// LastGood is the file that keeps the last good switch document over a restart.
	// Empty: none is kept.
	LastGood string
	// Poll is how often Switch is fetched, jittered by a quarter; default 4 s,
	// with which a flip whose push is lost arrives within 6 s.
	Poll time.Duration
	// SwitchKeys sign switch documents: what none of them has signed is refused. Empty:
	// signatures are not looked at. [Gateway.Apply] does not ask for one.
	SwitchKeys []ed25519.PublicKey
	// Instance names this process, for documents that some instances get first. Empty: it
	// is never among them. Events name it by their recorder's producer; use the same.
	Instance string
	// Prefix of every key, of the bytes that keys may have; default "biz".
	Prefix string
	// Hooks are told what happened.
	Hooks Hooks
	// Logger; nil discards.
	Logger *slog.Logger
}

const (
	defaultPrefix = "biz"
	nameBytes     = "abcdefghijklmnopqrstuvwxyz0123456789_-"
)

// withDefaults fills what is zero, in copies of what the caller may still change.
func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Audit == nil {
		c.Audit = audit.Discard
	}
	c.Chains = maps.Clone(c.Chains)
	for name, p := range c.Chains {
		p.Local = p.Local.WithDefaults()
		if p.Store == "" && len(c.Stores) == 1 {
			for only := range c.Stores {
				p.Store = only
			}
		}
		c.Chains[name] = p
	}
	return c
}

// check reports every fault of cfg at once. Defaults are in place, but for Audit, which
// the caller either gave or did not.
func (c *Config) check(recorded bool) error {
	var errs []error
	bad := func(field, value, rule string) { errs = append(errs, tierlock.Invalid(field, value, rule)) }
	if len(c.Chains) == 0 {
		bad("chains", "", "want at least one")
	}
	if len(c.Stores) == 0 {
		bad("stores", "", "want at least one")
	}
	if c.Poll < 0 {
		bad("poll", c.Poll.String(), "want a time above 0, or 0 for the default")
	}
	_, err := tierlock.ParseKey(c.Prefix) // the rule of a key, which it begins
	if e, ok := errors.AsType[*tierlock.InvalidError](err); ok {
		bad("prefix", e.Value, e.Rule)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Stores)) {
		switch b := c.Stores[name]; {
		case b == nil, b.Traits().Tier != tierlock.Shared:
			bad("stores."+name, "", "want a backend that grants shared locks")
		case b.Traits().Wire < 0:
			bad("stores."+name, "", "its wire is below 0")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Chains)) {
		errs = append(errs, under("chains."+name+".", c.checkChain(name, recorded)))
	}
	return errors.Join(errs...)
}

// checkChain reports every fault of one chain.
func (c *Config) checkChain(name string, recorded bool) error {
	p := c.Chains[name]
	errs := []error{p.Validate()}
	bad := func(field, value, rule string) { errs = append(errs, tierlock.Invalid(field, value, rule)) }
	if name == "" || strings.Trim(name, nameBytes) != "" {
		bad("name", name, "want a-z 0-9 _ and - only")
	}
	b, ok := c.Stores[p.Store]
	switch {
	case len(c.Stores) == 0: // told once, of all chains
	case !ok && p.Store == "":
		bad("store", "", "say which: there are "+names(c.Stores))
	case !ok:
		bad("store", p.Store, "is not one of the stores: "+names(c.Stores))
	case b != nil && p.Fencing && p.Ladder.Class == degrade.ClassStrong && !b.Traits().Fences:
		bad("fencing", "true", "the store makes no tokens: say fencing: false, or use one that does")
	}
	if b != nil {
		errs = append(errs, p.checkMemory(b))
	}
	if !recorded && p.Audit.Record != audit.RecordOff {
		bad("audit", p.Audit.Record.String(), "there is no recorder: give Config.Audit, or say audit: off")
	}
	return errors.Join(errs...)
}

// names lists what m has, for an error that says what to choose from.
func names[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
