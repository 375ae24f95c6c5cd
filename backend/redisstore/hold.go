package redisstore

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
)

// Release gives an entry back, deletes the lock with the last one, and wakes the first in
// its line.
func (s *Store) Release(ctx context.Context, hold tierlock.Hold) (tierlock.Answer, error) {
	return s.ask(ctx, hold, func(q *question, to place) (reply, time.Time, error) {
		r := riderFor(hold)
		defer r.free()
		r.lined()
		return to.ask(q, to.node.controlling, &releaseScript, r)
	})
}

// Lookup asks who holds the key.
func (s *Store) Lookup(ctx context.Context, hold tierlock.Hold) (tierlock.Answer, error) {
	return s.ask(ctx, hold, func(q *question, to place) (reply, time.Time, error) {
		r := riderFor(hold)
		defer r.free()
		return to.ask(q, to.node.controlling, &lookupScript, r)
	})
}

func (s *Store) ask(ctx context.Context, hold tierlock.Hold, put func(*question, place) (reply, time.Time, error)) (tierlock.Answer, error) {
	q, err := s.question(ctx)
	if err != nil {
		return tierlock.Answer{}, err
	}
	defer q.end()
	return s.put(q, hold, put)
}

func (s *Store) put(q *question, hold tierlock.Hold, put func(*question, place) (reply, time.Time, error)) (answer tierlock.Answer, err error) {
	err = s.send(q, hold.Key, func(to place) error {
		r, sent, err := put(q, to)
		if err == nil {
			answer = r.answer(sent, hold.TTL)
		}
		return err
	})
	return answer, err
}
