package gateway

import (
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
)

// rehearsal is an order of a dry run: nobody obeys it, and it counts what would have
// happened.
type rehearsal struct {
	degrade.Order
	calls [tierlock.Bypass + 1][tierlock.SystemError + 1]atomic.Int64 // by the tier it would have led to, 0 refused, and the outcome that was
}

// Rehearsal is what a dry run has counted since it began.
type Rehearsal struct {
	Order degrade.Order // that nobody obeys
	Calls []RehearsedCalls
}

// RehearsedCalls are calls that the order covers.
type RehearsedCalls struct {
	Would tierlock.Tier    // where it would have led them; 0: refused
	Got   tierlock.Outcome // what they got without it
	Count int64
}

// rehearse counts a call that a dry run covers; err is the call's own. Entries into a lock in
// hand ask no ladder and are not counted.
func (c *Chain) rehearse(r *request, err *tierlock.Error) {
	d := c.dry.Load()
	if d == nil || r.entry != 0 {
		return
	}
	now := time.Now()
	if !d.Covers(now, r.hash) {
		return
	}
	got := tierlock.Success
	if err != nil {
		got = err.Outcome
	}
	would := degrade.Decide(&r.policy.Ladder, &d.Order, r.ladder.now.Load(), now, r.hash).Tier
	d.calls[would][got].Add(1)
}

// mindRehearsal ends the chain's dry run when its time is over, and tells what it has
// counted.
func (c *Chain) mindRehearsal(now time.Time) {
	d := c.dry.Load()
	if d == nil || now.Before(d.Until) || !c.dry.CompareAndSwap(d, nil) {
		return
	}
	args := []any{"chain", c.name, "mode", d.Mode, "version", d.Version}
	for _, n := range d.counted() {
		args = append(args, "would_"+tierWord(n.Would)+"_got_"+n.Got.String(), n.Count)
	}
	c.gw.log.Info("dry run ended", args...)
}

// rehearsed is what the chain's dry run has counted; nil without one.
func (c *Chain) rehearsed(now time.Time) *Rehearsal {
	d := c.dry.Load()
	if d == nil || !now.Before(d.Until) {
		return nil
	}
	return &Rehearsal{Order: d.Order, Calls: d.counted()}
}

func (d *rehearsal) counted() (all []RehearsedCalls) {
	for would := range d.calls {
		for got := range d.calls[would] {
			if n := d.calls[would][got].Load(); n > 0 {
				all = append(all, RehearsedCalls{tierlock.Tier(would), tierlock.Outcome(got), n})
			}
		}
	}
	return all
}

func tierWord(t tierlock.Tier) string {
	if t == 0 {
		return "refused"
	}
	return t.String()
}
