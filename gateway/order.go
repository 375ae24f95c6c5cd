package gateway

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/switchcfg"
)

// warnBefore is how long before its end an order whose cause lasts is warned of, at most;
// a short order is warned of in its last tenth.
const warnBefore = time.Minute

// order is an operator's order in force, never changed once it is.
type order struct {
	degrade.Order
	warnAt time.Time
	warned atomic.Bool
}

// of is the order as package degrade reads it; nil for none.
func (o *order) of() *degrade.Order {
	if o == nil {
		return nil
	}
	return &o.Order
}

// newOrder puts d on this process's monotonic clock, whose wall clock read now.
func newOrder(d degrade.Order, until, now time.Time) *order {
	span := min(until.Sub(now), switchcfg.MaxAhead)
	d.Until = now.Add(span)
	return &order{Order: d, warnAt: d.Until.Add(-min(warnBefore, span/10))}
}

// mindOrder ends the chain's order when its time is over, and warns before while the
// store is not well. Requests do not wait for it: the order covers none of them from its
// Until on.
func (c *Chain) mindOrder(now time.Time, healthy bool) {
	o := c.order.Load()
	switch {
	case o == nil:
	case !now.Before(o.Until):
		if c.order.CompareAndSwap(o, nil) {
			c.past.add(now, degrade.Order{})
			c.gw.log.Info("order ended", "chain", c.name, "mode", o.Mode, "version", o.Version)
			tell(c.gw.hooks.Ordered, OrderInfo{Chain: c.name, Was: o.Order})
		}
	case !healthy && !now.Before(o.warnAt) && o.warned.CompareAndSwap(false, true):
		c.gw.log.LogAttrs(context.Background(), slog.LevelWarn, "order is about to end while its cause lasts",
			slog.String("chain", c.name), slog.String("mode", o.Mode.String()), slog.Uint64("version", o.Version),
			slog.Duration("left", o.Until.Sub(now)))
	}
}
