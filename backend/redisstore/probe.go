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
// nothing else uses; see prober. It is unfenced, so it leaves no fence record behind. A
// server whose replies take nearly as long as ctx gives answers it, also when the connection
// to it has to be made first.
//
// The target is a shard of a Cluster; the name "" stands for all of them, each of which
// must answer.
func (s *Store) Probe(ctx context.Context, target string) error {
	q, err := s.question(ctx)
	if err != nil {
		return err
	}
	keys, err := s.servers.probes(q.context(), target)
	q.end()
	if err != nil {
		return err
	}
	if len(keys) == 1 {
		return s.probe(ctx, keys[0])
	}
	answers := make(chan error, len(keys))
	for _, key := range keys {
		go func() { answers <- s.probe(ctx, key) }()
	}
	err = nil
	for range keys { // each ends by ctx's deadline
		if one := <-answers; one != nil {
			err = one
		}
	}
	return err
}

func (s *Store) probe(ctx context.Context, key tierlock.Key) error {
	q, err := s.question(ctx)
	if err != nil {
		return err
	}
	defer q.end()
	hold, notAfter := tierlock.Hold{Key: key, ID: tierlock.NewRequestID(), TTL: probeTTL}, q.deadline // q may end before the probe does
	return s.send(q, key, func(to place) error {
		return to.node.prober.ask(q, func(ctx context.Context) error { return to.probe(ctx, hold, notAfter) })
	})
}

// probe takes hold and gives it back, nothing of it after notAfter.
func (p place) probe(ctx context.Context, hold tierlock.Hold, notAfter time.Time) error {
	take, give := p.node.wanted(tierlock.Request{Hold: hold, NotAfter: notAfter}), riderFor(hold)
	defer take.free()
	defer give.free()
	take.call = acquireScript.call(p, take.room[:], &take.op)
	give.call = releaseScript.call(p, give.room[:], &give.op)
	cmds := pipelined(ctx, p.node.prober.client, []*call{&take.call, &give.call})
	for i, l := range []*rider{take, give} {
		if _, err := l.call.reply(cmds[i]); err != nil {
			return err
		}
	}
	return nil
}
