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
	n := s.node(s.probe)
	hold := tierlock.Hold{Key: s.probe, ID: tierlock.NewRequestID(), TTL: probeTTL}
	cmds := pipelined(q, n.probes, []*call{
		n.wanted(tierlock.Request{Hold: hold, NotAfter: q.deadline}),
		newCall(&releaseScript, hold),
	})
	for _, cmd := range cmds {
		if _, err := read(cmd); err != nil {
			return err
		}
	}
	return nil
}
