package redisstore

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

// Store is the lock on one Redis and implements [tierlock.Backend], [tierlock.Prober],
// [tierlock.Wired] and [tierlock.Clocked]. All methods may be called from any goroutine.
//
// Every question returns by its context's deadline. A context that is cancelled without
// one is noticed while waiting for a connection, but not while waiting for a reply: that
// wait ends at the deadline, which is at most Config.Timeout away.
type Store struct {
	cfg   Config
	clock clock
	dials dialer
	probe tierlock.Key // of this Store alone, so that probes of two never meet

	// Three pools: acquires that fill theirs cannot keep a lock from being given back, and
	// neither of the two can keep a probe out.
	acquires *redis.Client
	control  *redis.Client
	probes   *redis.Client
}

// New connects to nothing: a Redis that cannot be reached shows in the first answers.
func New(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	probe, err := tierlock.ParseKey("tierlock:probe:" + tierlock.NewRequestID().Secret())
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, probe: probe}
	s.clock.start = time.Now()
	s.dials.open(cfg)
	s.acquires = s.client(cfg.PoolSize)
	s.control = s.client(cfg.PoolSize)
	s.probes = s.client(probeConns)
	return s, nil
}

// Close ends all connections and waits for those being made. Questions under way get a
// fault.
func (s *Store) Close() error {
	err := errors.Join(s.acquires.Close(), s.control.Close(), s.probes.Close())
	s.dials.close()
	return err
}

// Traits tells store redis, tier shared, scope cluster, tokens, and the pool as the wire.
func (s *Store) Traits() tierlock.Traits {
	return tierlock.Traits{
		Store: "redis", Tier: tierlock.Shared, Scope: tierlock.ScopeCluster,
		Fences: true, Wire: s.cfg.PoolSize,
		Prober: s, Wired: s, Clocked: s,
	}
}

// ClockError bounds how far this process's wall clock may be from the server's; ok is
// false before the first reply.
func (s *Store) ClockError() (bound time.Duration, ok bool) { return s.clock.wallError(time.Now()) }

// Loose counts the connections being made that no caller waits for any more.
func (s *Store) Loose(string) int {
	return max(0, int(s.dials.pending.Load())-int(s.acquires.PoolStats().PendingRequests))
}
