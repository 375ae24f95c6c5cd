package audit

import (
	"sync"
	"sync/atomic"
)

// notes are the events that nobody waits for, on their way to the writer: a bounded
// queue in stripes by key, so that callers of different keys do not meet on one lock and
// events of one key keep their order. They lie in pieces of a fixed size that serve again
// and again, so that putting allocates nothing where the writer keeps up, and a queue that
// grows copies nothing.
type notes struct {
	stripes [noteStripes]stripe
	limit   int           // events per stripe
	wake    chan struct{} // a stripe was empty and is not any more
	lost    atomic.Uint64 // found no room
	closed  atomic.Bool   // every stripe is: what a take finds from now on is the last
}

const (
	noteStripes = 8
	pieceNotes  = 16
)

type stripe struct {
	mu          sync.Mutex
	first, last *piece // nil: it is empty
	events      int
	closed      bool
	_           [64]byte // the next stripe's lock lives on another cache line
}

// piece is some notes of one stripe, in order.
type piece struct {
	notes [pieceNotes]note
	n     int
	next  *piece
}

var pieces = sync.Pool{New: func() any { return new(piece) }}

func newNotes(capacity int) *notes {
	return &notes{limit: max(capacity/noteStripes, 1), wake: make(chan struct{}, 1)}
}

// put tells whether there was room.
func (n *notes) put(ev *Event) bool {
	s := &n.stripes[ev.Key.Hash()%noteStripes]
	s.mu.Lock()
	if s.closed || s.events >= n.limit {
		s.mu.Unlock()
		n.lost.Add(1)
		return false
	}
	s.room().of(ev)
	s.events++
	first := s.events == 1
	s.mu.Unlock()
	if first {
		n.poke()
	}
	return true
}

// room is where the stripe's next note goes.
func (s *stripe) room() *note {
	p := s.last
	if p == nil || p.n == pieceNotes {
		p = pieces.Get().(*piece)
		if s.last == nil {
			s.first = p
		} else {
			s.last.next = p
		}
		s.last = p
	}
	p.n++
	return &p.notes[p.n-1]
}

func (n *notes) poke() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// take gives the stripe's notes away, the oldest piece first.
func (s *stripe) take() *piece {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.first
	s.first, s.last, s.events = nil, nil, 0
	return p
}

// done lets a piece serve again, which holds on to nothing, and returns the one behind it.
func (p *piece) done() (next *piece) {
	next = p.next
	clear(p.notes[:p.n])
	p.n, p.next = 0, nil
	pieces.Put(p)
	return next
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
