package redisstore

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
)

// probeTTL is how long a probe's key stays when its release is lost.
const probeTTL = time.Second

// Probe takes and gives back a lock that nobody else wants, on connections of its own,
// with the scripts that locks use: what refuses writes fails it. It is unfenced, so it
// leaves no fence record behind.
func (s *Store) Probe(ctx context.Context, _ string) error {
	q, err := s.question(ctx)
	if err != nil {
		return err
	}
	defer q.end()
	id, keys := tierlock.NewRequestID().Secret(), []string{s.probe.String()}
	limit := &notAfter{clock: &s.clock, at: q.deadline}
	r, err := read(acquireScript.run(q, s.probes, keys, id, probeTTL.Milliseconds(), limit))
	if err != nil {
		return err
	}
	s.clock.learn(limit.sent, time.Now(), time.UnixMicro(r.now))
	_, err = read(releaseScript.run(q, s.probes, keys, id))
	return err
}
