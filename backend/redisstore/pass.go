package redisstore

import (
	"context"
	"errors"

	"github.com/tierlock/tierlock"
)

// Pass puts to in the place of from in one step, if from holds the lock and no other entry
// into it is left.
func (s *Store) Pass(ctx context.Context, from tierlock.Hold, to tierlock.Request) (tierlock.Answer, error) {
	if err := check(to); err != nil {
		return tierlock.Answer{}, err
	}
	q, err := s.question(ctx)
	if err != nil {
		return tierlock.Answer{}, err
	}
	defer q.end()
	if to.NotAfter.IsZero() {
		to.NotAfter = q.deadline
	}
	answer, err := s.pass(q, from, to)
	if errors.Is(err, errApart) {
		return s.passInSteps(q, from, to)
	}
	return answer, err
}

func (s *Store) pass(q *question, from tierlock.Hold, to tierlock.Request) (tierlock.Answer, error) {
	return s.put(q, to.Hold, func(q *question, at place) (*rider, error) {
		r := at.node.passed(from, to)
		return r, at.ask(q, at.node.controlling, &passScript, r)
	})
}

// passed is the operation that puts to in the place of from.
func (n *node) passed(from tierlock.Hold, to tierlock.Request) *rider {
	r := n.wanted(to)
	r.from, r.entry = from.ID.Secret(), from.Entry
	if r.entry != 0 {
		r.deepen()
	}
	return r
}

func passArgs(o *op, words []any) []any {
	return acquireArgs(o, append(words, &o.from))
}
