package audit

import (
	"cmp"
	"maps"
	"slices"
)

// Chain tells a reader of the stream what is missing from it, by both proofs an event
// carries: prev, inside one partition, and seq, over all of them. It is plain data: it
// belongs to one goroutine and forgets nothing, in memory that grows with the disorder
// and not with the events. The zero Chain is ready.
type Chain struct {
	producers map[string]*account
}

// Range is seqs From to To, both included.
type Range struct{ From, To uint64 }

// Break is a place where one partition's events of a producer do not join.
type Break struct {
	Partition int
	After     uint64 // the last seq seen there; zero: none
	Prev      uint64 // what the next event names as the one before it, and is missing
	Seq       uint64 // of that event
}

// Account is what a Chain knows of one producer.
type Account struct {
	Producer string
	Seen     []Range // seqs, in order of epochs
	Missing  []Range // between the first and the last seen, neither seen nor declared
	Declared []Range // by gap events with a range
	Counted  uint64  // events without a seq that gap events tell of
	Breaks   []Break
	Unsealed []uint64 // epochs before the latest that nothing sealed
	Crashed  int      // gap events of epochs that their own process did not seal
	Lost     int      // times the producer's folder was lost: its seqs began again
}

// Complete tells whether nothing is missing, explained or not.
func (a *Account) Complete() bool {
	return len(a.Missing)+len(a.Declared)+len(a.Breaks)+len(a.Unsealed)+a.Crashed+a.Lost == 0 && a.Counted == 0
}

type account struct {
	seen     map[uint64]*ranges // by epoch
	sealed   map[uint64]bool    // by epoch
	declared ranges
	counted  uint64
	crashed  int
	last     map[int]place // by partition
	breaks   []Break
}

// place of an event in its producer's log. A folder that was lost begins its seqs again,
// in a higher epoch.
type place struct{ epoch, seq uint64 }

func (p place) before(q place) bool {
	return p.epoch < q.epoch || (p.epoch == q.epoch && p.seq < q.seq)
}

// Add takes the next event of a partition, in the order of its offsets. It tells whether
// the event is new: one that comes again, as the forwarder or a rebalance may cause, or a
// marker's copy in another partition, is not.
//
// A partition that is read from its middle begins with an event whose prev was not seen;
// call [Chain.Start] before it.
func (c *Chain) Add(partition int, ev *Event) (fresh bool) {
	a := c.account(ev.Producer)
	if last, here := a.last[partition], (place{ev.Epoch, ev.Seq}); last.before(here) {
		if ev.Prev != last.seq {
			a.breaks = append(a.breaks, Break{Partition: partition, After: last.seq, Prev: ev.Prev, Seq: ev.Seq})
		}
		a.last[partition] = here
	}
	seen := a.seen[ev.Epoch]
	if seen == nil {
		seen = new(ranges)
		a.seen[ev.Epoch] = seen
	}
	if !seen.add(Range{ev.Seq, ev.Seq}) {
		return false
	}
	switch ev.Type {
	case TypeSeal:
		a.sealed[ev.Sealed] = true
	case TypeGap:
		a.declare(ev)
	}
	return true
}

// Start says that the partition's events of the producer are read from behind seq on.
func (c *Chain) Start(producer string, partition int, seq uint64) {
	c.account(producer).last[partition] = place{seq: seq}
}

// Accounts returns what is known of each producer, by name.
func (c *Chain) Accounts() []Account {
	all := make([]Account, 0, len(c.producers))
	for _, name := range slices.Sorted(maps.Keys(c.producers)) {
		all = append(all, c.producers[name].sum(name))
	}
	return all
}

func (a *account) sum(name string) Account {
	acc := Account{
		Producer: name, Declared: slices.Clone(a.declared), Counted: a.counted,
		Breaks: slices.Clone(a.breaks), Crashed: a.crashed,
	}
	epochs := slices.Sorted(maps.Keys(a.seen))
	var known ranges
	end := func() {
		for i := 1; i < len(known); i++ {
			acc.Missing = append(acc.Missing, Range{known[i-1].To + 1, known[i].From - 1})
		}
	}
	for i, epoch := range epochs {
		seen := *a.seen[epoch]
		if n := len(known); n > 0 && seen[0].From <= known[n-1].To {
			end()
			acc.Lost++
			known = nil
		}
		for _, r := range seen {
			known.add(r)
		}
		for _, r := range a.declared {
			if len(known) > 0 && r.From > known[0].From && r.To < known[len(known)-1].To {
				known.add(r)
			}
		}
		acc.Seen = append(acc.Seen, seen...)
		if !a.sealed[epoch] && i < len(epochs)-1 {
			acc.Unsealed = append(acc.Unsealed, epoch)
		}
	}
	end()
	return acc
}

func (c *Chain) account(producer string) *account {
	a := c.producers[producer]
	if a == nil {
		a = &account{last: map[int]place{}, seen: map[uint64]*ranges{}, sealed: map[uint64]bool{}}
		if c.producers == nil {
			c.producers = map[string]*account{}
		}
		c.producers[producer] = a
	}
	return a
}

func (a *account) declare(ev *Event) {
	switch {
	case ev.Cause == CauseCrash:
		a.crashed++
	case ev.From > 0 && ev.To >= ev.From:
		a.declared.add(Range{ev.From, ev.To})
	default:
		a.counted += ev.Count
	}
}

// ranges are sorted, apart, and never touch.
type ranges []Range

// add tells whether any of r was new.
func (s *ranges) add(r Range) bool {
	list := *s
	if n := len(list); n > 0 && list[n-1].To+1 == r.From { // the common case: the next one
		list[n-1].To = r.To
		return true
	}
	// lo is the first range that r touches or lies before, hi the first behind it.
	lo, _ := slices.BinarySearchFunc(list, r.From, func(x Range, from uint64) int { return cmp.Compare(x.To+1, from) })
	hi := lo
	for hi < len(list) && list[hi].From <= r.To+1 {
		hi++
	}
	if hi == lo+1 && list[lo].From <= r.From && r.To <= list[lo].To {
		return false
	}
	if hi > lo {
		r.From, r.To = min(r.From, list[lo].From), max(r.To, list[hi-1].To)
	}
	*s = slices.Replace(list, lo, hi, r)
	return true
}
