package daemon

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierlock/tierlock"
)

type doctorFlags struct {
	fs      *flag.FlagSet
	path    string
	strict  bool
	timeout time.Duration
	format  *string
}

const doctorUsage = `doctor -c FILE [--strict] [--timeout 10s] [--output json]

Looks at everything a daemon with this configuration would depend on, on the host where it
would run, and says what to do about what is wrong. It changes nothing: in the folder of
the spool it writes, syncs and removes one small file.

Exit codes: 0 nothing failed, 1 a check failed (with --strict: or warned), 2 the
configuration is wrong.

`

func (p Process) doctorFlags() *doctorFlags {
	f := &doctorFlags{fs: p.flags("doctor", doctorUsage)}
	f.fs.StringVar(&f.path, "c", "", "the configuration `file`, see docs/config.md")
	f.fs.BoolVar(&f.strict, "strict", false, "exit with 1 on warnings too")
	f.fs.DurationVar(&f.timeout, "timeout", groupTimeout, "for all that is asked")
	f.format = output(f.fs)
	return f
}

// diagnosis is what doctor prints as JSON.
type diagnosis struct {
	Grade  string    `json:"grade"` // the worst
	Checks []checkup `json:"checks"`
}

// Doctor checks what a daemon with the configuration would depend on.
func (p Process) Doctor(ctx context.Context, args []string) int {
	f := p.doctorFlags()
	if code, ok := p.parse(f.fs, args, 0); !ok {
		return code
	}
	if f.timeout <= 0 {
		return p.fail(*f.format, tierlock.Invalid("--timeout", f.timeout.String(), "want a time above 0"))
	}
	cfg, code, ok := p.load(f.fs, f.path, *f.format)
	if !ok {
		return code
	}
	d := diagnosis{Grade: gradeOK, Checks: examine(ctx, cfg.groups(), f.timeout)}
	count := map[string]int{}
	for _, c := range d.Checks {
		count[c.Grade]++
	}
	switch {
	case count[gradeFail] > 0:
		d.Grade, code = gradeFail, ExitError
	case count[gradeWarn] > 0:
		d.Grade = gradeWarn
		if f.strict {
			code = ExitError
		}
	}
	if *f.format == "json" {
		_ = encoder(p.Stdout).Encode(d)
		return code
	}
	for _, c := range d.Checks {
		fmt.Fprintf(p.Stdout, "%-4s  %-12s %-12s %s\n", c.Grade, c.Group, c.Check, c.Found)
		if c.Remedy != "" {
			fmt.Fprintf(p.Stdout, "      %-12s %-12s %s\n", "", "", "to do: "+c.Remedy)
		}
	}
	fmt.Fprintf(p.Stdout, "%d ok, %d %s, %d failed\n", count[gradeOK], count[gradeWarn], plural(count[gradeWarn], "warning"), count[gradeFail])
	return code
}

// groups are the checks that c asks for.
func (c *Config) groups() []group {
	all := []group{{"policy", c.doctorPolicy}, {"host", c.doctorHost}}
	if c.Audit.Dir != "" {
		all = append(all, group{"spool", c.doctorSpool})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Stores)) {
		all = append(all, group{"store " + name, func(ctx context.Context, e *examiner) { c.doctorStore(ctx, e, name) }})
	}
	if c.Audit.Kafka != nil {
		all = append(all, group{"kafka", c.doctorKafka})
	}
	if s := c.Switch; s.Nacos != nil || s.HTTP != nil || s.File != "" {
		all = append(all, group{"switch", c.doctorSwitch})
	}
	return all
}
