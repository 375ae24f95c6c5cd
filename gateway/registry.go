package gateway

import (
	"sync"
	"time"

	"github.com/tierlock/tierlock"
)

// registry knows every live lock of this process by (key, request id), for Attach and for
// a call that is repeated, and by key, so that what this process holds in the shared
// store blocks the same key in its local table.
//
// The locks of one key are a list through the locks themselves, so that a grant costs no
// allocation. The lists are short: one shared holder, or a few local ones.
type registry struct {
	shards [64]shard
}

type shard struct {
	mu   sync.Mutex
	head map[tierlock.Key]*lease // guarded by mu, like prev and next of every lock in it
	_    [48]byte                // keeps two shards off one cache line
}

// of returns the shard of the key with that hash.
func (r *registry) of(hash uint64) *shard { return &r.shards[hash%uint64(len(r.shards))] }

// add puts l in. A lock is added once and removed once.
func (r *registry) add(l *lease) {
	s := r.of(l.hash)
	s.mu.Lock()
	if s.head == nil {
		s.head = make(map[tierlock.Key]*lease)
	}
	if first := s.head[l.grant.Key]; first != nil {
		l.next, first.prev = first, l
	}
	s.head[l.grant.Key] = l
	s.mu.Unlock()
	l.chain.live.Add(1)
}

// remove takes l out; it does nothing the second time.
func (r *registry) remove(l *lease) {
	s := r.of(l.hash)
	s.mu.Lock()
	in := l.prev != nil || s.head[l.grant.Key] == l
	if in {
		s.unlinkLocked(l)
	}
	s.mu.Unlock()
	if in {
		l.chain.live.Add(-1)
	}
}

func (s *shard) unlinkLocked(l *lease) {
	if l.next != nil {
		l.next.prev = l.prev
	}
	switch {
	case l.prev != nil:
		l.prev.next = l.next
	case l.next != nil:
		s.head[l.grant.Key] = l.next
	default:
		delete(s.head, l.grant.Key)
	}
	l.prev, l.next = nil, nil
}

// publish lets others find l, which is decided and recorded by now: nobody may get a
// bypass lock whose event is not durable yet. If the same request got its lock twice at
// once, the first one published is the lock, and publish returns it.
func (r *registry) publish(l *lease) *lease {
	s := r.of(l.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := s.head[l.grant.Key]; other != nil; other = other.next {
		if other.ready && other.grant.RequestID == l.grant.RequestID {
			return other
		}
	}
	l.ready = true
	return l
}

// force publishes l beside what is there.
func (r *registry) force(l *lease) {
	s := r.of(l.hash)
	s.mu.Lock()
	l.ready = true
	s.mu.Unlock()
}

// find returns the live, published lock of (key, id), or nil.
func (r *registry) find(key tierlock.Key, hash uint64, id tierlock.RequestID) *lease {
	s := r.of(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.head[key]; l != nil; l = l.next {
		if l.ready && l.grant.RequestID == id {
			return l
		}
	}
	return nil
}

// twin tells whether another live lock stands for the same hold as l.
func (r *registry) twin(l *lease) bool {
	s := r.of(l.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := s.head[l.grant.Key]; other != nil; other = other.next {
		if other != l && other.by == l.by && other.grant.RequestID == l.grant.RequestID {
			return true
		}
	}
	return false
}

// shared returns until when a lock that the shared store granted to this process on key
// may still be good there; ok is false if there is none.
func (r *registry) shared(key tierlock.Key, hash uint64, at time.Time) (until time.Time, ok bool) {
	_, until = r.holder(key, hash, at)
	return until, !until.IsZero()
}

// holder returns that lock and its end; nil if there is none.
func (r *registry) holder(key tierlock.Key, hash uint64, at time.Time) (h *lease, until time.Time) {
	s := r.of(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.head[key]; l != nil; l = l.next {
		if end := l.storeEnd(); l.tier == tierlock.Shared && at.Before(end) {
			return l, end
		}
	}
	return nil, time.Time{}
}
