package audit

import (
	"sync"
	"sync/atomic"
)

// notes are the events that nobody waits for, on their way to the writer: a bounded
// queue in stripes by key, so that callers of different keys do not meet on one lock and
// events of one key keep their order. Putting copies the event and allocates nothing once
// the stripes have grown.
type notes struct {
	stripes [noteStripes]stripe
	limit   int           // events per stripe
	wake    chan struct{} // a stripe was empty and is not any more
	lost    atomic.Uint64 // found no room
	closed  atomic.Bool   // every stripe is: what a take finds from now on is the last
}

const noteStripes = 8

type stripe struct {
	mu     sync.Mutex
	events []Event
	closed bool
	_      [64]byte // the next stripe's lock lives on another cache line
}

func newNotes(capacity int) *notes {
	return &notes{limit: max(capacity/noteStripes, 1), wake: make(chan struct{}, 1)}
}

// put tells whether there was room.
func (n *notes) put(ev *Event) bool {
	s := &n.stripes[ev.Key.Hash()%noteStripes]
	s.mu.Lock()
	if s.closed || len(s.events) >= n.limit {
		s.mu.Unlock()
		n.lost.Add(1)
		return false
	}
	s.events = append(s.events, *ev)
	first := len(s.events) == 1
	s.mu.Unlock()
	if first {
		n.poke()
	}
	return true
}

func (n *notes) poke() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// take gives the stripe's events away and lets it fill spare instead.
func (s *stripe) take(spare []Event) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.events
	s.events = spare[:0]
	return events
}

// close makes every later put find no room.
func (n *notes) close() {
	for i := range n.stripes {
		s := &n.stripes[i]
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
	}
	n.closed.Store(true)
}
