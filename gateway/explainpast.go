package gateway

import (
	"time"

	"github.com/tierlock/tierlock/degrade"
)

// past keeps the last few of what happened. Whoever owns it guards it.
type past[T any] struct {
	ring [8]T
	n    int // that were ever added
}

func (p *past[T]) add(v T) {
	p.ring[p.n%len(p.ring)] = v
	p.n++
}

// all returns what is kept, oldest first.
func (p *past[T]) all() []T {
	kept := min(p.n, len(p.ring))
	all := make([]T, 0, kept)
	for i := p.n - kept; i < p.n; i++ {
		all = append(all, p.ring[i%len(p.ring)])
	}
	return all
}

// orderChange is that another order came into force, or none.
type orderChange struct {
	at    time.Time
	order degrade.Order // zero: it ended
}

// explain tells the last changes as a key with that hash met them.
func (o *orders) explain(hash uint64) []ExplainedOrder {
	o.mu.Lock()
	all := o.past.all()
	o.mu.Unlock()
	orders := make([]ExplainedOrder, len(all))
	for i, c := range all {
		orders[i] = explainOrder(c.order)
		orders[i].At = c.at.UTC().Round(time.Microsecond)
		orders[i].Covers = c.order.Covers(c.at, hash)
	}
	return orders
}
