package gateway

import (
	"sync"
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

// orderPast remembers the last changes of a chain's order.
type orderPast struct {
	mu   sync.Mutex
	past past[orderChange] // guarded by mu
}

type orderChange struct {
	at    time.Time
	order degrade.Order // zero: it ended
}

func (p *orderPast) add(at time.Time, now degrade.Order) {
	p.mu.Lock()
	p.past.add(orderChange{at, now})
	p.mu.Unlock()
}

// orders tells them as a key with that hash met them.
func (p *orderPast) orders(hash uint64) []ExplainedOrder {
	p.mu.Lock()
	all := p.past.all()
	p.mu.Unlock()
	orders := make([]ExplainedOrder, len(all))
	for i, c := range all {
		orders[i] = explainOrder(c.order)
		orders[i].At = c.at.UTC().Round(time.Microsecond)
		orders[i].Covers = c.order.Covers(c.at, hash)
	}
	return orders
}
