package incident

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// orderKey is one order as events tell it; heartbeats know the version alone.
type orderKey struct {
	version       uint64
	chain, reason string
}

// orderCount is an [Order] while it is counted.
type orderCount struct {
	Order
	producers map[string]bool
}

// order counts a grant or an answer under an operator's order.
func (l *ledger) order(ev *audit.Event) {
	if ev.Switch.Version == 0 {
		return
	}
	o := l.count(orderKey{ev.Switch.Version, ev.Chain, ev.Switch.Reason}, ev.GrantedAt, ev.Producer)
	switch {
	case ev.Type == audit.TypeOptimistic:
		o.Optimistic++
	case ev.Tier == tierlock.Bypass:
		o.Bypass++
		fallthrough
	default:
		o.Grants++
	}
}

func (l *ledger) count(id orderKey, at time.Time, producer string) *orderCount {
	o := l.orders[id]
	if o == nil {
		o = &orderCount{Order: Order{Version: id.version, Chain: id.chain, Reason: id.reason, First: at, Last: at}, producers: map[string]bool{}}
		l.orders[id] = o
	}
	o.First, o.Last = earlier(o.First, at), later(o.Last, at)
	o.producers[producer] = true
	return o
}

// inForce lists the orders by version; what heartbeats tell of a version stands first.
func (l *ledger) inForce() []Order {
	out := []Order{}
	for _, o := range l.orders {
		o.Processes = len(o.producers)
		o.First, o.Last = o.First.UTC(), o.Last.UTC()
		out = append(out, o.Order)
	}
	slices.SortFunc(out, func(a, b Order) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Chain, b.Chain), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

// stretches are the times in which processes reported a tier below shared.
type stretches struct {
	cfg  *Config
	now  map[[2]string]*Stretch // by producer and chain
	done []Stretch
	lost int // beyond mostStretches
}

// mostStretches bounds how many are kept.
const mostStretches = 10_000

func newStretches(cfg *Config) stretches { return stretches{cfg: cfg, now: map[[2]string]*Stretch{}} }

// hear takes a heartbeat.
func (s *stretches) hear(ev *audit.Event) {
	for chain, tier := range ev.Tiers {
		id := [2]string{ev.Producer, chain}
		at := s.now[id]
		if at != nil {
			at.To = later(at.To, ev.At)
		}
		if at == nil || at.Tier != tier {
			s.keep(at)
			s.now[id] = &Stretch{Chain: chain, Producer: ev.Producer, Tier: tier, From: ev.At, To: ev.At}
		}
	}
}

// end ends what the producer has reported: after a hello or a seal it is another process.
func (s *stretches) end(producer string) {
	for id, at := range s.now {
		if id[0] == producer {
			s.keep(at)
			delete(s.now, id)
		}
	}
}

func (s *stretches) keep(x *Stretch) {
	if x == nil || x.Tier == tierlock.Shared.String() || !x.From.Before(s.cfg.To) || x.To.Before(s.cfg.From) {
		return
	}
	if len(s.done) >= mostStretches {
		s.lost++
		return
	}
	x.From, x.To = x.From.UTC(), x.To.UTC()
	s.done = append(s.done, *x)
}

func (s *stretches) list() []Stretch {
	for _, x := range s.now {
		s.keep(x)
	}
	clear(s.now)
	slices.SortFunc(s.done, func(a, b Stretch) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Chain, b.Chain), cmp.Compare(a.Producer, b.Producer))
	})
	return append([]Stretch{}, s.done...)
}

// step takes a change of health.
func (l *ledger) step(ev *audit.Event, s *audit.Step) {
	if !l.cfg.holds(s.At) {
		return
	}
	if len(l.health) >= mostStretches {
		l.unshown++
		return
	}
	l.health = append(l.health, Health{
		At: s.At.UTC(), Chain: s.Chain, Producer: ev.Producer, Target: s.Target, From: s.From, To: s.To, Reason: s.Reason, Observed: s.Observed,
	})
}

// changes lists the changes of health by time.
func (l *ledger) changes() []Health {
	slices.SortFunc(l.health, func(a, b Health) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Chain, b.Chain), cmp.Compare(a.Producer, b.Producer), cmp.Compare(a.Target, b.Target))
	})
	return append([]Health{}, l.health...)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
