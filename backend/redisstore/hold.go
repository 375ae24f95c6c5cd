package redisstore

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
)

// Release deletes the lock if hold has it. Its depth is always 0 or 1: re-entry is not
// built yet.
func (s *Store) Release(ctx context.Context, hold tierlock.Hold) (tierlock.Answer, error) {
	return s.ask(ctx, &releaseScript, hold)
}

// Lookup asks who holds the key.
func (s *Store) Lookup(ctx context.Context, hold tierlock.Hold) (tierlock.Answer, error) {
	return s.ask(ctx, &lookupScript, hold)
}

func (s *Store) ask(ctx context.Context, operation *script, hold tierlock.Hold) (tierlock.Answer, error) {
	q, err := s.question(ctx)
	if err != nil {
		return tierlock.Answer{}, err
	}
	defer q.end()
	var answer tierlock.Answer
	err = s.send(q, hold.Key, func(to place) error {
		l := operation.about(to, opOf(hold))
		sent := time.Now()
		r, err := l.call.reply(l.call.run(q, to.node.control), 0)
		if err == nil {
			answer = r.answer(sent, hold.TTL)
		}
		return err
	})
	return answer, err
}
