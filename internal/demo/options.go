//go:build !nodemo

package demo

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/flagrule"
	"github.com/tierlock/tierlock/internal/hostport"
	"github.com/tierlock/tierlock/internal/postgres"
	"github.com/tierlock/tierlock/internal/trace"
)

// options are the command line, read.
type options struct {
	redis, kafka, nacos, dsn string
	trace                    string
	window                   trace.Window
	json                     bool
}

const usage = `usage: tierlock demo [flags]

Without flags everything runs inside this process: Redis, Kafka, the switch and the
business database are stand-ins, the code that uses them is the real one. Each server
that is named is used instead of its stand-in.

`

// parse reads the command line and reports every bad value at once. flag.ErrHelp means that
// help was asked for and printed.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var from, output string
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // for one wrong flag a line is read, and a page is not
	fs.Usage = func() {}
	fs.StringVar(&o.redis, "redis", "", "`host:port` of a real Redis; its faults are made by a proxy in this process")
	fs.StringVar(&o.kafka, "kafka", "", "`host:port` of a real Kafka broker")
	fs.StringVar(&o.nacos, "nacos", "", "`host:port` of a real Nacos; without it the switch is a file")
	fs.StringVar(&o.dsn, "dsn", "", "`DSN` of a real PostgreSQL")
	fs.StringVar(&o.trace, "trace", "", "replay the sales and claims of this CSV `file` (make trace)")
	fs.StringVar(&from, "from", "", "`time` the replay begins at, 2017-06-17 or 2017-06-17T12:00:00Z; default the file's first event")
	fs.DurationVar(&o.window.For, "for", 0, "how much of the trace to replay, in its own time; default all of it")
	fs.Float64Var(&o.window.Speed, "speed", 1000, "trace seconds per second")
	fs.StringVar(&output, "output", "text", "text, or json: one object on stdout, everything else on stderr")
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(stderr)
		fmt.Fprint(stderr, usage)
		fs.PrintDefaults()
		return o, err
	case err != nil:
		return o, fmt.Errorf("tierlock demo: %s\n`tierlock demo -h` tells the flags", flagrule.Told(fs, err))
	}
	o.json = output == "json"
	return o, o.check(fs, from, output)
}

func (o *options) check(fs *flag.FlagSet, from, output string) error {
	var errs []error
	if fs.NArg() > 0 {
		errs = append(errs, tierlock.Invalid("argument", fs.Arg(0), "the demo takes flags only"))
	}
	if output != "text" && output != "json" {
		errs = append(errs, tierlock.Invalid("output", output, "want text or json"))
	}
	errs = append(errs, address("redis", o.redis), address("kafka", o.kafka), address("nacos", o.nacos))
	if o.dsn != "" {
		if postgres.Check(o.dsn) != nil {
			// The driver's message repeats the text, which may hold a password.
			errs = append(errs, tierlock.Invalid("dsn", "", "is no PostgreSQL DSN such as postgres://user@host:5432/db"))
		}
	}
	errs = append(errs, o.checkTrace(fs, from))
	return errors.Join(errs...)
}

func (o *options) checkTrace(fs *flag.FlagSet, from string) error {
	var errs []error
	if o.trace == "" {
		fs.Visit(func(f *flag.Flag) {
			if f.Name == "from" || f.Name == "for" || f.Name == "speed" {
				errs = append(errs, tierlock.Invalid(f.Name, f.Value.String(), "belongs to a replay: give --trace too"))
			}
		})
		return errors.Join(errs...)
	}
	if info, err := os.Stat(o.trace); err != nil || info.IsDir() {
		errs = append(errs, tierlock.Invalid("trace", o.trace, "is no file that can be read; `make trace` makes one"))
	}
	if from != "" {
		at, err := parseTime(from)
		if err != nil {
			errs = append(errs, tierlock.Invalid("from", from, "want a time like 2017-06-17 or 2017-06-17T12:00:00Z"))
		}
		o.window.From = at
	}
	if o.window.Speed == 0 {
		errs = append(errs, tierlock.Invalid("speed", "0", "want more than 0"))
	}
	return errors.Join(append(errs, o.window.Validate())...)
}

func parseTime(s string) (time.Time, error) {
	var at time.Time
	var err error
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if at, err = time.Parse(layout, s); err == nil {
			return at.UTC(), nil
		}
	}
	return at, err
}

func address(field, addr string) error {
	if addr == "" {
		return nil
	}
	if !hostport.Valid(addr) {
		return tierlock.Invalid(field, addr, hostport.Rule)
	}
	return nil
}
