package redisstore

import (
	"context"

	"github.com/tierlock/tierlock"
)

// topology is which servers a store has, and which of them serves a key.
type topology interface {
	// place is where questions about key go. Its error is a fault: no server is known. It
	// ends with within.
	place(within bound, key tierlock.Key) (place, error)
	// elsewhere hears the fault with which a question about key ended at from, and tells
	// where to put it again: only after an answer which says that nothing happened there
	// and who serves the key instead. Else the fault comes back. turn counts from 0.
	elsewhere(ctx context.Context, key tierlock.Key, from place, fault error, turn int) (place, error)
	// serving are the nodes of a target; of all when its name is empty.
	serving(target string) []*node
	// probes are keys of which one lies in each part of target; of all parts when its name
	// is empty. Its error is a fault.
	probes(ctx context.Context, target string) ([]tierlock.Key, error)
	close() error
}

// bound is what a call ends with. Only who has to wait asks for the context.
type bound interface{ context() context.Context }

// till is a bound that is a context from the beginning.
type till struct{ context.Context } //nolint:containedctx // it is nothing else

func (t till) context() context.Context { return t.Context }

// place is a node, and how a question must be put to it.
type place struct {
	node   *node
	asking bool // behind an ASKING: the key's slot is on its way there
	alone  bool // with no other lock's key in its script: they may be in two places
	bare   bool // with its own lock's key and no record beside it: they may be, too
}

// ask has b carry r; where the lock turns out to have been entered, once more with the
// record of its entries. Where that record is in another place, the server says so.
func (p place) ask(q *question, b *batcher, s *script, r *rider) error {
	if p.bare {
		if r.shape&shapeFenced != 0 {
			return errApart
		}
		r.shape &^= shapeLine // who waits asks by time
	}
	err := b.ask(q, p, s, r)
	if err != nil || !r.reply.entered() || p.bare && s == &renewScript { // that record is renewed by itself
		return err
	}
	r.deepen()
	return b.ask(q, p, s, r)
}

// send puts a question about key where it belongs; put's error is a fault.
func (s *Store) send(q *question, key tierlock.Key, put func(place) error) error {
	to, err := s.servers.place(q, key)
	for turn := 0; err == nil; turn++ {
		if err = put(to); err == nil {
			return nil
		}
		to, err = s.servers.elsewhere(q.context(), key, to, err, turn)
	}
	return err
}

// single is one server, which serves every key for good.
type single struct {
	only  *node
	probe tierlock.Key
}

func (s single) place(bound, tierlock.Key) (place, error) {
	return place{node: s.only}, nil
}

func (single) elsewhere(_ context.Context, _ tierlock.Key, _ place, fault error, _ int) (place, error) {
	return place{}, fault
}

func (s single) serving(string) []*node { return []*node{s.only} }

func (s single) probes(context.Context, string) ([]tierlock.Key, error) {
	return []tierlock.Key{s.probe}, nil
}

func (s single) close() error { return s.only.close() }
