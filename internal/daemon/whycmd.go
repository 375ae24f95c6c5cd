package daemon

import (
	"context"
	"flag"
	"regexp"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/reconcile/incident"
)

type whyFlags struct {
	fs     *flag.FlagSet
	path   string
	biz    string
	key    string
	at     time.Time
	format *string
}

func (p Process) whyFlags() *whyFlags {
	f := &whyFlags{fs: p.flags("why", "why -c FILE --biz TYPE:ID|ID --at T [--key KEY] [--output json]\n\n"+
		"Tells from the events who held what around T, on which tier, and why.\n")}
	f.fs.StringVar(&f.path, "c", "", "the configuration `file` of tierlock reconcile, see docs/config.md")
	f.fs.StringVar(&f.biz, "biz", "", "`TYPE:ID` of a business record, or its ID alone")
	f.fs.StringVar(&f.key, "key", "", "a whole lock `key`, as biz:order:lock:10086; alone, or to look at no other key of the record")
	f.fs.Func("at", "the `instant`, as 2026-11-29T10:00:00.5Z", func(s string) (err error) {
		f.at, err = instant(s)
		return err
	})
	f.format = output(f.fs)
	return f
}

// Why tells who held what around a point in time, and why.
func (p Process) Why(ctx context.Context, args []string) int {
	f := p.whyFlags()
	if code, ok := p.parse(f.fs, args, 0); !ok {
		return code
	}
	cfg, code, ok := p.load(f.fs, f.path, *f.format)
	if !ok {
		return code
	}
	answer, err := p.askWhy(ctx, cfg, f)
	if err != nil {
		return p.fail(*f.format, err)
	}
	if *f.format == "json" {
		_ = encoder(p.Stdout).Encode(answer)
	} else {
		_ = answer.WriteText(p.Stdout)
	}
	return ExitOK
}

func (p Process) askWhy(ctx context.Context, cfg Config, f *whyFlags) (*incident.Answer, error) {
	log := cfg.Log.logger(p.Stderr)
	q := incident.Question{At: f.at, ID: f.biz, Longest: cfg.longest(), Rule: cfg.Reconcile.Rule, Logger: log}
	if kind, id, pair := strings.Cut(f.biz, ":"); pair {
		q.Type, q.ID = kind, id
	}
	if f.key != "" {
		key, err := wholeKey(f.key)
		if err != nil {
			return nil, err
		}
		q.Key = key
	}
	q.Open = func(partitions []int) (incident.Closed, error) {
		return cfg.openEvents(log, cfg.since(f.at), partitions)
	}
	if err := q.Validate(); err != nil {
		return nil, err
	}
	r := &Reconciler{base: base{cfg: cfg, log: log}}
	defer r.release() //nolint:errcheck // it was only read from
	err := r.openDatabase()
	if err == nil {
		q.Store, err = r.store(ctx)
	}
	if err != nil {
		return nil, err
	}
	return incident.Why(ctx, q)
}

// wholeKeys are the forms in which a lock's key stands in events, see audit.Digest for the
// second.
var wholeKeys = regexp.MustCompile(`^(.+:[a-z0-9_-]+:lock:.+|[a-z0-9_-]+:digest:[0-9a-f]{32})$`)

// wholeKey refuses what is no lock's key. Nobody ever held such a one, and an answer that
// says so, and that every event was seen, would be an alibi made of a typing error.
func wholeKey(text string) (tierlock.Key, error) {
	key, err := tierlock.ParseKey(text)
	if err != nil {
		return tierlock.Key{}, err
	}
	if !wholeKeys.MatchString(text) {
		return tierlock.Key{}, tierlock.Invalid("key", text, "want <prefix>:<chain>:lock:<id>, or <chain>:digest:<32 hex digits>")
	}
	return key, nil
}
