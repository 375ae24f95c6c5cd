package breaker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/tierlock/tierlock"
)

const (
	// probeLimit is how long one probe may take. One that takes longer is not answered, however
	// long the silence may be.
	probeLimit = time.Second
	// slowWindow is how far back timeouts count towards a slow store.
	slowWindow = time.Second
	// worryFor is how long probing goes on after the last fault or call of Worry.
	worryFor = 2 * time.Second
	// trickleEvery lets two requests a second through to a slow store, and through a
	// breaker that is half open.
	trickleEvery = 500 * time.Millisecond
	// firstProbes is how many probes follow fast on the first hard fault: half a second
	// of them, so that a restart costs no more than it takes.
	firstProbes = 5
	// lookEvery is how often it is noted, while a probe is out, that this process runs. What is
	// later by more than stall means that it did not: it was suspended, or had no processor.
	lookEvery = 100 * time.Millisecond
	stall     = 200 * time.Millisecond
	// wireShare is the part of an attempt that an operation must have been on the wire
	// for its timeout to say that the store is slow. An attempt that waited for a slot,
	// or whose caller was in a hurry, had less time than a healthy store is allowed to
	// take.
	wireShare = 0.9
)

// Config of one [Sensor]. Zero values mean the stated defaults.
type Config struct {
	// Name of store and target, for logs.
	Name string
	// Wire is how many operations may be out at once; default 1024.
	Wire int
	// Reserved is the share of the wire that weak chains may not use, from 0 to below 1,
	// rounded up to whole slots; default 0.25. Negative: none.
	Reserved float64
	// Attempt is the shortest attempt of the chains that share the sensor; default
	// 200 ms. A target too slow for one of them is slow for all.
	Attempt time.Duration
	// Failures in a row that open the breaker; default 5. [Sensor.Tolerate] changes it.
	Failures int
	// Silence is for how long probes must go unanswered before a timeout counts as a failure;
	// default 1 s. [Sensor.Tolerate] changes it.
	Silence time.Duration
	// Open is how long the breaker stays open when no probe ends it; default 2 s.
	Open time.Duration
	// Probe asks the target for a sign of life beside the traffic and returns by its
	// context's deadline, with a [*tierlock.Fault] if there was none. Nil: the store
	// cannot be asked; it is then presumed well once Open has passed without a fault,
	// and the first attempts show.
	Probe func(ctx context.Context) error
	// ProbeEvery is the time from probe to probe while there is cause, jittered by a
	// quarter; default 500 ms. ProbeFirst is the same right after the first hard fault;
	// default 100 ms.
	ProbeEvery, ProbeFirst time.Duration
	// Loose counts what occupies the target beside the operations that this sensor
	// knows of: connections being made, say. It must not count what a Fault.Done that
	// is still open stands for. Cheap, no I/O, no call back into the sensor; nil: none.
	Loose func() int
	// Changed is called after every fault and every probe, when a reading is worth
	// taking: with no lock held, on the goroutine that called Exit or Run, maybe on many
	// at once. Nil: nobody listens.
	Changed func()
	// Logger hears of the breaker's edges and of failed probes. Nil: discard.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	or(&c.Wire, 1024)
	or(&c.Reserved, .25)
	or(&c.Attempt, 200*time.Millisecond)
	or(&c.Failures, 5)
	or(&c.Silence, time.Second)
	or(&c.Open, 2*time.Second)
	or(&c.ProbeEvery, 500*time.Millisecond)
	or(&c.ProbeFirst, 100*time.Millisecond)
	c.Reserved = max(c.Reserved, 0)
	if c.Loose == nil {
		c.Loose = func() int { return 0 }
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func or[T comparable](field *T, def T) {
	var zero T
	if *field == zero {
		*field = def
	}
}

// validate reports every fault at once; defaults are in place.
func (c *Config) validate() error {
	var errs []error
	check := func(ok bool, field string, value any, rule string) {
		if !ok {
			errs = append(errs, tierlock.Invalid(field, fmt.Sprint(value), rule))
		}
	}
	check(c.Wire > 0, "wire", c.Wire, "want a count above 0, or 0 for the default")
	check(c.Reserved < 1 && !math.IsNaN(c.Reserved), "reserved", c.Reserved, "want a share below 1")
	check(c.Attempt > 0, "attempt", c.Attempt, "want a time above 0, or 0 for the default")
	check(c.Failures > 0, "failures", c.Failures, "want a count above 0, or 0 for the default")
	check(c.Silence > 0, "silence", c.Silence, "want a time above 0, or 0 for the default")
	check(c.Open > 0, "open", c.Open, "want a time above 0, or 0 for the default")
	check(c.ProbeEvery > 0, "probe_every", c.ProbeEvery, "want a time above 0, or 0 for the default")
	check(c.ProbeFirst > 0, "probe_first", c.ProbeFirst, "want a time above 0, or 0 for the default")
	return errors.Join(errs...)
}
