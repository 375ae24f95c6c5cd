package incident

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/reconcile"
)

// Config of [Make].
type Config struct {
	From, To time.Time // the period: From ≤ t < To; required
	Author   string    // who makes the report; required
	FourEyes bool      // it must be reviewed by somebody else than Author

	// Source is closed: it ends with io.EOF. It should begin Longest before From, and hold
	// what came late. Required; whoever opened it closes it.
	Source reconcile.Source
	// Partitions tells what Source read of each, asked after it has ended; Records is
	// counted here. Nil: the certificate lists none.
	Partitions func() []Partition
	// Longest is how long a hold may last: what was granted earlier than that before From
	// is over by then. Default 10 min.
	Longest time.Duration

	Rule     reconcile.Rule
	Idle     time.Duration // as in reconcile.Config
	Lateness time.Duration // as in reconcile.Config

	// Store is where the job keeps findings and repairs; nil: nowhere.
	Store Store
	Hooks map[string]reconcile.Hook // by business type; only their checks are used
	// CheckTimeout bounds one check. Default 10 s.
	CheckTimeout time.Duration

	Owners     map[string]string // business type → who answers for its records
	Expect     []string          // producers of which something must be heard
	Blind      []string          // what the caller knows not to be recorded
	MaxRecords int               // business records that are listed and checked; default 100,000

	Logger *slog.Logger // nil: discard
}

// Store is a [reconcile.FindingsTable].
type Store interface {
	Between(ctx context.Context, from, to time.Time, do func(reconcile.Finding) error) error
	Repaired(ctx context.Context, key string) (wrong int64, at time.Time, known bool, err error)
}

// Validate reports every bad field at once.
func (c *Config) Validate() error {
	errs := []error{c.Rule.Validate(), checkPeriod(c.From, c.To), checkName("by", c.Author)}
	if c.Source == nil {
		errs = append(errs, tierlock.Invalid("source", "nil", "is required"))
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"longest", c.Longest}, {"idle", c.Idle}, {"lateness", c.Lateness}, {"check_timeout", c.CheckTimeout}} {
		if d.value < 0 {
			errs = append(errs, tierlock.Invalid(d.field, d.value.String(), "want a duration of zero (the default) or more"))
		}
	}
	if c.MaxRecords < 0 {
		errs = append(errs, tierlock.Invalid("max_records", strconv.Itoa(c.MaxRecords), "want zero (100000) or more"))
	}
	for kind, owner := range c.Owners {
		if kind == "" {
			errs = append(errs, tierlock.Invalid("owner", owner, "want TYPE=NAME"))
		}
		errs = append(errs, checkName("owner", owner))
	}
	for _, p := range c.Expect {
		errs = append(errs, checkName("expect", p))
	}
	return errors.Join(errs...)
}

// mostPeriod bounds a period: longer ones are several incidents.
const mostPeriod = 31 * 24 * time.Hour

func checkPeriod(from, to time.Time) error {
	text := from.UTC().Format(time.RFC3339Nano) + ".." + to.UTC().Format(time.RFC3339Nano)
	switch {
	case from.IsZero() || to.IsZero() || !from.Before(to):
		return tierlock.Invalid("incident", text, "want FROM..TO with FROM before TO")
	case to.Sub(from) > mostPeriod:
		return tierlock.Invalid("incident", text, "want 31 days or less")
	}
	return nil
}

// ParsePeriod reads FROM..TO, two instants of RFC 3339.
func ParsePeriod(text string) (from, to time.Time, err error) {
	const rule = "want FROM..TO, as 2026-11-29T10:00:00Z..2026-11-29T10:30:00Z"
	a, b, found := strings.Cut(text, "..")
	if !found {
		return from, to, tierlock.Invalid("incident", text, rule)
	}
	if from, err = time.Parse(time.RFC3339Nano, a); err == nil {
		to, err = time.Parse(time.RFC3339Nano, b)
	}
	if err != nil {
		return from, to, tierlock.Invalid("incident", text, rule)
	}
	return from.UTC(), to.UTC(), checkPeriod(from, to)
}

// mostName bounds a name in bytes.
const mostName = 128

// checkName wants something that a person can read and that stays on one line.
func checkName(field, name string) error {
	switch {
	case name == "":
		return tierlock.Invalid(field, "", "is required: a name")
	case len(name) > mostName:
		return tierlock.Invalid(field, name[:16]+"…", "want 128 bytes or less")
	case name != strings.TrimSpace(name) || !utf8.ValidString(name):
		return tierlock.Invalid(field, name, "want UTF-8 without space around it")
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return tierlock.Invalid(field, strconv.Quote(name), "want one line of what can be printed")
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.From, c.To = c.From.UTC(), c.To.UTC()
	if c.Longest == 0 {
		c.Longest = 10 * time.Minute
	}
	if c.CheckTimeout == 0 {
		c.CheckTimeout = 10 * time.Second
	}
	if c.MaxRecords == 0 {
		c.MaxRecords = 100_000
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// holds tells whether t is in the period.
func (c *Config) holds(t time.Time) bool { return !t.Before(c.From) && t.Before(c.To) }
