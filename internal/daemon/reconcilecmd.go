package daemon

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/memory"
	"github.com/tierlock/tierlock/reconcile"
)

// listTimeout bounds reading the stored findings.
const listTimeout = 30 * time.Second

// reconcileFlags are those of tierlock reconcile.
type reconcileFlags struct {
	fs     *flag.FlagSet
	path   string
	apply  bool
	once   bool
	report bool
	replay bool
	by     string
	format *string
}

func (p Process) reconcileFlags() *reconcileFlags {
	f := &reconcileFlags{fs: p.flags("reconcile", "reconcile -c FILE [--apply [--by NAME]] [--once | --report | --replay-dlq] [--output json]")}
	f.fs.StringVar(&f.path, "c", "", "the configuration `file`, see docs/config.md")
	f.fs.BoolVar(&f.apply, "apply", false, "repair; without it the hooks only check (a dry run)")
	f.fs.StringVar(&f.by, "by", "", "with --apply: who begins this run, and may not approve what it asks for; a `name`")
	f.fs.BoolVar(&f.once, "once", false, "read what is in Kafka now, print the report and exit")
	f.fs.BoolVar(&f.report, "report", false, "list the findings stored in the database and exit")
	f.fs.BoolVar(&f.replay, "replay-dlq", false, "look at the dead letters, with --apply put back those that can be read now, and exit")
	f.format = output(f.fs)
	return f
}

// check refuses flags of which one would be passed over.
func (f *reconcileFlags) check() error {
	var modes []string
	for _, m := range []struct {
		name string
		set  bool
	}{{"--once", f.once}, {"--report", f.report}, {"--replay-dlq", f.replay}} {
		if m.set {
			modes = append(modes, m.name)
		}
	}
	switch {
	case len(modes) > 1:
		return tierlock.Invalid(modes[1], "", "does not go with "+modes[0]+": each is a run of its own")
	case f.report && f.apply:
		return tierlock.Invalid("--apply", "", "does not go with --report: it only lists")
	case f.by != "" && !f.apply:
		return tierlock.Invalid("--by", f.by, "needs --apply: without it nothing is repaired")
	case f.by != "" && f.replay:
		return tierlock.Invalid("--by", f.by, "does not go with --replay-dlq: it asks nobody for a repair")
	}
	return nil
}

// Reconcile runs the job until ctx ends, or as its flags say. Its log goes to Stderr, the
// report to Stdout.
func (p Process) Reconcile(ctx context.Context, args []string) int {
	f := p.reconcileFlags()
	if code, ok := p.parse(f.fs, args, 0); !ok {
		return code
	}
	cfg, code, ok := p.load(f.fs, f.path, *f.format)
	if !ok {
		return code
	}
	if err := f.check(); err != nil {
		return p.fail(*f.format, err)
	}
	if f.report {
		return p.listFindings(ctx, cfg, *f.format)
	}
	if f.replay {
		return p.replayLetters(ctx, cfg, f.apply, *f.format)
	}
	if f.by != "" {
		by, err := reconcile.Name("--by", f.by)
		if err != nil {
			return p.fail(*f.format, err)
		}
		f.by = by
	}
	defer memory.Limit(memory.Reconcile)()
	r, err := openReconciler(cfg, p.version(), cfg.Log.logger(p.Stderr), f.apply, f.once, f.by)
	if err != nil {
		return p.fail(*f.format, err)
	}
	err = r.Run(ctx)
	report := r.job.Report()
	if *f.format == "json" {
		_ = encoder(p.Stdout).Encode(report)
	} else {
		_ = report.WriteText(p.Stdout)
		if report.DryRun {
			fmt.Fprintln(p.Stdout, "nothing was repaired: --apply repairs")
		}
	}
	if err != nil {
		return p.fail("text", err)
	}
	return ExitOK
}

// listFindings prints what the job has stored so far.
func (p Process) listFindings(ctx context.Context, cfg Config, format string) int {
	d := cfg.Reconcile.Database
	if d == nil {
		return p.fail(format, tierlock.Invalid("reconcile.database", "", "is required for --report: findings are listed from there"))
	}
	db, err := d.open()
	if err != nil {
		return p.fail(format, prefixed("reconcile.database.", err))
	}
	defer db.Close() //nolint:errcheck // it was only read from
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	table, err := reconcile.SQLFindings(db, dialect)
	if err != nil {
		return p.fail(format, err)
	}
	findings, err := table.List(ctx)
	if err != nil {
		return p.fail(format, err)
	}
	if format == "json" {
		_ = encoder(p.Stdout).Encode(slices.Concat([]reconcile.Finding{}, findings)) // [] and not null
		return ExitOK
	}
	for i := range findings {
		printFinding(p.Stdout, &findings[i])
	}
	fmt.Fprintf(p.Stdout, "%d %s\n", len(findings), plural(len(findings), "finding"))
	return ExitOK
}

// printFinding writes one finding, and its holds below it.
func printFinding(w io.Writer, f *reconcile.Finding) {
	fmt.Fprintf(w, "%s  %-8s %-10s %s", stamp(f.From), certainty(f), f.State, f.Key)
	if len(f.Causes) > 0 {
		fmt.Fprintf(w, "  cause %s", joined(f.Causes))
	}
	if g := f.Gap; g != nil {
		fmt.Fprintf(w, "  %s of %s: %d to %d", g.Cause, g.Producer, g.From, g.To)
	}
	fmt.Fprintln(w)
	for i := range f.Members {
		m := &f.Members[i]
		fmt.Fprintf(w, "    %s to %s  %-8s %s at %s\n", stamp(m.GrantedAt), stamp(m.EndedAt), m.Tier, m.Holder, m.Producer)
	}
	for _, r := range f.Repairs {
		fmt.Fprintf(w, "    repair %s  %-8s", r.Key, r.Result)
		for _, part := range []struct{ name, text string }{
			{"wrong", amount(r.Wrong)}, {"waits for", r.Waits}, {"by", strings.Join(r.By, ", ")}, {"because", r.Error},
		} {
			if part.text != "" {
				fmt.Fprintf(w, "  %s %s", part.name, part.text)
			}
		}
		fmt.Fprintln(w)
	}
}

// amount is "" for nothing.
func amount(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// certainty is how sure a finding is, in a word; its kind where it is no overlap.
func certainty(f *reconcile.Finding) string {
	switch {
	case f.Kind != reconcile.KindOverlap:
		return string(f.Kind)
	case f.Certain:
		return "certain"
	}
	return "possible"
}

func joined[T ~string](words []T) string {
	var all []string
	for _, w := range words {
		all = append(all, string(w))
	}
	return strings.Join(all, ", ")
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
