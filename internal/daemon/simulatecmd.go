package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/internal/signals"
	"github.com/tierlock/tierlock/switchcfg"
)

// mostRecordings is how many files one simulation reads.
const mostRecordings = 16

type simulateFlags struct {
	fs     *flag.FlagSet
	path   string
	sets   []string
	format *string
}

func (p Process) simulateFlags() *simulateFlags {
	f := &simulateFlags{fs: p.flags("simulate", "simulate [-c FILE] [--set CHAIN.FIELD=VALUE] [--output json] RECORDING…\n\n"+
		"Replays what signals.file has recorded under the policies of a configuration, or the\n"+
		"recorded ones with single fields set. Several files are read one behind the other.\n")}
	f.fs.StringVar(&f.path, "c", "", "a configuration `file` with the policies to try; what it lacks stays as recorded")
	f.fs.Func("set", "`chain.field=value` as in the file, e.g. coupon.saturate_in=2s; may be repeated", func(s string) error {
		f.sets = append(f.sets, s)
		return nil
	})
	f.format = output(f.fs)
	return f
}

// Simulate tells what the health machines of a recording would have done under another
// policy. It asks nobody and changes nothing.
func (p Process) Simulate(_ context.Context, args []string) int {
	f := p.simulateFlags()
	if code, ok := p.parse(f.fs, args, mostRecordings); !ok {
		return code
	}
	if f.fs.NArg() == 0 {
		return p.misused(f.fs, "want a RECORDING")
	}
	change, err := f.change()
	if err != nil {
		return p.fail(*f.format, err)
	}
	report, err := replayFiles(f.fs.Args(), change)
	if err == nil {
		err = f.meet(report)
	}
	if err != nil {
		return p.fail(*f.format, err)
	}
	if *f.format == "json" {
		_ = encoder(p.Stdout).Encode(report)
		return ExitOK
	}
	_ = report.WriteText(p.Stdout)
	return ExitOK
}

// change makes the policy to try of a recorded one.
func (f *simulateFlags) change() (signals.Change, error) {
	given := map[string]degrade.Policy{}
	if f.path != "" {
		cfg, err := Load(f.path)
		if err != nil {
			return nil, err
		}
		for name, p := range cfg.Chains {
			given[name] = p.Ladder
		}
	}
	fields := map[string][]string{} // by chain: lines of YAML
	for _, set := range f.sets {
		at, value, ok := strings.Cut(set, "=")
		chain, field, dotted := strings.Cut(at, ".")
		if !ok || !dotted || chain == "" || field == "" {
			return nil, tierlock.Invalid("--set", set, "want CHAIN.FIELD=VALUE")
		}
		fields[chain] = append(fields[chain], field+": "+value)
	}
	return func(chain string, p degrade.Policy) (degrade.Policy, error) {
		if other, ok := given[chain]; ok {
			p = other
		}
		if lines := fields[chain]; lines != nil {
			if err := switchcfg.Decode([]byte(strings.Join(lines, "\n")), &p); err != nil {
				return p, prefixed("--set "+chain+".", err)
			}
		}
		return p, prefixed(chain+".", p.Validate())
	}, nil
}

// meet finds what was set for chains that the recording does not have.
func (f *simulateFlags) meet(report *signals.Report) error {
	var names []string
	for _, c := range report.Chains {
		names = append(names, c.Chain)
	}
	var faults []error
	for _, set := range f.sets {
		if chain, _, _ := strings.Cut(set, "."); !slices.Contains(names, chain) {
			faults = append(faults, tierlock.Invalid("--set", set, "is for a chain that is not in the recording, which has "+strings.Join(names, ", ")))
		}
	}
	return errors.Join(faults...)
}

// replayFiles reads the recordings one behind the other.
func replayFiles(paths []string, change signals.Change) (report *signals.Report, err error) {
	var readers []io.Reader
	for _, path := range paths {
		file, openErr := os.Open(path)
		if openErr != nil {
			return nil, fmt.Errorf("read the recording: %w", openErr)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		readers = append(readers, file)
	}
	return signals.Simulate(io.MultiReader(readers...), change)
}
