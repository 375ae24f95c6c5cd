package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/switchctl"
)

// The verbs of tierlock switch.
const (
	verbGet     = "get"
	verbSet     = "set"
	verbExtend  = "extend"
	verbPolicy  = "policy"
	verbPromote = "promote"
	verbWatch   = "watch"
	verbHistory = "history"

	switchVerbs = "get, set, extend, policy, promote, watch or history"
)

const allWeak = "all-weak"

const switchUsage = `switch get|history|watch -c FILE
       tierlock switch set -c FILE [flags] --mode MODE CHAIN...
       tierlock switch extend -c FILE [flags] --for 30m CHAIN...
       tierlock switch policy -c FILE [flags] CHAIN FIELD=VALUE...
       tierlock switch promote -c FILE [flags]

get      what is ordered now and until when, and what the instances make of it
set      order a mode for chains; --mode auto ends their orders
extend   let orders end later: --for counts from now
policy   change policy values while the services run; FIELD= takes one back
promote  give every instance what a canary has
watch    tell every change until interrupted
history  what was published with this command, oldest first

set, extend, policy and promote show what would change, and publish when you confirm.

`

// switchFlags are those of tierlock switch.
type switchFlags struct {
	fs         *flag.FlagSet
	verb       string
	path       string
	mode       tierlock.Mode
	last       time.Duration
	reason, by string
	percent    uint
	breakGlass bool
	dryRun     bool
	weak       bool
	foreign    bool
	canary     string
	sign       string
	discard    bool
	ask        string
	confirm    string
	format     *string
}

func (p Process) switchFlags() *switchFlags {
	f := &switchFlags{fs: p.flags("switch", switchUsage)}
	f.fs.StringVar(&f.path, "c", "", "the configuration `file` of a service that follows the document, see docs/config.md")
	f.fs.Func("mode", "`mode`: auto, shared, optimistic, local, bypass or reject (set)", func(s string) error {
		if err := f.mode.UnmarshalText([]byte(s)); err != nil {
			return errors.New("want auto, shared, optimistic, local, bypass or reject")
		}
		return nil
	})
	f.fs.DurationVar(&f.last, "for", 0, "how long from now, at most 24h (set, extend)")
	f.fs.StringVar(&f.reason, "reason", "", "`why`; it is in every event of the order (set)")
	f.fs.StringVar(&f.by, "by", os.Getenv("USER"), "`who` publishes, as every order and the history tell; default $USER")
	f.fs.UintVar(&f.percent, "percent", 100, "of each chain's keys, 1 to 100 (set)")
	f.fs.BoolVar(&f.breakGlass, "break-glass", false, "put a strong chain below shared (set)")
	f.fs.BoolVar(&f.dryRun, "dry-run", false, "nobody obeys: instances count what would have happened (set)")
	f.fs.BoolVar(&f.weak, allWeak, false, "every weak chain of the configuration, by name (set)")
	f.fs.BoolVar(&f.foreign, "foreign", false, "allow chains that this configuration does not have (set)")
	f.fs.StringVar(&f.canary, "canary", "", "`who` gets it first: instances by name, or a share as 10%, with commas (set, extend, policy)")
	f.fs.StringVar(&f.sign, "sign", "", "PEM `file` of the Ed25519 private key to sign with")
	f.fs.BoolVar(&f.discard, "discard", false, "begin with an empty document where the published one cannot be read, or is not signed as it must be")
	f.fs.StringVar(&f.ask, "ask", "", "`addresses` of instances' admin pages, with commas; default listen.admin (get, and before a version is published)")
	f.fs.StringVar(&f.confirm, "confirm", "", "`word` that would be asked for: yes, or "+allWeak)
	f.format = output(f.fs)
	return f
}

// Switch looks at, changes or follows the switch document of a configuration.
func (p Process) Switch(ctx context.Context, args []string) int {
	f := p.switchFlags()
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		if len(args) > 0 && (args[0] == "-h" || args[0] == "-help" || args[0] == "--help") {
			f.fs.Usage()
			return ExitOK
		}
		fmt.Fprintln(p.Stderr, "tierlock switch: say "+switchVerbs)
		f.fs.Usage()
		return ExitUsage
	}
	f.verb = args[0]
	run := map[string]func(context.Context, *switchFlags, Config, switchctl.Place) error{
		verbGet: p.switchGet, verbSet: p.switchSet, verbExtend: p.switchExtend, verbPolicy: p.switchPolicy,
		verbPromote: p.switchPromote, verbWatch: p.switchWatch, verbHistory: p.switchHistory,
	}[f.verb]
	if run == nil {
		fmt.Fprintf(p.Stderr, "tierlock switch: no %q: say %s\n", f.verb, switchVerbs)
		return ExitUsage
	}
	words := 0
	if f.verb == verbSet || f.verb == verbExtend || f.verb == verbPolicy || f.verb == verbPromote {
		words = 1000
	}
	if code, ok := p.parse(f.fs, args[1:], words); !ok {
		return code
	}
	if err := f.checkWords(); err != nil {
		return p.fail(*f.format, err)
	}
	cfg, code, ok := p.load(f.fs, f.path, *f.format)
	if !ok {
		return code
	}
	place, end, err := cfg.switchPlace(f.verb)
	if err != nil {
		return p.fail(*f.format, err)
	}
	defer end()
	if err := run(ctx, f, cfg, place); errors.Is(err, errTold) {
		return ExitError
	} else if err != nil {
		return p.fail(*f.format, err)
	}
	return ExitOK
}
