package reconcile

import (
	"maps"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// fleet is what all producers say of their tiers: it decides when a chain is quiet enough
// to repair.
//
// A producer's heartbeats come once from every partition, and each partition is read from
// another place: one that was committed up to now has the last of them alone, one that a
// case holds back has an hour. Inside a partition they come in order, with none between two
// left out. So each partition has a stretch of its own and the longest one counts; what
// breaks a stretch breaks it in all of them, wherever it was read.
type fleet struct{ by map[string]*member }

// member is one producer.
type member struct {
	at     time.Time         // its last report, by its own clock
	heard  time.Time         // by the stream's
	epoch  uint64            // the latest
	closed bool              // it is sealed
	read   map[int]time.Time // partition → its last report there
	chains map[string]*calm
}

// calm is since when a producer has reported one chain as shared.
type calm struct {
	broken time.Time         // when it was anything else, last
	since  map[int]time.Time // partition → its first report of shared after that, and no other since
}

// hear takes note of one event.
func (fl *fleet) hear(ev *audit.Event, r *Record, now time.Time) {
	m := fl.by[ev.Producer]
	if m == nil {
		m = &member{read: map[int]time.Time{}, chains: map[string]*calm{}}
		fl.by[ev.Producer] = m
	}
	heard := now
	if !r.Time.IsZero() && r.Time.Before(now) {
		heard = r.Time
	}
	if heard.After(m.heard) {
		m.heard = heard
	}
	if m.turn(ev); ev.Epoch < m.epoch {
		return // of a process before
	}
	if ev.Type == audit.TypeAcquire {
		if ev.Tier != tierlock.Shared {
			m.breaks(ev.Chain, sane(ev.GrantedAt, now))
		}
		return
	}
	at := sane(ev.At, now)
	if !ev.Type.Marker() || !at.After(m.read[r.Partition]) {
		return // the partition is read again
	}
	m.read[r.Partition] = at
	latest := !at.Before(m.at)
	if latest {
		m.at = at
	}
	switch ev.Type {
	case audit.TypeHello: // what it reported before was another process
		for chain := range m.chains {
			m.breaks(chain, at)
		}
	case audit.TypeHeartbeat:
		m.report(ev, at, r.Partition, latest)
	}
}

// turn follows a producer from one epoch to the next, by their numbers and not by the time of
// a marker: a clock may have been set back before its process ended, or before the next one
// began. Nothing that was reported before is then known of the chains, but that it has them.
func (m *member) turn(ev *audit.Event) {
	if ev.Epoch > m.epoch {
		m.epoch, m.closed, m.at = ev.Epoch, false, time.Time{}
		clear(m.read)
		for _, c := range m.chains {
			c.broken = time.Time{}
			clear(c.since)
		}
	}
	if ev.Type == audit.TypeSeal && ev.Sealed == m.epoch {
		m.closed = true
	}
}

func (m *member) report(ev *audit.Event, at time.Time, partition int, latest bool) {
	if len(ev.Tiers) > 0 && latest { // a chain that it has no more is not waited for
		maps.DeleteFunc(m.chains, func(chain string, _ *calm) bool { _, has := ev.Tiers[chain]; return !has })
	}
	for chain, tier := range ev.Tiers {
		if tier != tierlock.Shared.String() {
			m.breaks(chain, at)
			continue
		}
		c := m.chain(chain)
		if _, known := c.since[partition]; !known && at.After(c.broken) {
			c.since[partition] = at
		}
	}
}

func (m *member) chain(name string) *calm {
	c := m.chains[name]
	if c == nil {
		c = &calm{since: map[int]time.Time{}}
		m.chains[name] = c
	}
	return c
}

// breaks ends every stretch that had begun by then. Where a partition has reported shared
// after it, its stretch begins with the last report: those between are not kept.
func (m *member) breaks(chain string, at time.Time) {
	c := m.chain(chain)
	if !at.After(c.broken) {
		return
	}
	c.broken = at
	for partition, since := range c.since {
		switch last := m.read[partition]; {
		case since.After(at):
		case last.After(at):
			c.since[partition] = last
		default:
			delete(c.since, partition)
		}
	}
}

// drop forgets the stretches of a partition that is not ours any more: what comes there is
// not heard, so they prove nothing of what is to come.
func (fl *fleet) drop(partition int) {
	for _, m := range fl.by {
		delete(m.read, partition)
		for _, c := range m.chains {
			delete(c.since, partition)
		}
	}
}

// quiet tells whether every live producer that has the chain has reported shared for at
// least d, by its own clock from heartbeat to heartbeat. Who was silent for idle is not
// waited for.
func (fl *fleet) quiet(chain string, d, idle time.Duration, now time.Time) bool {
	for _, m := range fl.by {
		c, has := m.chains[chain]
		if has && !m.closed && now.Sub(m.heard) < idle && !c.lasts(m, d) {
			return false
		}
	}
	return true
}

// lasts tells whether any stretch is as long as d.
func (c *calm) lasts(m *member, d time.Duration) bool {
	for partition, since := range c.since {
		if m.read[partition].Sub(since) >= d {
			return true
		}
	}
	return false
}
