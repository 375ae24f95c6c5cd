package gateway

import (
	"context"
	"log/slog"
	"sync"
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

// orders are the changes of a chain's order, in the order in which they came into force:
// documents are applied and orders run out on different goroutines.
type orders struct {
	mu   sync.Mutex        // held to change the order and to put the change in its place
	past past[orderChange] // the last ones; guarded by mu
	news teller[orderTold]
}

// orderTold is a change on its way to log and hook.
type orderTold struct {
	OrderInfo
	version uint64 // of the document; 0: the order's own time was over
}

// change puts next in force, nil for none, if was is in force; a nil was is whatever is. It
// is false where nothing changed. Whoever calls it has the news told afterwards.
func (c *Chain) change(was, next *order, now time.Time, version uint64) (changed bool) {
	c.orders.mu.Lock()
	defer c.orders.mu.Unlock()
	if was != nil && c.order.Load() != was {
		return false
	}
	was = c.order.Swap(next)
	if was == nil && next == nil {
		return false
	}
	t := orderTold{OrderInfo{Chain: c.name}, version}
	if next != nil {
		t.Order = next.Order
	}
	if was != nil {
		t.Was = was.Order
	}
	c.orders.past.add(orderChange{now, t.Order})
	c.orders.news.put(t)
	return true
}

// tellOrder tells one change to the log and the hook.
func (c *Chain) tellOrder(t orderTold) {
	if t.version == 0 {
		c.gw.log.Info("order ended", "chain", c.name, "mode", t.Was.Mode, "version", t.Was.Version)
	} else {
		c.gw.log.Info("order changed", "chain", c.name, "mode", modeWord(t.Order.Mode), "was", modeWord(t.Was.Mode),
			"until", t.Order.Until, "version", t.version, "reason", t.Order.Reason, "by", t.Order.By)
	}
	tell(c.gw, "ordered", c.gw.hooks.Ordered, t.OrderInfo)
}

// mindOrder ends the chain's order when its time is over, and warns before while the
// store is not well. Requests do not wait for it: the order covers none of them from its
// Until on.
func (c *Chain) mindOrder(now time.Time, healthy bool) {
	o := c.order.Load()
	switch {
	case o == nil:
	case !now.Before(o.Until):
		if c.change(o, nil, now, 0) {
			c.orders.news.tell(c.tellOrder)
		}
	case !healthy && !now.Before(o.warnAt) && o.warned.CompareAndSwap(false, true):
		c.gw.log.LogAttrs(context.Background(), slog.LevelWarn, "order is about to end while its cause lasts",
			slog.String("chain", c.name), slog.String("mode", o.Mode.String()), slog.Uint64("version", o.Version),
			slog.Duration("left", o.Until.Sub(now)))
	}
}
