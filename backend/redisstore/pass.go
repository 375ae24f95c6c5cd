package redisstore

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
)

// Pass puts to in the place of from in one step, if from holds the lock and no other entry
// into it is left.
func (s *Store) Pass(ctx context.Context, from tierlock.Hold, to tierlock.Request) (tierlock.Answer, error) {
	if err := check(to); err != nil {
		return tierlock.Answer{}, err
	}
	ttl := to.TTL
	return s.ask(ctx, tierlock.Hold{Key: to.Key, TTL: ttl}, func(q *question, at place) (reply, time.Time, error) {
		if to.NotAfter.IsZero() {
			to.NotAfter = q.deadline
		}
		return at.node.controlling.alone(q, at, &passScript, at.node.passed(from, to))
	})
}

// passed is the operation that puts to in the place of from.
func (n *node) passed(from tierlock.Hold, to tierlock.Request) op {
	o := n.wanted(to)
	o.from, o.entry = from.ID.Secret(), from.Entry
	o.shape |= shapeEntry
	return o
}

func passArgs(o *op, words []any) []any {
	return acquireArgs(o, append(words, &o.from))
}
