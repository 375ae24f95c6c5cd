package redisstore

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
)

// probeTTL is how long a probe's key stays when its release is lost.
const probeTTL = time.Second

// Probe takes and gives back a lock that nobody else wants, with the scripts that locks
// use, so what refuses writes fails it. Both go in one round trip, on connections that
// nothing else uses: on a slow server each round trip counts, and the first probe has a
// connection to make. It is unfenced, so it leaves no fence record behind.
func (s *Store) Probe(ctx context.Context, _ string) error {
	q, err := s.question(ctx)
	if err != nil {
		return err
	}
	defer q.end()
	hold := tierlock.Hold{Key: s.probe, ID: tierlock.NewRequestID(), TTL: probeTTL}
	return s.send(q, hold.Key, func(to place) error { return to.probe(q, hold, q.deadline) })
}

// probe takes hold and gives it back.
func (p place) probe(ctx context.Context, hold tierlock.Hold, notAfter time.Time) error {
	take := acquireScript.about(p, p.node.wanted(tierlock.Request{Hold: hold, NotAfter: notAfter}))
	give := releaseScript.about(p, opOf(hold))
	cmds := pipelined(ctx, p.node.probes, []*call{&take.call, &give.call})
	for i, l := range []*lone{take, give} {
		if _, err := l.call.reply(cmds[i], 0); err != nil {
			return err
		}
	}
	return nil
}
