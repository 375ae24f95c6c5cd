package daemon

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/spool"
)

const spoolUsage = `spool ls|dump|fsck|adopt DIR… [flags]

ls tells whose each spool is, what Kafka lacks of it, and whether it is in use. dump prints
its events as JSON, one a line. fsck reads every byte and tells what is damaged or
lost; with --repair it mends what can be mended and keeps the bytes as they were. adopt forwards what
dead producers left and seals it: give the daemon's file with -c. A DIR without a spool
stands for the folders in it. Nothing but fsck --repair and adopt changes a folder.

`

// spoolOptions are the flags of spool.
type spoolOptions struct {
	fs       *flag.FlagSet
	format   *string
	dirs     []string
	from, to uint64
	repair   bool
	file     string
	timeout  time.Duration
}

func (p Process) spoolFlags() *spoolOptions {
	o := &spoolOptions{fs: p.flags("spool", spoolUsage)}
	o.fs.Uint64Var(&o.from, "from", 0, "dump: first `seq`; default the oldest")
	o.fs.Uint64Var(&o.to, "to", 0, "dump: last `seq`; default the newest")
	o.fs.BoolVar(&o.repair, "repair", false, "fsck: mend what is damaged")
	o.fs.StringVar(&o.file, "c", "", "adopt: configuration `file` that has the Kafka")
	o.fs.DurationVar(&o.timeout, "timeout", time.Minute, "adopt: how `long` each folder may take")
	o.format = output(o.fs)
	return o
}

// Spool looks at, checks, mends or forwards the folders of spools.
func (p Process) Spool(ctx context.Context, args []string) int {
	o := p.spoolFlags()
	verbs := map[string]func(context.Context, *spoolOptions) int{
		"ls": p.spoolList, "dump": p.spoolDump, "fsck": p.spoolCheck, "adopt": p.spoolAdopt,
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		if code, ok := p.parse(o.fs, args, 0); !ok {
			return code
		}
		return p.misused(o.fs, "want ls, dump, fsck or adopt")
	}
	verb := verbs[args[0]]
	if verb == nil {
		return p.misused(o.fs, fmt.Sprintf("want ls, dump, fsck or adopt, got %q", args[0]))
	}
	args = args[1:]
	for len(args) > 0 { // flags may stand before, between and after the folders
		if code, ok := p.parse(o.fs, args, len(args)); !ok {
			return code
		}
		args = o.fs.Args()
		if len(args) > 0 {
			o.dirs, args = append(o.dirs, args[0]), args[1:]
		}
	}
	if err := o.check(); err != nil {
		return p.fail(*o.format, err)
	}
	return verb(ctx, o)
}

func (o *spoolOptions) check() error {
	if len(o.dirs) == 0 {
		return tierlock.Invalid("DIR", "", "want the folder of a spool, or one that holds such folders")
	}
	if o.to != 0 && o.to < o.from {
		return tierlock.Invalid("--to", fmt.Sprint(o.to), fmt.Sprintf("want --from (%d) or more", o.from))
	}
	if o.timeout <= 0 {
		return tierlock.Invalid("--timeout", o.timeout.String(), "want above 0s")
	}
	var all []string
	for _, dir := range o.dirs {
		found, err := spoolsIn(dir)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	o.dirs = all
	return nil
}

// spoolsIn is dir if it holds segments, else those of its folders that do.
func spoolsIn(dir string) ([]string, error) {
	if isSpool(dir) {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, tierlock.Invalid("DIR", dir, "cannot be read: "+err.Error())
	}
	var all []string
	for _, e := range entries {
		if sub := filepath.Join(dir, e.Name()); e.IsDir() && isSpool(sub) {
			all = append(all, sub)
		}
	}
	if len(all) == 0 {
		return nil, tierlock.Invalid("DIR", dir, "holds no spool, nor does any folder in it")
	}
	return all, nil
}

func isSpool(dir string) bool {
	found, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.seg"))
	return err == nil && len(found) > 0
}

// escapeGlob takes their meaning from the bytes that filepath.Match knows.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// shownSpool is a spool as ls and adopt show it.
type shownSpool struct {
	Dir      string       `json:"dir"`
	Producer string       `json:"producer"`
	Epoch    uint64       `json:"epoch"`
	First    uint64       `json:"first"`
	Last     uint64       `json:"last"`
	Sent     uint64       `json:"sent"`
	Backlog  uint64       `json:"backlog"`
	Bytes    int64        `json:"bytes"`
	InUse    bool         `json:"in_use"`
	Unsure   string       `json:"in_use_unknown,omitempty"` // why
	Sealed   bool         `json:"sealed"`
	Torn     int64        `json:"torn_bytes"`
	Missing  []spool.Span `json:"missing,omitempty"`
	Error    string       `json:"error,omitempty"`
}

func shownOf(dir string, f audit.Folder, err error) shownSpool {
	s := shownSpool{
		Dir: dir, Producer: f.Producer, Epoch: f.Epoch, First: f.First, Last: f.Last, Sent: f.Sent,
		Backlog: f.Backlog(), Bytes: f.Bytes, InUse: f.InUse, Sealed: f.Sealed, Torn: f.Torn,
		Unsure: text(f.Unsure), Missing: f.Missing,
	}
	switch {
	case err != nil:
		s.Error = err.Error()
	case f.Cursor != nil:
		s.Error = f.Cursor.Error() + ": everything is sent again"
	}
	if s.InUse { // what looks torn is being written
		s.Torn = 0
	}
	return s
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// state is what a person wants to know first.
func (s shownSpool) state() string {
	switch {
	case s.InUse:
		return "in use"
	case s.Unsure != "":
		return "unsure"
	case s.Sealed && s.Backlog == 0:
		return "done"
	case s.Sealed:
		return "closed"
	}
	return "orphan" // its process did not close it
}

func (p Process) spoolList(_ context.Context, o *spoolOptions) int {
	return p.showSpools(o, func(dir string) (audit.Folder, error) { return audit.Inspect(nil, dir) })
}

// showSpools prints each folder as get finds it; one with an error is an error.
func (p Process) showSpools(o *spoolOptions, get func(dir string) (audit.Folder, error)) int {
	code := ExitOK
	shown := []shownSpool{}
	for _, dir := range o.dirs {
		f, err := get(dir)
		if err != nil || len(f.Missing) > 0 {
			code = ExitError
		}
		shown = append(shown, shownOf(dir, f, err))
	}
	if *o.format == "json" {
		_ = encoder(p.Stdout).Encode(struct {
			Spools []shownSpool `json:"spools"`
		}{shown})
		return code
	}
	for _, s := range shown {
		if s.Epoch != 0 || s.Error == "" {
			fmt.Fprintf(p.Stdout, "%-6s  %s  producer %s  epoch %d  seq %d to %d  %d not sent  %d bytes\n", s.state(), s.Dir, or(s.Producer, "unknown"), s.Epoch, s.First, s.Last, s.Backlog, s.Bytes)
		}
		printMissing(p.Stdout, s.Missing, s.Unsure)
		if s.Error != "" {
			fmt.Fprintf(p.Stderr, "tierlock spool: %s: %s\n", s.Dir, s.Error)
		}
	}
	return code
}

// printMissing tells what a folder has not and what cannot be told of it.
func printMissing(w io.Writer, missing []spool.Span, unsure string) {
	for _, m := range missing {
		fmt.Fprintf(w, "  seq %d to %d lost: no segment has them, nor has Kafka\n", m.From, m.To)
	}
	if unsure != "" {
		fmt.Fprintf(w, "  whether a process has it open cannot be told: %s\n", unsure)
	}
}

func (p Process) spoolDump(ctx context.Context, o *spoolOptions) int {
	out := bufio.NewWriter(p.Stdout)
	for _, dir := range o.dirs {
		err := audit.Dump(ctx, nil, dir, o.from, o.to, func(line []byte) error {
			_, err := out.Write(append(line, '\n'))
			return err
		})
		if err != nil {
			_ = out.Flush()
			return p.fail("text", err) // standard output has the events
		}
	}
	if err := out.Flush(); err != nil {
		return p.fail("text", err)
	}
	return ExitOK
}

// spoolAdopt forwards each folder in turn.
func (p Process) spoolAdopt(ctx context.Context, o *spoolOptions) int {
	cfg, code, ok := p.load(o.fs, o.file, *o.format)
	if !ok {
		return code
	}
	log := cfg.Log.logger(p.Stderr)
	sink, err := cfg.openSink(log)
	if err != nil {
		return p.fail(*o.format, err)
	}
	if sink == nil {
		return p.fail(*o.format, tierlock.Invalid("audit.kafka", "", "is required: the events are forwarded there"))
	}
	defer func() { _ = sink.Close() }()
	return p.showSpools(o, func(dir string) (audit.Folder, error) {
		ctx, cancel := context.WithTimeout(ctx, o.timeout)
		defer cancel()
		return audit.Adopt(ctx, audit.Config{Dir: dir, Producer: cfg.producer(), Quota: cfg.Audit.Quota, Sink: sink, Logger: log})
	})
}
