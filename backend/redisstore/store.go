package redisstore

import (
	"time"

	"github.com/tierlock/tierlock"
)

// Store is the lock on Redis and implements [tierlock.Backend], [tierlock.Prober],
// [tierlock.Wired] and [tierlock.Clocked]; on a Cluster it brings a [tierlock.Sharder]. All
// methods may be called from any goroutine.
//
// Every question returns by its context's deadline. A context that is cancelled without
// one is noticed while waiting for a connection or for a call shared with others, but not
// while waiting for the reply to a call of one's own: that wait ends at the deadline, which
// is at most Config.Timeout away.
type Store struct {
	cfg     Config
	servers topology
}

// New connects to nothing: a Redis that cannot be reached shows in the first answers.
func New(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	// Of this Store alone, so that probes of two never meet.
	probe, err := tierlock.ParseKey("tierlock:probe:" + tierlock.NewRequestID().Secret())
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg}
	switch {
	case cfg.Sentinel != nil:
		s.servers = newSentinels(&s.cfg, probe)
	case cfg.Cluster:
		s.servers = newCluster(&s.cfg, probe)
	default:
		s.servers = single{newNode(&s.cfg, cfg.Addrs[0]), probe}
	}
	return s, nil
}

// Close ends all connections and waits for those being made. Questions under way get a
// fault.
func (s *Store) Close() error { return s.servers.close() }

// Traits tells store redis, tier shared, scope cluster, tokens, and the wire.
func (s *Store) Traits() tierlock.Traits {
	traits := tierlock.Traits{
		Store: "redis", Tier: tierlock.Shared, Scope: tierlock.ScopeCluster,
		Fences: true, Entries: true, Wire: s.cfg.Wire,
		Waiter: s, Passer: s, Prober: s, Wired: s, Clocked: s, Memory: s,
	}
	if f, ok := s.servers.(*fleet); ok && s.cfg.Cluster {
		traits.Sharder = f
	}
	return traits
}

// ClockError bounds how far this process's wall clock may be from those of the servers
// that have replied; ok is false before the first reply.
func (s *Store) ClockError() (bound time.Duration, ok bool) {
	now := time.Now()
	for _, n := range s.servers.serving("") {
		if one, known := n.clock.wallError(now); known {
			bound, ok = max(bound, one), true
		}
	}
	return bound, ok
}

// Loose counts the connections being made that no caller waits for.
func (s *Store) Loose(target string) int {
	sum := 0
	for _, n := range s.servers.serving(target) {
		sum += n.loose()
	}
	return sum
}
