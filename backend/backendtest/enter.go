package backendtest

import (
	"sync"
	"time"

	"github.com/tierlock/tierlock"
)

// entering is what Traits.Entries promises.
var entering = []behaviour{
	{"enters a lock, and frees it when the last entry is given back", func(s *stage) {
		for _, order := range [][]uint64{{7, 1 << 52, 0}, {0, 7, 1 << 52}, {1 << 52, 0, 7}} {
			hold := s.hold(long)
			first := s.want(s.acquire(hold), tierlock.Granted)
			for i, entry := range []uint64{7, 1 << 52} {
				a := s.want(s.acquire(entryOf(hold, entry)), tierlock.Mine)
				if a.Depth != i+2 || a.Token != first.Token || a.Exclusive != first.Exclusive {
					s.Errorf("entry %d: %+v, first %+v", entry, a, first)
				}
				if later := a.Until.Sub(first.Until); later > time.Second {
					s.Errorf("entry %d moved the end by %v", entry, later)
				}
			}
			for i, entry := range order[:2] {
				if a := s.want(s.release(entryOf(hold, entry)), tierlock.Mine); a.Depth != 2-i {
					s.Errorf("%d left after release %d of %v, want %d", a.Depth, i, order, 2-i)
				}
				s.want(s.lookup(hold), tierlock.Mine)
			}
			s.want(s.release(entryOf(hold, order[2])), tierlock.Released)
			s.want(s.lookup(hold), tierlock.Gone)
		}
	}},
	{"enters and leaves once, however often it is asked", func(s *stage) {
		hold := s.hold(long)
		s.want(s.acquire(hold), tierlock.Granted)
		for range 3 {
			if a := s.want(s.acquire(entryOf(hold, 7)), tierlock.Mine); a.Depth != 2 {
				s.Errorf("depth %d, want 2", a.Depth)
			}
		}
		if a := s.want(s.acquire(hold), tierlock.Mine); a.Depth != 2 {
			s.Errorf("a repeat of the acquisition made depth %d", a.Depth)
		}
		for range 3 {
			if a := s.want(s.release(entryOf(hold, 7)), tierlock.Mine); a.Depth != 1 {
				s.Errorf("depth %d, want 1", a.Depth)
			}
		}
		if a := s.want(s.release(entryOf(hold, 8)), tierlock.Mine); a.Depth != 1 {
			s.Errorf("an entry that never was left depth %d", a.Depth)
		}
		s.want(s.release(hold), tierlock.Released)
		s.want(s.release(hold), tierlock.Gone)
		s.want(s.release(entryOf(hold, 7)), tierlock.Gone)
	}},
	{"counts many that enter at once, each once", func(s *stage) {
		hold := s.hold(long)
		s.want(s.acquire(hold), tierlock.Granted)
		var all sync.WaitGroup
		for i := range 2 * crowd {
			all.Go(func() { // each entry is asked for twice
				if answer, err := s.b.Acquire(s.ctx(), s.request(entryOf(hold, uint64(1+i/2)))); err != nil || answer.Status != tierlock.Mine {
					s.Errorf("entry %d: %v, %v", i, answer.Status, err)
				}
			})
		}
		all.Wait()
		for i := range crowd {
			if a := s.want(s.release(entryOf(hold, uint64(1+i))), tierlock.Mine); a.Depth != crowd-i {
				s.Fatalf("depth %d after %d releases, want %d", a.Depth, i+1, crowd-i)
			}
		}
		s.want(s.release(hold), tierlock.Released)
	}},
	{"enters nothing that its id does not hold", func(s *stage) {
		hold := s.hold(long)
		s.want(s.acquire(entryOf(hold, 7)), tierlock.Gone)
		s.want(s.lookup(hold), tierlock.Gone)
		s.fill(long)
		s.want(s.acquire(entryOf(hold, 7)), tierlock.Held)
	}},
	{"lets no entry outlive its lock", func(s *stage) {
		hold := s.hold(s.o.TTL)
		s.want(s.acquire(hold), tierlock.Granted)
		s.want(s.acquire(entryOf(hold, 7)), tierlock.Mine)
		s.until("the lock expires", func() bool { return s.lookup(hold).Status == tierlock.Gone })
		s.want(s.release(entryOf(hold, 7)), tierlock.Gone)
		for _, next := range []tierlock.Hold{s.hold(long), hold} { // another id, and the same once more
			next.TTL = long
			s.granted(next)
			if a := s.want(s.acquire(next), tierlock.Mine); a.Depth != 1 {
				s.Errorf("a new hold begins at depth %d", a.Depth)
			}
			s.want(s.release(next), tierlock.Released)
		}
	}},
	{"refuses an entry past its not-after", func(s *stage) {
		hold := s.hold(long)
		s.want(s.acquire(hold), tierlock.Granted)
		req := s.request(entryOf(hold, 7))
		req.NotAfter = time.Now().Add(-5 * time.Millisecond)
		s.want(s.ask(req), tierlock.Late)
		s.want(s.release(hold), tierlock.Released)
	}},
}

// entryOf names one entry into hold.
func entryOf(hold tierlock.Hold, entry uint64) tierlock.Hold {
	hold.Entry = entry
	return hold
}
