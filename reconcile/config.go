package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/tierlock/tierlock"
)

// Config of a [Job].
type Config struct {
	Source   Source     // required; whoever opened it closes it
	Findings []Findings // each finding goes to all of them; required
	Rule     Rule

	Hooks  map[string]Hook // by business type
	Locker Locker          // required with Apply
	Apply  bool            // repair; default false: dry run, only check
	// Approvals is required with Apply where a hook's Consent waits for people. AskedBy is who
	// begins this run, who then may not approve what it asks for; see [Name]. "": not known.
	Approvals Approvals
	AskedBy   string

	// Idle is how long a producer may be silent before its name is put into a finding and
	// nothing waits for it any more. Default 1 h; at least 1 ms, as are Quiet and Tick.
	Idle time.Duration
	// Quiet is how long every live producer must have reported the tier shared for a chain
	// before anything of that chain is repaired. Default 20 s.
	Quiet time.Duration
	// Lateness is how long after an event's time it may still be on its way into its own
	// producer's log. What comes later than that is a late event: right, but dear. Default 1 s.
	Lateness time.Duration
	// Tick is how often time alone moves the job on. Default 1 s; at most Idle and Quiet.
	Tick time.Duration

	Caps Caps
	// HookTimeout bounds each call of a hook. Default 30 s; at most 1 min, so that a member with a
	// hook that hangs is not taken for stuck itself. See [ErrHookTimeout].
	HookTimeout time.Duration
	// StoreTimeout bounds each call of Findings, Approvals and DeadLetter, by the end of its ctx. Default
	// 30 s; at most 1 min. What takes longer is tried again; see [Job.Troubles].
	StoreTimeout time.Duration

	// SwitchOn tells whether an order lies over chain now, beyond what heartbeats tell.
	// Nil: heartbeats alone.
	SwitchOn func(chain string) bool
	// DeadLetter takes a record that is no event, with the reason. An error makes the job
	// try again. Nil: it is counted and logged.
	DeadLetter func(ctx context.Context, r Record, reason error) error

	Logger *slog.Logger // nil: discard
}

// DefaultStoreTimeout is that of [Config.StoreTimeout].
const DefaultStoreTimeout = 30 * time.Second

// shortest is the least that Idle, Quiet and Tick may be.
const shortest = time.Millisecond

// Validate reports every bad field at once.
func (c *Config) Validate() error {
	errs := []error{c.Rule.Validate()}
	bad := func(is bool, field, value, rule string) {
		if is {
			errs = append(errs, tierlock.Invalid(field, value, rule))
		}
	}
	bad(c.Source == nil, "source", "nil", "is required")
	bad(len(c.Findings) == 0, "findings", "none", "want at least one place to store findings in")
	for i, f := range c.Findings {
		bad(f == nil, "findings."+strconv.Itoa(i), "nil", "want a store")
	}
	for name, h := range c.Hooks {
		bad(name == "", "hooks", `""`, "want a business type")
		bad(h.Check == nil, "hooks."+name+".check", "nil", "is required: a repair without a check would fix what is right")
		for _, fault := range tierlock.Invalids(h.Consent.Validate()) {
			bad(true, "hooks."+name+"."+fault.Field, fault.Value, fault.Rule)
		}
		bad(c.Apply && c.Approvals == nil && h.Repair != nil && h.Consent.asks(), "approvals", "nil", "is required: hook "+name+" waits for people")
	}
	bad(c.Apply && c.Locker == nil, "locker", "nil", "is required with apply: repairs run under the real lock")
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"idle", c.Idle}, {"quiet", c.Quiet}, {"lateness", c.Lateness}, {"tick", c.Tick}, {"hook_timeout", c.HookTimeout}, {"store_timeout", c.StoreTimeout}} {
		bad(d.value < 0, d.field, d.value.String(), "want a duration of zero (the default) or more")
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"idle", c.Idle}, {"quiet", c.Quiet}, {"tick", c.Tick}} { // the job looks that often: less would keep a processor busy
		bad(d.value > 0 && d.value < shortest, d.field, d.value.String(), "want zero (the default), or "+shortest.String()+" or more")
	}
	bad(c.HookTimeout > time.Minute, "hook_timeout", c.HookTimeout.String(), "want at most 1m")
	bad(c.StoreTimeout > time.Minute, "store_timeout", c.StoreTimeout.String(), "want at most 1m")
	bad(c.Caps.PerMinute < 0, "caps.per_minute", strconv.Itoa(c.Caps.PerMinute), "want zero (60) or more")
	bad(c.Caps.Total < 0, "caps.total", strconv.Itoa(c.Caps.Total), "want zero (unlimited) or more")
	bad(c.Caps.AmountPerMinute < 0, "caps.amount_per_minute", strconv.FormatInt(c.Caps.AmountPerMinute, 10), "want zero (unlimited) or more")
	bad(c.Caps.AmountTotal < 0, "caps.amount_total", strconv.FormatInt(c.Caps.AmountTotal, 10), "want zero (unlimited) or more")
	bad(c.Caps.Tries < 0, "caps.tries", strconv.Itoa(c.Caps.Tries), "want zero (5) or more")
	bad(!(c.Caps.FailureRatio >= 0 && c.Caps.FailureRatio <= 1), "caps.failure_ratio",
		strconv.FormatFloat(c.Caps.FailureRatio, 'g', -1, 64), "want 0 (0.05) to 1")
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	c.Rule = c.Rule.withDefaults()
	c.Idle = or(c.Idle, time.Hour)
	c.Quiet = or(c.Quiet, 20*time.Second)
	c.Lateness = or(c.Lateness, time.Second)
	c.Tick = min(or(c.Tick, time.Second), c.Idle, c.Quiet)
	c.HookTimeout = or(c.HookTimeout, 30*time.Second)
	c.StoreTimeout = or(c.StoreTimeout, DefaultStoreTimeout)
	c.Caps.PerMinute = or(c.Caps.PerMinute, 60)
	c.Caps.Tries = or(c.Caps.Tries, 5)
	c.Caps.FailureRatio = or(c.Caps.FailureRatio, 0.05)
	hooks := make(map[string]Hook, len(c.Hooks))
	for name, h := range c.Hooks {
		h.Consent = h.Consent.withDefaults()
		hooks[name] = h
	}
	c.Hooks = hooks
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
