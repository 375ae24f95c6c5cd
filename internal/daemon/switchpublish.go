package daemon

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/switchctl"
	"github.com/tierlock/tierlock/switchcfg"
)

// published is what set and extend print as JSON.
type published struct {
	Version   uint64             `json:"version"`
	Was       uint64             `json:"was"`
	Published bool               `json:"published"`
	Changes   []switchctl.Change `json:"changes"`
}

// publish shows what next would change, asks, publishes and keeps it in the history.
func (p Process) publish(ctx context.Context, f *switchFlags, cfg Config, place switchctl.Place, now time.Time, next func(switchcfg.Document) (switchcfg.Document, error)) error {
	if strings.TrimSpace(f.by) == "" {
		return tierlock.Invalid("by", f.by, "is required where $USER is not set: the history tells who published")
	}
	pen, err := f.pen(cfg)
	if err != nil {
		return err
	}
	g, err := p.ground(ctx, f, place, pen, now)
	if err != nil {
		return err
	}
	d := g.document
	newest := max(d.Version, p.newest(ctx, f, cfg, place, g.unsure()))
	is, err := next(d)
	if err != nil {
		return err
	}
	is.Version = newest + 1
	if is.Canary, err = readCanary(f.canary); err != nil {
		return err
	}
	if err := is.Check(now); err != nil {
		return err
	}
	out := published{Version: is.Version, Was: d.Version, Changes: switchctl.Changes(d, is)}
	if len(out.Changes) == 0 && !g.unsure() && newest == d.Version {
		out.Version = d.Version
		return p.told(f, out, "nothing would change: version %d stays\n", d.Version)
	}
	switch {
	case g.discarded:
		fmt.Fprintln(p.Stderr, "- all that is published\n+ a document that holds nothing but what follows")
	case len(out.Changes) == 0 && d.Version == 0: // without any document instances have an alarm
		fmt.Fprintln(p.Stderr, "+ a first document that orders nothing")
	case newest > d.Version:
		fmt.Fprintf(p.Stderr, "- version %d, which is older than %d\n+ what it says, as version %d\n", d.Version, newest, is.Version)
	}
	for _, c := range out.Changes {
		fmt.Fprintln(p.Stderr, strings.Join(c.Lines(now), "\n"))
	}
	if err := p.confirmed(f, is.Version); err != nil {
		return err
	}
	if is, err = pen.sign(is); err != nil {
		return err
	}
	text, err := json.MarshalIndent(is, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if err := asked(ctx, func(ctx context.Context) error { return place.Publish(ctx, g.text, text) }); err != nil {
		return err
	}
	out.Published = true
	// From here on instances may follow it: it is kept also when somebody else's stands in the
	// end, or when the one who published does not wait for that.
	entry := switchctl.Entry{At: now.UTC().Round(time.Millisecond), By: f.by, Document: is, Changes: out.Changes}
	if err := asked(context.WithoutCancel(ctx), func(ctx context.Context) error { return place.Keep(ctx, entry) }); err != nil {
		fmt.Fprintf(p.Stderr, "tierlock switch: published, but not kept in the history: %v\n", err)
	}
	err = asked(ctx, func(ctx context.Context) error { return place.Stands(ctx, g.text, text) })
	if errors.Is(err, switchctl.ErrUnlooked) {
		fmt.Fprintf(p.Stderr, "note: %v\n", err)
	} else if err != nil {
		return err
	}
	return p.told(f, out, "version %d is published; `tierlock switch get` tells what instances make of it\n", is.Version)
}

// asked puts one question to the place, and waits for switchTimeout at most.
func asked(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	return ask(ctx)
}

func (p Process) told(f *switchFlags, out published, format string, args ...any) error {
	if *f.format == "json" {
		return encoder(p.Stdout).Encode(out)
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

// pen signs what is published, where the services take signed documents only.
type pen struct {
	keys []ed25519.PublicKey // of the services; none: they do not look
	key  ed25519.PrivateKey  // nil: nothing is signed
}

// pen reads the keys. A key that the services do not know is found before anything is asked.
func (f *switchFlags) pen(cfg Config) (pen, error) {
	keys, err := cfg.Switch.keys()
	if err != nil {
		return pen{}, prefixed("switch.", err)
	}
	if f.sign == "" {
		if len(keys) > 0 {
			return pen{}, tierlock.Invalid("sign", "", "is required: the services of this configuration take signed documents only")
		}
		return pen{}, nil
	}
	text, err := os.ReadFile(f.sign)
	if err != nil {
		return pen{}, tierlock.Invalid("sign", f.sign, "cannot be read: "+withoutPath(err))
	}
	key, err := switchcfg.PrivateKey(text)
	if err != nil {
		return pen{}, tierlock.Invalid("sign", f.sign, err.Error())
	}
	known := func(k ed25519.PublicKey) bool { return k.Equal(key.Public()) }
	if len(keys) > 0 && !slices.ContainsFunc(keys, known) {
		return pen{}, tierlock.Invalid("sign", f.sign, "belongs to none of the keys in switch.verify_file: the services would refuse what it signs")
	}
	return pen{keys, key}, nil
}

// check says whether the services take d, so that it may be built on. No document yet is
// nothing to distrust.
func (n pen) check(d switchcfg.Document) error {
	if len(n.keys) == 0 || d.Version == 0 {
		return nil
	}
	return d.Verify(n.keys...)
}

func (n pen) sign(d switchcfg.Document) (switchcfg.Document, error) {
	if n.key == nil {
		return d, nil
	}
	return d.Sign(n.key)
}
