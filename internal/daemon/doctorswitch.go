package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/switchcfg"
)

// doctorSwitch reads the document as a daemon would.
func (c *Config) doctorSwitch(ctx context.Context, e *examiner) {
	place, end, err := c.switchPlace(verbGet)
	if err != nil {
		e.fail("reach", "see docs/config.md", "%v", err)
		return
	}
	defer end()
	text, err := place.Fetch(ctx)
	switch {
	case err != nil:
		e.fail("reach", "look whether it is there, and who may read it; a daemon goes on with its last good document", "%v", err)
		return
	case len(text) == 0:
		e.ok("document", "there is none: every chain is on auto")
		return
	}
	e.ok("reach", "%d bytes", len(text))
	d, err := switchcfg.Parse(text)
	if err != nil {
		e.fail("document", "publish a good one: tierlock switch set", "it cannot be read, and is not followed: %s", oneLine(err))
		return
	}
	c.judgeDocument(e, d)
}

func (c *Config) judgeDocument(e *examiner, d switchcfg.Document) {
	before := len(e.found)
	keys, err := c.Switch.keys()
	if err == nil && len(keys) > 0 {
		err = d.Verify(keys...)
	}
	if err != nil {
		e.fail("signature", "publish it with tierlock switch --sign, or mend switch.verify_file", "it is not followed: %v", err)
	}
	now := time.Now()
	if err := d.Check(now); err != nil {
		e.fail("document", "publish a good one: tierlock switch set", "it is not followed: %s", oneLine(err))
	}
	live, _ := d.Live(now)
	for _, name := range slices.Sorted(maps.Keys(live.Chains)) {
		order := live.Chains[name]
		switch _, ours := c.Chains[name]; {
		case !ours:
			e.warn("document", "tierlock switch set --mode auto "+name+", or mend the name", "it orders chain %s, which this configuration does not have", name)
		case order.Mode != tierlock.ModeAuto:
			e.warn("order", "tierlock switch set --mode auto "+name+" when it is not needed any more", "%s is ordered to %s until %s: %s",
				name, order.Mode, order.Until.UTC().Format(time.RFC3339), order.Reason)
		}
	}
	if len(e.found) == before {
		e.ok("document", "version %d, no order", d.Version)
	}
}

// oneLine is all of a joined error on one line.
func oneLine(err error) string {
	if joined := (interface{ Unwrap() []error })(nil); errors.As(err, &joined) {
		var all []string
		for _, one := range joined.Unwrap() {
			all = append(all, oneLine(one))
		}
		return strings.Join(all, "; ")
	}
	return strings.ReplaceAll(fmt.Sprint(err), "\n", "; ")
}
