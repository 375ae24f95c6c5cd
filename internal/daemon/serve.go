package daemon

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"github.com/tierlock/tierlock"
)

// serveFlags are those of tierlock serve.
type serveFlags struct {
	fs     *flag.FlagSet
	path   string
	check  bool
	format *string
}

func (p Process) serveFlags() *serveFlags {
	f := &serveFlags{fs: p.flags("serve", "serve -c FILE [--check] [--output json]")}
	f.fs.StringVar(&f.path, "c", "", "the configuration `file`, see docs/config.md")
	f.fs.BoolVar(&f.check, "check", false, "only check the file, and exit")
	f.format = output(f.fs)
	return f
}

// Serve runs the daemon until ctx ends. Its log goes to Stderr, one line that says where
// it answers to Stdout.
func (p Process) Serve(ctx context.Context, args []string) int {
	f := p.serveFlags()
	if code, ok := p.parse(f.fs, args, 0); !ok {
		return code
	}
	cfg, code, ok := p.load(f.fs, f.path, *f.format)
	if !ok {
		return code
	}
	if f.check {
		p.tell(*f.format, f.path+": ok", struct {
			OK bool `json:"ok"`
		}{true})
		return ExitOK
	}
	log := cfg.Log.logger(p.Stderr)
	s, err := Open(cfg, p.version(), log)
	if err != nil {
		return p.fail(*f.format, err)
	}
	p.tell(*f.format, fmt.Sprintf("tierlock %s answers on http://%s, admin pages on http://%s", p.version(), s.DataAddr(), s.AdminAddr()), struct {
		Version string `json:"version"`
		Data    string `json:"data"`
		Admin   string `json:"admin"`
	}{p.version(), s.DataAddr(), s.AdminAddr()})
	if err := s.Run(ctx); err != nil {
		return p.fail(*f.format, err)
	}
	return ExitOK
}

// load reads the configuration and tells its faults; ok is false when the command is over.
func (p Process) load(fs *flag.FlagSet, path, format string) (cfg Config, code int, ok bool) {
	if path == "" {
		fmt.Fprintf(p.Stderr, "tierlock %s: want -c FILE\n", fs.Name())
		fs.Usage()
		return Config{}, ExitUsage, false
	}
	cfg, err := Load(path)
	if err != nil {
		return Config{}, p.fail(format, err), false
	}
	return cfg, ExitOK, true
}

// tell prints line, or v as JSON.
func (p Process) tell(format, line string, v any) {
	if format == "json" {
		_ = encoder(p.Stdout).Encode(v)
		return
	}
	fmt.Fprintln(p.Stdout, line)
}

// fail tells why a command ends: refused input one fault a line with ExitUsage, anything
// else with ExitError.
func (p Process) fail(format string, err error) int {
	type fault struct {
		Field string `json:"field"`
		Value string `json:"value,omitempty"`
		Rule  string `json:"rule"`
	}
	body := struct {
		Error  string  `json:"error"`
		Faults []fault `json:"faults,omitempty"`
	}{Error: strings.TrimPrefix(err.Error(), "tierlock: ")} // which stands before it in text
	code := ExitError
	for _, e := range tierlock.Invalids(err) {
		body.Error, code = "invalid", ExitUsage
		body.Faults = append(body.Faults, fault{e.Field, e.Value, e.Rule})
	}
	switch {
	case format == "json":
		_ = encoder(p.Stdout).Encode(body)
	case code == ExitError:
		fmt.Fprintf(p.Stderr, "tierlock: %s\n", body.Error)
	default:
		fmt.Fprintf(p.Stderr, "tierlock: %d %s in the input\n", len(body.Faults), plural(len(body.Faults), "fault"))
		for _, e := range body.Faults {
			fmt.Fprintf(p.Stderr, "  %s%s: %s\n", e.Field, quoted(e.Value), e.Rule)
		}
	}
	return code
}

func quoted(value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(" %q", value)
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
