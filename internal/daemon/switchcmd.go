package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/internal/switchctl"
	"github.com/tierlock/tierlock/switchcfg"
	"github.com/tierlock/tierlock/switchcfg/nacossource"
)

const (
	// switchTimeout bounds each question to the place of the document; Nacos takes up to
	// 5 s for its first.
	switchTimeout = 10 * time.Second
	allWeak       = "all-weak"
)

const switchUsage = `switch get|history|watch -c FILE
       tierlock switch set -c FILE [flags] --mode MODE CHAIN...
       tierlock switch extend -c FILE [flags] --for 30m CHAIN...

get      what is ordered now, and until when
set      order a mode for chains; --mode auto ends their orders
extend   let orders end later: --for counts from now
watch    tell every change until interrupted
history  what was published with this command, oldest first

set and extend show what would change, and publish when you confirm.

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
	weak       bool
	foreign    bool
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
	f.fs.StringVar(&f.by, "by", os.Getenv("USER"), "`who` orders it; default $USER")
	f.fs.UintVar(&f.percent, "percent", 100, "of each chain's keys, 1 to 100 (set)")
	f.fs.BoolVar(&f.breakGlass, "break-glass", false, "put a strong chain below shared (set)")
	f.fs.BoolVar(&f.weak, allWeak, false, "every weak chain of the configuration, by name (set)")
	f.fs.BoolVar(&f.foreign, "foreign", false, "allow chains that this configuration does not have (set)")
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
		fmt.Fprintln(p.Stderr, "tierlock switch: say get, set, extend, watch or history")
		f.fs.Usage()
		return ExitUsage
	}
	f.verb = args[0]
	run := map[string]func(context.Context, *switchFlags, Config, switchctl.Place) error{
		"get": p.switchGet, "set": p.switchSet, "extend": p.switchExtend, "watch": p.switchWatch, "history": p.switchHistory,
	}[f.verb]
	if run == nil {
		fmt.Fprintf(p.Stderr, "tierlock switch: no %q: say get, set, extend, watch or history\n", f.verb)
		return ExitUsage
	}
	words := 0
	if f.verb == "set" || f.verb == "extend" {
		words = 1000
	}
	if code, ok := p.parse(f.fs, args[1:], words); !ok {
		return code
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
	if err := run(ctx, f, cfg, place); err != nil {
		return p.fail(*f.format, err)
	}
	return ExitOK
}

// switchPlace is where the document of c can be read, and changed unless it is over HTTP.
func (c Config) switchPlace(verb string) (place switchctl.Place, end func(), err error) {
	switch s := c.Switch; {
	case s.File != "":
		return switchctl.File(s.File), func() {}, nil
	case s.Nacos != nil:
		return s.Nacos.place()
	case s.HTTP != nil:
		if verb == "get" || verb == "watch" {
			source, err := s.HTTP.open()
			if err != nil {
				return nil, nil, prefixed("switch.http.", err)
			}
			return readOnly{source}, source.Close, nil
		}
		return nil, nil, tierlock.Invalid("switch.http.url", s.HTTP.URL, "is read only: publish the document where that server has it from")
	}
	return nil, nil, tierlock.Invalid("switch", "", "is not configured: this service follows no document")
}

// readOnly is a place that only get and watch are asked of.
type readOnly struct{ switchcfg.Source }

var errReadOnly = errors.New("read only")

func (readOnly) Publish(context.Context, []byte, []byte) error      { return errReadOnly }
func (readOnly) History(context.Context) ([]switchctl.Entry, error) { return nil, errReadOnly }
func (readOnly) Keep(context.Context, switchctl.Entry) error        { return errReadOnly }

// place opens the document and its history.
func (n *NacosConfig) place() (switchctl.Place, func(), error) {
	conf, err := n.conf(nil)
	if err != nil {
		return nil, nil, prefixed("switch.nacos.", err)
	}
	document, err := nacossource.New(conf)
	if err != nil {
		return nil, nil, prefixed("switch.nacos.", err)
	}
	if conf.DataID == "" {
		conf.DataID = nacossource.DefaultDataID
	}
	conf.DataID += ".history"
	past, err := nacossource.New(conf)
	if err != nil {
		return nil, nil, prefixed("switch.nacos.", err)
	}
	return switchctl.Nacos{Document: document, Past: past}, func() {
		ctx, cancel := context.WithTimeout(context.Background(), switchTimeout)
		defer cancel()
		_ = document.Close(ctx)
		_ = past.Close(ctx)
	}, nil
}

// current fetches the document.
func current(ctx context.Context, place switchctl.Place, now time.Time) (text []byte, d switchcfg.Document, err error) {
	ctx, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	if text, err = place.Fetch(ctx); err != nil {
		return nil, d, err
	}
	d, err = switchctl.Current(text, now)
	return text, d, err
}

func (p Process) switchGet(ctx context.Context, f *switchFlags, _ Config, place switchctl.Place) error {
	now := time.Now()
	_, d, err := current(ctx, place, now)
	if err != nil {
		return err
	}
	if *f.format == "json" {
		return json.NewEncoder(p.Stdout).Encode(d)
	}
	fmt.Fprintf(p.Stdout, "version %d\n", d.Version)
	p.showOrders(d, now)
	return nil
}

// showOrders tells every order of d in a line.
func (p Process) showOrders(d switchcfg.Document, now time.Time) {
	all := switchctl.Changes(switchcfg.Document{}, d)
	for _, c := range all {
		fmt.Fprintf(p.Stdout, "  %s: %s\n", c.Chain, switchctl.Describe(*c.Is, now))
	}
	if len(all) == 0 {
		fmt.Fprintln(p.Stdout, "  nothing is ordered: every chain is on auto")
	}
}

func (p Process) switchSet(ctx context.Context, f *switchFlags, cfg Config, place switchctl.Place) error {
	now := time.Now()
	o, err := f.order(cfg, now)
	if err != nil {
		return err
	}
	return p.publish(ctx, f, place, now, func(d switchcfg.Document) (switchcfg.Document, error) { return switchctl.Next(d, o, now) })
}

func (p Process) switchExtend(ctx context.Context, f *switchFlags, _ Config, place switchctl.Place) error {
	if f.fs.NArg() == 0 {
		return tierlock.Invalid("chain", "", "say which orders to extend")
	}
	if f.last <= 0 {
		return tierlock.Invalid("for", f.last.String(), "want how long from now, such as 30m")
	}
	now := time.Now()
	return p.publish(ctx, f, place, now, func(d switchcfg.Document) (switchcfg.Document, error) {
		return switchctl.Extend(d, f.fs.Args(), now.Add(f.last).Truncate(time.Second), now)
	})
}

// order makes an order of the flags and holds it against the configuration. What the
// document's own rules say of it is told by [switchctl.Next].
func (f *switchFlags) order(cfg Config, now time.Time) (switchctl.Order, error) {
	o := switchctl.Order{Chains: f.fs.Args(), Directive: switchcfg.Directive{Mode: f.mode, Reason: f.reason, By: f.by, BreakGlass: f.breakGlass}}
	if f.weak {
		for _, name := range slices.Sorted(maps.Keys(cfg.Chains)) {
			if cfg.Chains[name].Ladder.Class == degrade.ClassWeak {
				o.Chains = append(o.Chains, name)
			}
		}
	}
	var faults []error
	bad := func(field, value, rule string) { faults = append(faults, tierlock.Invalid(field, value, rule)) }
	switch {
	case f.mode == 0:
		bad("mode", "", "is required: auto, shared, optimistic, local, bypass or reject")
	case f.mode != tierlock.ModeAuto && f.last <= 0:
		bad("for", f.last.String(), "want how long from now, such as 10m: every order ends by itself")
	}
	if f.last > 0 {
		o.Directive.Until = now.Add(f.last).Truncate(time.Second)
	}
	switch {
	case f.percent == 0 || f.percent > 100:
		bad("percent", fmt.Sprint(f.percent), "want 1 to 100")
	case f.percent < 100:
		share := uint8(f.percent)
		o.Directive.Percent = &share
	}
	if len(o.Chains) == 0 {
		bad("chain", "", "say which, or --"+allWeak)
	}
	for _, name := range o.Chains {
		policy, ours := cfg.Chains[name]
		switch {
		case !ours && !f.foreign:
			bad("chain", name, "is not in this configuration, which has "+strings.Join(slices.Sorted(maps.Keys(cfg.Chains)), ", ")+": say --foreign for a chain of another service")
		case ours && !f.breakGlass && policy.Ladder.NeedsBreakGlass(f.mode):
			bad("mode", f.mode.String(), "puts the strong chain "+name+" below shared: its service refuses the document without --break-glass")
		}
	}
	return o, errors.Join(faults...)
}

// published is what set and extend print as JSON.
type published struct {
	Version   uint64             `json:"version"`
	Was       uint64             `json:"was"`
	Published bool               `json:"published"`
	Changes   []switchctl.Change `json:"changes"`
}

// publish shows what next would change, asks, publishes and keeps it in the history.
func (p Process) publish(ctx context.Context, f *switchFlags, place switchctl.Place, now time.Time, next func(switchcfg.Document) (switchcfg.Document, error)) error {
	was, d, err := current(ctx, place, now)
	if err != nil {
		return err
	}
	is, err := next(d)
	if err != nil {
		return err
	}
	out := published{Version: is.Version, Was: d.Version, Changes: switchctl.Changes(d, is)}
	if len(out.Changes) == 0 {
		out.Version = d.Version
		return p.told(f, out, "nothing would change: version %d stays\n", d.Version)
	}
	for _, c := range out.Changes {
		fmt.Fprintln(p.Stderr, strings.Join(c.Lines(now), "\n"))
	}
	if err := p.confirmed(f, is.Version); err != nil {
		return err
	}
	text, err := json.MarshalIndent(is, "", "  ")
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	if err := place.Publish(within, was, append(text, '\n')); err != nil {
		return err
	}
	out.Published = true
	if err := place.Keep(within, switchctl.Entry{At: now.UTC().Round(time.Millisecond), By: f.by, Document: is, Changes: out.Changes}); err != nil {
		fmt.Fprintf(p.Stderr, "tierlock switch: published, but not kept in the history: %v\n", err)
	}
	return p.told(f, out, "version %d is published; `tierlock health` tells what an instance applies\n", is.Version)
}

func (p Process) told(f *switchFlags, out published, format string, args ...any) error {
	if *f.format == "json" {
		return json.NewEncoder(p.Stdout).Encode(out)
	}
	fmt.Fprintf(p.Stdout, format, args...)
	return nil
}

// confirmed asks for one word, or takes the one on the command line. An order on every weak
// chain at once has a word of its own, which no habit types.
func (p Process) confirmed(f *switchFlags, version uint64) error {
	want := "yes"
	if f.weak {
		want = allWeak
	}
	got := f.confirm
	if got == "" {
		fmt.Fprintf(p.Stderr, "Publish this as version %d? Type %s: ", version, want)
		if p.Stdin != nil {
			line, _ := bufio.NewReader(p.Stdin).ReadString('\n')
			got = strings.TrimSpace(line)
		}
	}
	if got != want {
		return fmt.Errorf("not published: want the word %q, got %q", want, got)
	}
	return nil
}

func (p Process) switchHistory(ctx context.Context, f *switchFlags, _ Config, place switchctl.Place) error {
	ctx, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	all, err := place.History(ctx)
	if err != nil {
		return err
	}
	if *f.format == "json" {
		if all == nil {
			all = []switchctl.Entry{}
		}
		return json.NewEncoder(p.Stdout).Encode(all)
	}
	for _, e := range all {
		fmt.Fprintf(p.Stdout, "version %d, %s, by %s\n", e.Document.Version, e.At.Format(time.RFC3339), e.By)
		for _, c := range e.Changes {
			fmt.Fprintln(p.Stdout, "  "+strings.Join(c.Lines(e.At), "\n  "))
		}
	}
	if len(all) == 0 {
		fmt.Fprintln(p.Stdout, "nothing was published with this command yet")
	}
	return nil
}

// switchWatch follows the document as a service does, and tells every version, and every
// alarm when it begins and ends.
func (p Process) switchWatch(ctx context.Context, f *switchFlags, cfg Config, place switchctl.Place) error {
	lines := json.NewEncoder(p.Stdout)
	was := switchcfg.Document{}
	follow := switchcfg.FollowConfig{Poll: cfg.Switch.Poll, Report: func(r switchcfg.Report) {
		if r.Edge && r.Fault != nil {
			fmt.Fprintf(p.Stderr, "not followed: %s: %v\n", r.Fault.Why, r.Fault.Err)
		}
	}}
	err := switchcfg.Follow(ctx, place, follow, func(d switchcfg.Document) error {
		now := time.Now()
		if *f.format == "json" {
			_ = lines.Encode(switchctl.Entry{At: now.UTC().Round(time.Millisecond), Document: d, Changes: switchctl.Changes(was, d)})
		} else {
			fmt.Fprintf(p.Stdout, "%s version %d\n", now.Format(time.TimeOnly), d.Version)
			p.showOrders(d, now)
		}
		was = d
		return nil
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // interrupted, which is how a watch ends
	}
	return err
}
