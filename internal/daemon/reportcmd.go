package daemon

import (
	"context"
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/reconcile/incident"
	"github.com/tierlock/tierlock/switchcfg"
)

const reportUsage = `report -c FILE --incident FROM..TO [flags]
       tierlock report show FILE [--output text|json|csv|html]
       tierlock report assign FILE --record TYPE:ID [--owner NAME] [--action TEXT] [--settled] --by NAME
       tierlock report review FILE --by NAME
       tierlock report sign FILE --by NAME --key FILE
       tierlock report verify FILE [--pub FILE]

report   what a period held, from the events, the findings and the business itself
show     a kept report, in any format
assign   note in a draft who answers for a record, what was done, and whether that settles it
review   freeze a draft, or add a reviewer
sign     end a reviewed report's life with a signature
verify   tell whether a frozen report is as it was frozen, and with --pub who signed it

report and show exit with 6 when conflicts or records are open, or events may be missing.

`

// reportFlags are those of tierlock report.
type reportFlags struct {
	fs       *flag.FlagSet
	path     string
	from, to time.Time
	by       string
	fourEyes bool
	owners   map[string]string
	expect   string
	most     int
	out      string
	record   string
	owner    string
	action   string
	settled  bool
	key, pub string
	format   string
}

func (p Process) reportFlags() *reportFlags {
	f := &reportFlags{fs: p.flags("report", reportUsage), owners: map[string]string{}, format: "text"}
	f.fs.StringVar(&f.path, "c", "", "the configuration `file` of tierlock reconcile, see docs/config.md")
	f.fs.Func("incident", "`FROM..TO`, as 2026-11-29T10:00:00Z..2026-11-29T10:30:00Z", func(s string) (err error) {
		f.from, f.to, err = incident.ParsePeriod(s)
		if wrong := tierlock.Invalids(err); len(wrong) > 0 {
			return errors.New(wrong[0].Rule) // the flag's name and value are told beside it
		}
		return err
	})
	f.fs.StringVar(&f.by, "by", os.Getenv("USER"), "`who` makes, assigns, reviews or signs; default $USER")
	f.fs.BoolVar(&f.fourEyes, "four-eyes", false, "somebody else than the author must review the report")
	f.fs.Func("owner", "`TYPE=NAME` who answers for the records of a business type, may be repeated; with assign: NAME", func(s string) error {
		kind, name, pair := strings.Cut(s, "=")
		if pair && kind != "" {
			f.owners[kind] = name
		}
		f.owner = s
		return nil
	})
	f.fs.StringVar(&f.expect, "expect", "", "`producers` of which something must be heard, with commas")
	f.fs.IntVar(&f.most, "max-records", 0, "business records that are listed and checked; default 100000")
	f.fs.StringVar(&f.out, "out", "", "keep the report as a draft in this new `file`")
	f.fs.StringVar(&f.record, "record", "", "`TYPE:ID` of a record (assign)")
	f.fs.StringVar(&f.action, "action", "", "`what` was done about it (assign)")
	f.fs.BoolVar(&f.settled, "settled", false, "nothing more is to be done about it (assign)")
	f.fs.StringVar(&f.key, "key", "", "PEM `file` of the Ed25519 private key to sign with (sign)")
	f.fs.StringVar(&f.pub, "pub", "", "PEM `file` of Ed25519 public keys (verify)")
	f.fs.Func("output", "`text`, json, csv or html (default text)", func(s string) error {
		if !slices.Contains([]string{"text", "json", "csv", "html"}, s) {
			return errors.New("want text, json, csv or html")
		}
		f.format = s
		return nil
	})
	return f
}

// signed refuses a step that nobody answers for: containers and timers have no $USER.
func (f *reportFlags) signed() error {
	if strings.TrimSpace(f.by) == "" {
		return tierlock.Invalid("--by", "", "want the name of who does this: $USER has none")
	}
	return nil
}

// errors of a command are told as text or JSON.
func (f *reportFlags) faults() string {
	if f.format == "json" {
		return "json"
	}
	return "text"
}

// Report makes a report of a period, or moves a kept one on.
func (p Process) Report(ctx context.Context, args []string) int {
	f := p.reportFlags()
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		if code, ok := p.parse(f.fs, args, 0); !ok {
			return code
		}
		return p.makeReport(ctx, f)
	}
	verb := map[string]func(*reportFlags, string) int{
		"show": p.reportShow, "assign": p.reportAssign, "review": p.reportReview, "sign": p.reportSign, "verify": p.reportVerify,
	}[args[0]]
	if verb == nil {
		return p.misused(f.fs, fmt.Sprintf("no %q: say show, assign, review, sign or verify", args[0]))
	}
	if len(args) < 2 || strings.HasPrefix(args[1], "-") {
		return p.misused(f.fs, "want "+args[0]+" FILE")
	}
	if code, ok := p.parse(f.fs, args[2:], 0); !ok {
		return code
	}
	return verb(f, args[1])
}

// makeReport reads the period and prints or keeps the report.
func (p Process) makeReport(ctx context.Context, f *reportFlags) int {
	if f.from.IsZero() {
		return p.misused(f.fs, "want --incident FROM..TO")
	}
	cfg, code, ok := p.load(f.fs, f.path, f.faults())
	if !ok {
		return code
	}
	if err := f.signed(); err != nil {
		return p.fail(f.faults(), err)
	}
	if _, err := os.Lstat(f.out); f.out != "" && err == nil { // before the work; whoever makes it meanwhile is told at the end
		return p.fail(f.faults(), errThere(f.out))
	}
	report, err := cfg.incident(ctx, f, p.Stderr)
	if err != nil {
		return p.fail(f.faults(), err)
	}
	d := incident.New(report)
	if f.out != "" {
		text, err := d.Encode()
		if err == nil {
			err = replaceFile(f.out, text, true)
		}
		if err != nil {
			return p.fail(f.faults(), err)
		}
	}
	return p.showReport(f, d)
}

// incident makes the report. Nothing is asked of anybody before all input is checked.
func (c *Config) incident(ctx context.Context, f *reportFlags, stderr io.Writer) (*incident.Report, error) {
	log := c.Log.logger(stderr)
	source, err := c.openEvents(log, c.since(f.from), nil)
	if err != nil {
		return nil, err
	}
	defer source.Close() //nolint:errcheck // it was only read from
	r, hooks, err := c.openFindings(log)
	defer r.release() //nolint:errcheck // it was only read from
	if err != nil {
		return nil, err
	}
	conf := incident.Config{
		From: f.from, To: f.to, Author: f.by, FourEyes: f.fourEyes, Source: source, Partitions: source.Partitions, Longest: c.longest(),
		Rule: c.Reconcile.Rule, Idle: c.Reconcile.Idle, Lateness: c.Reconcile.Lateness, Hooks: hooks,
		Owners: f.owners, Blind: c.blind(), MaxRecords: f.most, Logger: log,
	}
	if f.expect != "" {
		conf.Expect = strings.Split(f.expect, ",")
	}
	if err := conf.Validate(); err != nil {
		return nil, err
	}
	if conf.Store, err = r.store(ctx); err != nil {
		return nil, err
	}
	return incident.Make(ctx, conf)
}

// showReport prints a report and tells by its exit code what is left to do.
func (p Process) showReport(f *reportFlags, d *incident.Document) int {
	write := map[string]func(io.Writer) error{
		"text": d.WriteText, "csv": d.WriteCSV, "html": d.WriteHTML,
		"json": func(w io.Writer) error {
			text, err := d.Encode()
			if err == nil {
				_, err = w.Write(text)
			}
			return err
		},
	}[f.format]
	if err := write(p.Stdout); err != nil {
		return p.fail("text", err)
	}
	if !d.Report.Exit() {
		return ExitOpen
	}
	return ExitOK
}

// readReport reads a kept report; err is of its content.
func readReport(path string) (*incident.Document, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, tierlock.Invalid("report", path, "cannot be read: "+withoutPath(err))
	}
	return incident.Parse(text)
}

func (p Process) reportShow(f *reportFlags, path string) int {
	d, err := readReport(path)
	if err != nil {
		return p.fail(f.faults(), err)
	}
	return p.showReport(f, d)
}

// change does one step of a kept report's life.
func (p Process) change(f *reportFlags, path string, step func(*incident.Document) error) int {
	if err := f.signed(); err != nil {
		return p.fail(f.faults(), err)
	}
	d, err := changed(path, step)
	if err != nil {
		return p.fail(f.faults(), err)
	}
	fmt.Fprintf(p.Stdout, "%s is %s, %s\n", path, d.Stage, d.Report.Verdict())
	return ExitOK
}

// changed reads a report, changes it and writes it back while nobody else does: of two
// reviews at once both stay, and no note written into a draft thaws a report that was
// frozen meanwhile.
func changed(path string, step func(*incident.Document) error) (*incident.Document, error) {
	unlock, err := lockBeside(path)
	if err != nil {
		return nil, tierlock.Invalid("report", path, "cannot be read: "+withoutPath(err))
	}
	defer unlock()
	d, err := readReport(path)
	if err != nil {
		return nil, err
	}
	if err := step(d); err != nil {
		return nil, err
	}
	text, err := d.Encode()
	if err != nil {
		return nil, err
	}
	return d, replaceFile(path, text, false)
}

func (p Process) reportAssign(f *reportFlags, path string) int {
	kind, id, pair := strings.Cut(f.record, ":")
	if !pair {
		return p.misused(f.fs, "want --record TYPE:ID")
	}
	return p.change(f, path, func(d *incident.Document) error {
		return d.Assign(kind, id, incident.Hand{At: time.Now(), By: f.by, Owner: f.owner, Action: f.action, Settled: f.settled})
	})
}

func (p Process) reportReview(f *reportFlags, path string) int {
	return p.change(f, path, func(d *incident.Document) error { return d.Review(f.by, time.Now()) })
}

func (p Process) reportSign(f *reportFlags, path string) int {
	if f.key == "" {
		return p.misused(f.fs, "want --key FILE")
	}
	text, err := os.ReadFile(f.key)
	if err != nil {
		return p.fail(f.faults(), tierlock.Invalid("key", f.key, "cannot be read: "+withoutPath(err)))
	}
	key, err := switchcfg.PrivateKey(text)
	if err != nil {
		return p.fail(f.faults(), tierlock.Invalid("key", f.key, err.Error()))
	}
	return p.change(f, path, func(d *incident.Document) error { return d.Sign(f.by, time.Now(), key) })
}

// reportVerify exits with 1 for a report that was changed, is not frozen, or is not signed
// by any of the keys; with 2 where there is nothing to look at.
func (p Process) reportVerify(f *reportFlags, path string) int {
	var keys []ed25519.PublicKey
	if f.pub != "" {
		text, err := os.ReadFile(f.pub)
		if err == nil {
			keys, err = switchcfg.PublicKeys(text)
		}
		if err != nil {
			return p.fail(f.faults(), tierlock.Invalid("pub", f.pub, withoutPath(err)))
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return p.fail(f.faults(), tierlock.Invalid("report", path, "cannot be read: "+withoutPath(err)))
	}
	d, err := incident.Parse(text)
	switch {
	case err != nil:
	case d.Stage == incident.Draft:
		err = errors.New("a draft is not frozen: there is nothing to verify")
	case f.pub != "":
		err = d.Verify(keys...)
	}
	if err != nil {
		return p.fail(f.faults(), fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "tierlock: "))) // found to be wrong, not mistyped
	}
	fmt.Fprintf(p.Stdout, "%s is %s and as it was frozen\n", path, d.Stage)
	for _, s := range d.Reviews {
		fmt.Fprintf(p.Stdout, "reviewed by %s at %s, sha256 %s\n", s.By, stamp(s.At), s.SHA256)
	}
	if s := d.Signature; s != nil {
		fmt.Fprintf(p.Stdout, "signed by %s at %s, sha256 %s, key %s%s\n", s.By, stamp(s.At), s.SHA256, s.Key, signedBy(f.pub))
	}
	return ExitOK
}

func signedBy(pub string) string {
	if pub == "" {
		return ": not checked, say --pub FILE"
	}
	return ": the signature is good"
}
