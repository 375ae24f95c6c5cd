package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
)

// lines are the calls of this process that wait for a key of the shared store, one line
// for each key, in the order in which they came. Only the first of a line asks the store
// and waits there: thousands of callers of one key are one contender to everybody else.
// Whoever gives the key back may hand it to the first at once; see [Lock.handOver].
//
// Every call that may wait has a place, also while it is alone and asks for the first
// time: else all that come at once would ask at once.
type lines struct {
	free   sync.Pool // of places; one for each gateway, since a place has a channel and tests run in bubbles
	shards [64]lineShard
}

type lineShard struct {
	mu    sync.Mutex
	first map[tierlock.Key]*place // guarded by mu, like what each place says is
	onces int                     // places of calls that wait for no holder; guarded by mu
	_     [40]byte                // keeps two shards off one cache line
}

// stance is what the call in a place is doing.
type stance uint8

const (
	parked  stance = iota // it waits, and may be handed the lock when it is the first
	asking                // it is busy with an answer of its own
	claimed               // it waits, and a hand-over to it is on its way
	given                 // the hand-over has come
	alone                 // its line was dissolved: it waits like a call without one
	left                  // its call has ended, maybe while it was claimed
)

// place is one call's in a line. Its goroutine sleeps on call, and whoever changes its
// stance pokes that.
type place struct {
	key   tierlock.Key
	lines *lines
	shard *lineShard
	call  chan struct{} // buffered: look again

	// All below is guarded by shard.mu.
	next, prev *place
	last       *place    // of the line; kept by the first
	held       time.Time // when somebody had the key, as far as the line knows; zero: never; kept by the first
	stance     stance
	waits      bool               // it was told that the key is held, and waits for that to end
	wake       context.CancelFunc // ends its sleep in the store's line; nil: it is not there
	want       want
	gift       gift
}

// want is what whoever hands the lock over must know of the call.
type want struct {
	hold  tierlock.Hold
	named bool
	once  bool      // it waits for its turn to ask, and for no holder
	end   time.Time // of its wait, or its caller's deadline
	till  time.Time // until when it may stand in the store's line; zero: it never did
}

// join puts a call at the end of its key's line. first tells that it stands alone there;
// then it is asking, else parked.
func (ls *lines) join(key tierlock.Key, hash uint64, w want) (p *place, first bool) {
	s := &ls.shards[hash%uint64(len(ls.shards))]
	p, ok := ls.free.Get().(*place)
	if !ok {
		p = &place{call: make(chan struct{}, 1)}
	}
	*p = place{key: key, lines: ls, shard: s, call: p.call, want: w}
	drain(p.call)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		s.first = make(map[tierlock.Key]*place)
	}
	if w.once {
		s.onces++
	}
	head := s.first[key]
	if head == nil {
		s.first[key], p.last, p.stance = p, p, asking
		return p, true
	}
	head.last.next, p.prev, head.last = p, head.last, p
	return p, false
}

// leave takes p out for good, with the lock or without. A gift that had come, and that the
// call did not take, is returned: who gave it has left it to the call, so nobody else gives
// it back.
func (p *place) leave(locked bool) (untaken gift, hold tierlock.Hold, ok bool) {
	s := p.shard
	s.mu.Lock()
	was := p.stance
	if was == given {
		untaken, hold, ok = p.gift, p.want.hold, true
		p.gift = gift{}
	}
	if p.want.once {
		s.onces--
	}
	if was != alone {
		if locked && p.next != nil {
			p.seenLocked(time.Now())
		}
		p.unlinkLocked()
	}
	p.stance = left
	s.mu.Unlock()
	if was != claimed { // who claimed it still has it
		p.lines.free.Put(p)
	}
	return untaken, hold, ok
}

// unlinkLocked closes the line over p. If p was the first, the next one is told that it is.
func (p *place) unlinkLocked() {
	s := p.shard
	head := s.first[p.key]
	switch {
	case head != p:
		p.prev.next = p.next
		if p.next != nil {
			p.next.prev = p.prev
		} else {
			head.last = p.prev
		}
	case p.next == nil:
		delete(s.first, p.key)
	default:
		p.next.prev, p.next.last, p.next.held = nil, p.last, p.held
		s.first[p.key] = p.next
		poke(p.next.call)
	}
	p.next, p.prev, p.last = nil, nil, nil
}

// dissolve sends all others of p's line, which p is the first of, on their own: what they
// would have waited for together is not there, or not one at a time.
func (p *place) dissolve() {
	s := p.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.stance == alone {
		return
	}
	delete(s.first, p.key)
	for one := p; one != nil; {
		next := one.next
		one.next, one.prev, one.last, one.stance = nil, nil, nil, alone
		poke(one.call)
		one = next
	}
}

// view is what a call sees of its line.
type view struct {
	stance stance    // its own
	first  bool      // it is
	held   time.Time // when somebody had the key, as far as the line knows; zero: never
	behind bool      // somebody else is the first, and waits for a holder
}

func (p *place) look() view {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	v := view{stance: p.stance}
	if head := p.shard.first[p.key]; head != nil {
		v.first, v.held = head == p, head.held
		v.behind = !v.first && head.waits && head.stance != asking
	}
	return v
}

// sawHeld tells the line, which p is the first of, that somebody has the key.
func (p *place) sawHeld() {
	p.shard.mu.Lock()
	p.seenLocked(time.Now())
	p.shard.mu.Unlock()
}

// seenLocked notes that somebody had the key then, and wakes those in p's line whom that
// answers.
func (p *place) seenLocked(at time.Time) {
	p.held = at
	if p.shard.onces == 0 {
		return
	}
	for q := p.next; q != nil; q = q.next {
		if q.want.once {
			poke(q.call)
		}
	}
}

// park is the end of asking: the key is held, and p may be handed it. w is the call as it
// stands now.
func (p *place) park(w want) {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	if p.stance == asking {
		p.stance, p.waits, p.want = parked, true, w
		p.seenLocked(time.Now())
	}
}

// rise lets p ask, unless a hand-over to it is on its way or there.
func (p *place) rise() bool {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	if p.stance != parked {
		return false
	}
	p.stance = asking
	drain(p.call)
	return true
}

// sleeps has wake called when p is needed. It is false when p is needed already.
func (p *place) sleeps(wake context.CancelFunc) bool {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	p.wake = wake
	return p.stance == parked
}

// claim keeps the first of key's line for a hand-over, if it is parked and fit says so.
// Who claims a place gives to it or lets it go.
func (ls *lines) claim(key tierlock.Key, hash uint64, fit func(want) bool) (*place, want) {
	s := &ls.shards[hash%uint64(len(ls.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.first[key]
	if p == nil || p.stance != parked || !fit(p.want) {
		return nil, want{}
	}
	p.stance = claimed
	return p, p.want
}

// give ends a hand-over to p. It is false when p's call has left meanwhile: then what came
// of it is the giver's.
func (p *place) give(g gift) bool { return p.unclaim(given, g) }

// letGo ends a hand-over to p that changed nothing: p may ask now.
func (p *place) letGo() { p.unclaim(parked, gift{}) }

func (p *place) unclaim(now stance, g gift) bool {
	s := p.shard
	s.mu.Lock()
	if p.stance == left {
		s.mu.Unlock()
		return false
	}
	p.stance, p.gift = now, g
	wake := p.wake
	poke(p.call)
	s.mu.Unlock() // from here on p is its call's again
	if wake != nil {
		wake()
	}
	return true
}

// taken is the gift of a place that was given one.
func (p *place) taken() gift {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	g := p.gift
	p.stance, p.gift = asking, gift{}
	return g
}

// nudge tells the first of key's line that this process has given the key back.
func (ls *lines) nudge(key tierlock.Key, hash uint64) {
	s := &ls.shards[hash%uint64(len(ls.shards))]
	s.mu.Lock()
	if p := s.first[key]; p != nil {
		poke(p.call)
	}
	s.mu.Unlock()
}

func drain(c chan struct{}) {
	select {
	case <-c:
	default:
	}
}
