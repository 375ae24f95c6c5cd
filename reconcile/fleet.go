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
//
// Which process of a producer is the one that lives, its epochs tell, which rise. Only where
// its folder was lost does the next one begin with the time, which may have been set back, or
// be in the same second still. Then the place in a partition tells it: what stands behind
// the last marker there was written later.
type fleet struct{ by map[string]*member }

// member is one producer.
type member struct {
	at     time.Time // its last report, by its own clock
	heard  time.Time // by the stream's
	epoch  uint64    // of the process that lives
	top    uint64    // the highest of a process before it; zero: none was higher
	begun  map[begin]time.Time
	last   map[int]int64     // partition → offset of the last marker there
	sealed map[int]int64     // partition → offset of the epoch's last seal there
	alive  map[int]int64     // partition → offset of its last hello or heartbeat there
	read   map[int]time.Time // partition → its last report there
	said   map[int]time.Time // the same as it was told, however far ahead
	chains map[string]*calm
}

// begin is where a hello was heard.
type begin struct {
	partition int
	epoch     uint64
}

func newMember() *member {
	return &member{
		begun: map[begin]time.Time{}, last: map[int]int64{}, sealed: map[int]int64{}, alive: map[int]int64{}, read: map[int]time.Time{}, said: map[int]time.Time{}, chains: map[string]*calm{},
	}
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
		m = newMember()
		fl.by[ev.Producer] = m
	}
	heard := now
	if !r.Time.IsZero() && r.Time.Before(now) {
		heard = r.Time
	}
	if heard.After(m.heard) {
		m.heard = heard
	}
	fresh := m.fresh(ev, r)
	if m.turn(ev, r, fresh); ev.Epoch != m.epoch {
		return // of a process before
	}
	if ev.Type == audit.TypeAcquire {
		if ev.Tier != tierlock.Shared {
			m.breaks(ev.Chain, sane(ev.GrantedAt, now))
		}
		return
	}
	if !fresh {
		return // the partition is read again
	}
	at := sane(ev.At, now)
	if ev.At.Before(m.said[r.Partition]) {
		m.anew() // its clock was set back
	}
	if read := m.read[r.Partition]; at.Before(read) { // it is not believed any more how far it is ahead
		at = read
	}
	m.read[r.Partition], m.said[r.Partition] = at, ev.At
	latest := !at.Before(m.at)
	if latest {
		m.at = at
	}
	if lively(ev) {
		m.alive[r.Partition] = r.Offset
	}
	switch ev.Type {
	case audit.TypeSeal:
		if ev.Sealed == m.epoch {
			m.sealed[r.Partition] = r.Offset
		}
	case audit.TypeHello: // what it reported before was another process
		for chain := range m.chains {
			m.breaks(chain, at)
		}
	case audit.TypeHeartbeat:
		m.report(ev, at, r.Partition, latest)
	}
}

// fresh tells whether ev is a marker that stands behind all that were heard in its partition.
func (m *member) fresh(ev *audit.Event, r *Record) bool {
	last, known := m.last[r.Partition]
	if !ev.Type.Marker() || known && r.Offset <= last {
		return false
	}
	m.last[r.Partition] = r.Offset
	return true
}

// turn follows a producer from one epoch to the next, by their numbers and not by the time of
// a marker: a clock may have been set back before its process ended, or before the next one
// began. A lower epoch is the next one where its hello stands behind what the one so far has
// said, or that one has ended; epochs up to the highest so far count then where they say behind
// that, that they live. A hello that is sent a second time is none of these; where the first copy
// was not heard it does so too, but what is sent is sent in order, so that it leads back.
func (m *member) turn(ev *audit.Event, r *Record, fresh bool) {
	_, behind := m.alive[r.Partition]
	behind = behind && fresh
	hello := fresh && ev.Type == audit.TypeHello
	if hello {
		place := begin{r.Partition, ev.Epoch}
		hello = !m.begun[place].Equal(ev.At)
		m.begun[place] = ev.At
	}
	switch {
	case ev.Epoch > m.epoch && (ev.Epoch > m.top || behind && lively(ev)):
	case ev.Epoch < m.epoch && hello && (behind || m.ended()):
		m.top = max(m.top, m.epoch)
	default:
		return
	}
	m.epoch = ev.Epoch
	clear(m.sealed)
	clear(m.alive)
	m.anew()
}

// lively tells whether ev says that a process lives.
func lively(ev *audit.Event) bool {
	return ev.Type == audit.TypeHello || ev.Type == audit.TypeHeartbeat
}

// anew forgets what was reported of the chains, but that there are these.
func (m *member) anew() {
	m.at = time.Time{}
	clear(m.read)
	clear(m.said)
	for _, c := range m.chains {
		c.broken = time.Time{}
		clear(c.since)
	}
}

// ended tells whether the process that was heard last has sealed its epoch, and nobody says
// behind that, of the same epoch, that he lives.
func (m *member) ended() bool {
	for partition, seal := range m.sealed {
		if alive, is := m.alive[partition]; is && alive > seal {
			return false
		}
	}
	return len(m.sealed) > 0
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

// drop forgets what was heard in a partition that is not ours any more, or whose offsets
// begin anew: what comes there is not heard, so it proves nothing of what is to come. Who has
// ended is forgotten with the last partition that said so.
func (fl *fleet) drop(partition int) {
	for name, m := range fl.by {
		ended := m.ended()
		maps.DeleteFunc(m.begun, func(b begin, _ time.Time) bool { return b.partition == partition })
		delete(m.last, partition)
		delete(m.sealed, partition)
		delete(m.alive, partition)
		delete(m.read, partition)
		delete(m.said, partition)
		for _, c := range m.chains {
			delete(c.since, partition)
		}
		switch {
		case ended && len(m.sealed) == 0:
			delete(fl.by, name)
		case len(m.last) == 0: // whichever epoch comes first is the one to begin with
			m.epoch, m.top = 0, 0
		}
	}
}

// quiet tells whether every live producer that has the chain has reported shared for at
// least d, by its own clock from heartbeat to heartbeat. Who was silent for idle is not
// waited for.
func (fl *fleet) quiet(chain string, d, idle time.Duration, now time.Time) bool {
	for _, m := range fl.by {
		c, has := m.chains[chain]
		if has && !m.ended() && now.Sub(m.heard) < idle && !c.lasts(m, d) {
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
