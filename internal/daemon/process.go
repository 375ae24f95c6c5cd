package daemon

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tierlock/tierlock/internal/flagrule"
)

// The exit codes of every command.
const (
	ExitOK    = 0
	ExitError = 1
	ExitUsage = 2 // the command line or the configuration is wrong; nothing was started
	// ExitOpen: a report was made, and conflicts are open or events may be missing. The codes
	// between are of commands that take a lock: held, timeout, degraded grant.
	ExitOpen = 6
)

// Usage is what a newcomer sees.
const Usage = `Tierlock keeps business locks working when the store behind them does not.

  tierlock demo               watch a store slow down, fill up, die and come back
                              (45 seconds, nothing else to install)
  tierlock serve -c FILE      the lock daemon: five methods over HTTP on 127.0.0.1:7070,
                              /healthz and /metrics on 127.0.0.1:7071
  tierlock reconcile -c FILE  find holds that overlapped and repair what went wrong
                              (a dry run until you say --apply)
  tierlock repairs VERB -c FILE
                              which repairs wait for people: ls, show, approve, reject
  tierlock report -c FILE --incident FROM..TO
                              what a degraded period let through, what became of it, and
                              whether the events are complete; show, assign, review, sign,
                              verify
  tierlock why -c FILE --biz TYPE:ID --at T
                              who held what around a point in time, on which tier, and why
  tierlock doctor -c FILE     look at all that a daemon would depend on, and say what to do
  tierlock health [HOST:PORT] ask a running daemon where its chains stand
  tierlock explain KEY        ask it which tier would serve a key now and why, who holds it
                              and who waits
  tierlock switch VERB -c FILE
                              look at, change or follow the operators' switch: get, set,
                              extend, policy, promote, watch, history
  tierlock simulate RECORDING what the chains' health would have done under another policy
  tierlock functions ls|load|rm
                              the lock's functions on every Redis master
  tierlock spool ls|dump|fsck|adopt DIR
                              look at, check, mend or forward the record of holds
  tierlock version            what this binary is
  tierlock help COMMAND       the flags of one command

Exit codes: 0 ok, 1 error, 2 usage or configuration; report also 6, something is open or
events may be missing.
`

// Process is what a command needs of the process it runs in.
type Process struct {
	Version string // "": the go command's own stamp
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
}

// flags returns a flag set that prints usage and its flags to Stderr.
func (p Process) flags(name, usage string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(p.Stderr)
	fs.Usage = func() {
		fmt.Fprintf(p.Stderr, "usage: tierlock %s\n", usage)
		fs.PrintDefaults()
	}
	return fs
}

// parse reads args, behind whose flags at most so many words may stand. ok is false when
// the command is over, with that exit code.
func (p Process) parse(fs *flag.FlagSet, args []string, words int) (code int, ok bool) {
	usage := fs.Usage
	fs.Usage = func() {} // for one wrong flag a line is read, and a page is not
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	fs.Usage = usage
	fs.SetOutput(p.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fs.Usage()
		return ExitOK, false
	case err != nil:
		fmt.Fprintf(p.Stderr, "tierlock %s: %s\n`tierlock help %[1]s` tells the flags\n", fs.Name(), flagrule.Told(fs, err))
		return ExitUsage, false
	case fs.NArg() > words:
		fmt.Fprintf(p.Stderr, "tierlock %s: unexpected %q\n", fs.Name(), fs.Arg(words))
		fs.Usage()
		return ExitUsage, false
	}
	return ExitOK, true
}

// instant reads a point in time as a flag's value.
func instant(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return t, errors.New("want an instant, as 2026-11-29T10:00:00.5Z")
	}
	return t, nil
}

// output adds --output, text or json.
func output(fs *flag.FlagSet) *string {
	format := "text"
	fs.Func("output", "`text` or json (default text)", func(s string) error {
		if s != "text" && s != "json" {
			return fmt.Errorf("want text or json")
		}
		format = s
		return nil
	})
	return &format
}

// Help prints the flags of one command, or the usage. The demo tells its own.
func (p Process) Help(args []string) int {
	q := p
	q.Stderr = p.Stdout
	if len(args) == 0 {
		fmt.Fprint(p.Stdout, Usage)
		return ExitOK
	}
	switch args[0] {
	case "serve":
		q.serveFlags().fs.Usage()
	case "reconcile":
		q.reconcileFlags().fs.Usage()
	case "repairs":
		q.repairsFlags().fs.Usage()
	case "report":
		q.reportFlags().fs.Usage()
	case "why":
		q.whyFlags().fs.Usage()
	case "doctor":
		q.doctorFlags().fs.Usage()
	case "health":
		fs, _ := q.healthFlags()
		fs.Usage()
	case "explain":
		q.explainFlags().fs.Usage()
	case "switch":
		q.switchFlags().fs.Usage()
	case "simulate":
		q.simulateFlags().fs.Usage()
	case "functions":
		q.functionsFlags().fs.Usage()
	case "spool":
		q.spoolFlags().fs.Usage()
	case "version":
		fs, _ := q.versionFlags()
		fs.Usage()
	default:
		return p.NoCommand(args[0])
	}
	return ExitOK
}

// NoCommand says that there is no command of that name, and which there are.
func (p Process) NoCommand(name string) int {
	fmt.Fprintf(p.Stderr, "tierlock: no command %q\n\n%s", name, Usage)
	return ExitUsage
}

func (p Process) versionFlags() (fs *flag.FlagSet, format *string) {
	fs = p.flags("version", "version [--output json]")
	return fs, output(fs)
}

// ShowVersion prints the version, and what it was built with.
func (p Process) ShowVersion(args []string) int {
	fs, format := p.versionFlags()
	if code, ok := p.parse(fs, args, 0); !ok {
		return code
	}
	v := struct {
		Version string `json:"version"`
		Go      string `json:"go"`
		System  string `json:"system"`
	}{p.version(), strings.TrimPrefix(runtime.Version(), "go"), runtime.GOOS + "/" + runtime.GOARCH}
	if *format == "json" {
		_ = encoder(p.Stdout).Encode(v)
	} else {
		fmt.Fprintf(p.Stdout, "tierlock %s (go %s, %s)\n", v.Version, v.Go, v.System)
	}
	return ExitOK
}

// version is the stamp of the build, else of the go command.
func (p Process) version() string {
	if p.Version != "" {
		return p.Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
