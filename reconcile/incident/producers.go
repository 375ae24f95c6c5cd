package incident

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tierlock/tierlock/audit"
)

// producer is one process as all partitions together tell of it.
type producer struct {
	epochs   map[uint64]*epoch
	first    time.Time
	last     time.Time
	events   uint64
	versions map[uint64]bool
	policies map[string]bool
}

// epoch is one life of its log.
type epoch struct {
	seen    seqs
	markers moments
	sealed  time.Time // when it was sealed; zero: it was not
}

// producer takes note of one event and tells whether it is the first copy of it.
func (l *ledger) producer(ev *audit.Event) (fresh bool) {
	p := l.producers[ev.Producer]
	if p == nil {
		p = &producer{epochs: map[uint64]*epoch{}, versions: map[uint64]bool{}, policies: map[string]bool{}}
		l.producers[ev.Producer] = p
	}
	e := p.epoch(ev.Epoch)
	if !e.seen.add(ev.Seq) {
		return false
	}
	p.events++
	p.first, p.last = earlier(p.first, ev.Time()), later(p.last, ev.Time())
	if ev.Type.Marker() {
		e.markers.add(ev.Seq, ev.At)
	}
	switch ev.Type {
	case audit.TypeSeal:
		p.epoch(ev.Sealed).sealed = ev.At
	case audit.TypeHeartbeat:
		if l.cfg.holds(ev.At) {
			p.versions[ev.Applied], p.policies[ev.PolicyHash] = true, true
		}
	}
	return true
}

func (p *producer) epoch(number uint64) *epoch {
	e := p.epochs[number]
	if e == nil {
		e = &epoch{seen: seqs{}}
		p.epochs[number] = e
	}
	return e
}

// current is the number of its last epoch.
func (p *producer) current() uint64 {
	return slices.Max(slices.Collect(maps.Keys(p.epochs)))
}

// around is when a range of an epoch's seqs was written. Where the epoch has no
// marker on one side, the neighbouring epochs tell.
func (p *producer) around(number, from, to uint64) (before, after time.Time) {
	if e := p.epochs[number]; e != nil {
		before, after = e.markers.around(from, to)
	}
	for _, n := range slices.Sorted(maps.Keys(p.epochs)) {
		list := p.epochs[n].markers
		switch {
		case len(list) == 0:
		case n < number && before.IsZero(): // in order: the last one below stays
			before = list[len(list)-1].at
		case n < number:
			before = later(before, list[len(list)-1].at)
		case n > number && after.IsZero():
			after = list[0].at
		}
	}
	return before, after
}

// last marker before at, and the one before that: what a gap that names no seq lost was
// lost after it.
func (p *producer) since(number uint64, at time.Time) time.Time {
	if e := p.epochs[number]; e != nil {
		return e.markers.since(at)
	}
	return time.Time{}
}

// place is a producer in one partition.
type place struct {
	partition int
	producer  string
}

// progress is up to when a producer has told everything in one partition.
type progress struct {
	epoch  uint64
	told   time.Time
	oldest time.Time // of what it had not sent, by its last heartbeat
	sealed bool
}

func (l *ledger) progress(ev *audit.Event, partition int) {
	id := place{partition, ev.Producer}
	p := l.told[id]
	if p == nil {
		p = &progress{}
		l.told[id] = p
	}
	if ev.Epoch > p.epoch {
		p.epoch, p.sealed = ev.Epoch, false
	}
	if !ev.Type.Marker() {
		return
	}
	p.told = later(p.told, ev.At)
	switch {
	case ev.Type == audit.TypeHeartbeat:
		p.oldest = ev.Oldest
	case ev.Type == audit.TypeSeal && ev.Sealed == p.epoch:
		p.sealed, p.oldest = true, time.Time{}
	}
}

// tails lists the producers that have not told everything up to the end of the period.
func (l *ledger) tails() []Tail {
	out := []Tail{}
	for name, p := range l.producers {
		if !p.first.Before(l.cfg.To) {
			continue // it began later
		}
		number := p.current()
		if sealed := p.epochs[number].sealed; !sealed.IsZero() && sealed.Before(l.cfg.From) {
			continue // it was over before
		}
		t := Tail{Producer: name, Epoch: number, Partitions: []int{}}
		for partition := range l.read {
			at := l.told[place{partition, name}]
			if at != nil && (at.sealed && at.epoch == number || !at.told.Before(l.cfg.To)) {
				continue
			}
			if at == nil {
				at = &progress{}
			}
			if len(t.Partitions) == 0 || at.told.Before(t.Told) {
				t.Told = at.told.UTC()
			}
			t.Oldest = earlier(t.Oldest, at.oldest).UTC()
			t.Partitions = append(t.Partitions, partition)
		}
		if len(t.Partitions) == 0 {
			continue
		}
		slices.Sort(t.Partitions)
		t.Note = "not sealed, and silent since: what it has not sent yet, or lost, is missing"
		if !t.Oldest.IsZero() {
			t.Note = "its spool was not drained when it was heard last: adopt the folder, or start it again"
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Tail) int { return cmp.Compare(a.Producer, b.Producer) })
	return out
}

// heard lists all producers.
func (l *ledger) heard() []Producer {
	out := []Producer{}
	for name, p := range l.producers {
		out = append(out, Producer{
			Producer: name, Epochs: slices.Sorted(maps.Keys(p.epochs)), First: p.first.UTC(), Last: p.last.UTC(), Events: p.events,
			Sealed: !p.epochs[p.current()].sealed.IsZero(), Versions: sorted(p.versions), Policies: sorted(p.policies),
		})
	}
	slices.SortFunc(out, func(a, b Producer) int { return cmp.Compare(a.Producer, b.Producer) })
	return out
}

// sorted lists a set; it is never nil, so that JSON has a list.
func sorted[T cmp.Ordered](set map[T]bool) []T {
	return append([]T{}, slices.Sorted(maps.Keys(set))...)
}
