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
	sent := time.Now()
	r, err := read(newCall(operation, hold).run(q, s.node(hold.Key).control))
	if err != nil {
		return tierlock.Answer{}, err
	}
	return r.answer(sent, hold.TTL), nil
}

// Renew extends all holds in one pipeline. Where several got no answer, the error is the
// first one's.
func (s *Store) Renew(ctx context.Context, holds []tierlock.Hold) ([]tierlock.Answer, error) {
	answers := make([]tierlock.Answer, len(holds))
	for _, hold := range holds {
		if err := checkTTL(hold.TTL); err != nil {
			return answers, err
		}
	}
	if len(holds) == 0 {
		return answers, nil
	}
	q, err := s.question(ctx)
	if err != nil {
		return answers, err
	}
	defer q.end()
	calls := make([]*call, len(holds))
	for i, hold := range holds {
		calls[i] = newCall(&renewScript, hold)
		calls[i].words = append(calls[i].words, &calls[i].ttl)
	}
	sent := time.Now()
	var first error
	for i, cmd := range pipelined(q, s.node(holds[0].Key).control, calls) {
		r, err := read(cmd)
		if err == nil {
			answers[i] = r.answer(sent, holds[i].TTL)
		} else if first == nil {
			first = err
		}
	}
	return answers, first
}
