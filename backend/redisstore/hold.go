package redisstore

import (
	"context"

	"github.com/tierlock/tierlock"
)

// Release gives an entry back, deletes the lock with the last one, and wakes the first in
// its line.
func (s *Store) Release(ctx context.Context, hold tierlock.Hold) (tierlock.Answer, error) {
	return s.ask(ctx, hold, func(q *question, to place) (*rider, error) {
		r := riderFor(hold)
		r.lined()
		return r, to.ask(q, to.node.controlling, &releaseScript, r)
	})
}

// Lookup asks who holds the key.
func (s *Store) Lookup(ctx context.Context, hold tierlock.Hold) (tierlock.Answer, error) {
	return s.ask(ctx, hold, func(q *question, to place) (*rider, error) {
		r := riderFor(hold)
		return r, to.ask(q, to.node.controlling, &lookupScript, r)
	})
}

func (s *Store) ask(ctx context.Context, hold tierlock.Hold, put func(*question, place) (*rider, error)) (tierlock.Answer, error) {
	q, err := s.question(ctx)
	if err != nil {
		return tierlock.Answer{}, err
	}
	defer q.end()
	return s.put(q, hold, put)
}

// put has put make a rider and ask what it is to ask, and frees it.
func (s *Store) put(q *question, hold tierlock.Hold, put func(*question, place) (*rider, error)) (answer tierlock.Answer, err error) {
	err = s.send(q, hold.Key, func(to place) error {
		r, err := put(q, to)
		defer r.free()
		if err == nil {
			answer = r.reply.answer(r.sent, hold.TTL)
		}
		return err
	})
	return answer, err
}
