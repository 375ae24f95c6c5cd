package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/switchctl"
	"github.com/tierlock/tierlock/switchcfg"
)

// ground is what the next version is built on.
type ground struct {
	text      []byte             // as it was fetched
	document  switchcfg.Document // without orders that have passed
	discarded bool               // text cannot be built on: document is empty
}

// unsure tells that what is published does not say which version was the last.
func (g ground) unsure() bool { return g.discarded || g.document.Version == 0 }

const sayDiscard = ": look at it, and say --discard to begin with an empty document"

// ground fetches what is published. What cannot be read, or is not signed by whom the services
// believe, is built on by nobody: it is refused, or left behind where the operator says so.
func (p Process) ground(ctx context.Context, f *switchFlags, place switchctl.Place, pen pen, now time.Time) (ground, error) {
	text, d, err := current(ctx, place, now)
	g := ground{text: text, document: d}
	var unreadable *unreadableError
	switch {
	case errors.As(err, &unreadable):
		if !f.discard {
			return g, tierlock.Invalid("published document", "", "cannot be read, "+oneLine(unreadable.err)+sayDiscard)
		}
		g.discarded = true
	case err != nil:
		return g, err
	}
	if err := pen.check(d); err != nil {
		if inv, ok := errors.AsType[*tierlock.InvalidError](err); ok && !f.discard {
			return g, tierlock.Invalid("published signature", inv.Value, inv.Rule+sayDiscard)
		}
		g.document, g.discarded = switchcfg.Document{Version: d.Version}, true
	}
	return g, nil
}

// newest is the highest version that was published with this command or that an instance has
// seen: what is not newer than that is refused by whoever has it. Where it matters, who could
// not be asked is told.
func (p Process) newest(ctx context.Context, f *switchFlags, cfg Config, place switchctl.Place, matters bool) (version uint64) {
	note := func(format string, args ...any) {
		if matters {
			fmt.Fprintf(p.Stderr, "note: "+format+": it may have seen a later version\n", args...)
		}
	}
	for _, i := range askInstances(ctx, f.instances(cfg)) {
		if version = max(version, i.Switch, i.Withheld); i.Error != "" {
			note("the instance at %s does not answer", i.Admin)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	past, err := place.History(ctx)
	if err != nil {
		note("the history cannot be read: %v", err)
	}
	for _, e := range past {
		version = max(version, e.Document.Version)
	}
	return version
}

// instances are the addresses to ask.
func (f *switchFlags) instances(cfg Config) string {
	return or(f.ask, or(cfg.Listen.Admin, defaultAdmin))
}
