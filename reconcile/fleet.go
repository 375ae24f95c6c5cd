package reconcile

import (
	"maps"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// fleet is what all producers say of their tiers: it decides when a chain is quiet enough
// to repair.
type fleet struct{ by map[string]*member }

// member is one producer.
type member struct {
	at     time.Time // its last heartbeat, by its own clock
	heard  time.Time // by the stream's
	closed bool
	shared map[string]time.Time // chain → since when it reports shared without a break; zero: it does not
}

// hear takes note of one event; a marker is heard once from every partition, and again when
// one is read again.
func (fl *fleet) hear(ev *audit.Event, r *Record, now time.Time) {
	m := fl.by[ev.Producer]
	if m == nil {
		m = &member{shared: map[string]time.Time{}}
		fl.by[ev.Producer] = m
	}
	heard := now
	if !r.Time.IsZero() && r.Time.Before(now) {
		heard = r.Time
	}
	if heard.After(m.heard) {
		m.heard = heard
	}
	if !ev.Time().After(m.at) {
		return
	}
	switch ev.Type {
	case audit.TypeHello: // what it reported before was another process
		m.at, m.closed = ev.At, false
		for chain := range m.shared {
			m.shared[chain] = time.Time{}
		}
	case audit.TypeSeal:
		m.at, m.closed = ev.At, ev.Sealed == ev.Epoch
	case audit.TypeHeartbeat:
		m.at, m.closed = ev.At, false
		m.report(ev)
	case audit.TypeAcquire:
		if ev.Tier != tierlock.Shared {
			m.shared[ev.Chain] = time.Time{}
		}
	}
}

func (m *member) report(ev *audit.Event) {
	if len(ev.Tiers) > 0 { // a chain that it has no more is not waited for
		maps.DeleteFunc(m.shared, func(chain string, _ time.Time) bool { _, has := ev.Tiers[chain]; return !has })
	}
	for chain, tier := range ev.Tiers {
		switch since, known := m.shared[chain]; {
		case tier != tierlock.Shared.String():
			m.shared[chain] = time.Time{}
		case !known || since.IsZero():
			m.shared[chain] = ev.At
		}
	}
}

// quiet tells whether every live producer that has the chain has reported shared for at
// least d, by its own clock from heartbeat to heartbeat. Who was silent for idle is not
// waited for.
func (fl *fleet) quiet(chain string, d, idle time.Duration, now time.Time) bool {
	for _, m := range fl.by {
		since, has := m.shared[chain]
		if !has || m.closed || now.Sub(m.heard) >= idle {
			continue
		}
		if since.IsZero() || m.at.Sub(since) < d {
			return false
		}
	}
	return true
}
