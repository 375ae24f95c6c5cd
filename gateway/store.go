package gateway

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/breaker"
)

// granter is a backend with its traits, which are constant, at hand.
type granter struct {
	tierlock.Backend
	traits tierlock.Traits
}

func newGranter(b tierlock.Backend) granter { return granter{b, b.Traits()} }

// store is a shared backend and, per target, the one sensor that all chains on it share:
// what is on the wire belongs to the target, what to make of it to the chain.
type store struct {
	granter
	name       string
	gw         *Gateway
	attempt    time.Duration // the shortest of the chains on it
	strong     bool          // a strong chain is on it: part of the wire is kept for those
	clockError atomic.Int64  // nanoseconds; see refresh

	mu      sync.RWMutex
	targets map[string]*target // guarded by mu
}

// target is the part of a store that fails alone.
type target struct {
	store  *store
	name   string
	sensor *breaker.Sensor

	mu      sync.Mutex
	ladders []*ladder // guarded by mu
	probes  int       // answered in a row, at the last look; guarded by mu
	ill     bool      // a fault came, and no answered probe since; guarded by mu
	since   time.Time // it remembers, at the last look; zero: not known; of the sense loop alone
}

// targetOf names the target that serves key.
func (s *store) targetOf(key tierlock.Key) string {
	if s.traits.Sharder == nil {
		return ""
	}
	return s.traits.Sharder.Target(key)
}

// target returns the target of that name and starts its sensor the first time.
func (s *store) target(name string) *target {
	s.mu.RLock()
	t := s.targets[name]
	s.mu.RUnlock()
	if t != nil {
		return t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t = s.targets[name]; t != nil {
		return t
	}
	t = &target{store: s, name: name}
	t.sensor = s.newSensor(t)
	s.targets[name] = t
	s.gw.start(t.sensor.Run)
	return t
}

func (s *store) newSensor(t *target) *breaker.Sensor {
	cfg := breaker.Config{
		Name: s.name, Wire: s.traits.Wire, Attempt: s.attempt, Changed: t.changed, Logger: s.gw.log,
	}
	cfg.Failures, cfg.Silence = s.tolerance()
	if t.name != "" {
		cfg.Name += "/" + t.name
	}
	if !s.strong {
		cfg.Reserved = -1
	}
	if p := s.traits.Prober; p != nil {
		cfg.Probe = func(ctx context.Context) error { return p.Probe(ctx, t.name) }
	}
	if w := s.traits.Wired; w != nil {
		cfg.Loose = func() int { return w.Loose(t.name) }
	}
	sensor, err := breaker.New(cfg)
	if err != nil {
		panic("gateway: " + err.Error()) // every field was checked by New
	}
	return sensor
}

// tolerance is what the most patient of the chains on s bears with. Its breaker refuses all of
// them, so it waits for that one; the machines of the others have stepped down before.
func (s *store) tolerance() (failures int, silence time.Duration) {
	for _, c := range s.gw.chains {
		if c.store == s {
			p := &c.current.Load().Ladder
			failures, silence = max(failures, p.Failures), max(silence, p.ProbeLost)
		}
	}
	return failures, silence
}

// tolerate tells every sensor the policies in force. One that is being made meanwhile was made
// under mu, and either has read them or is among the targets now.
func (s *store) tolerate() {
	failures, silence := s.tolerance()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, t := range s.targets {
		t.sensor.Tolerate(failures, silence)
	}
}

// changed is called after every fault and every probe, on the goroutine that met it: the
// ladders step before that request asks them again.
func (t *target) changed() {
	r := t.sensor.Read(time.Now())
	t.mu.Lock()
	ladders := t.ladders // only ever appended to
	// Where the number of answered probes has not moved, it was a fault. Two that come at
	// once may both be taken for one; then the next probe, half a second later, counts.
	answered := r.Probes > 0 && r.Probes != t.probes
	back := answered && t.ill
	t.probes, t.ill = r.Probes, !answered
	t.mu.Unlock()
	for _, l := range ladders {
		l.step()
	}
	if back {
		t.store.gw.ledger.hurry(t)
	}
}

// busiest is the chain that has most out on the target, and how much that is.
func (t *target) busiest() (chain string, out int) {
	t.mu.Lock()
	ladders := t.ladders
	t.mu.Unlock()
	for _, l := range ladders {
		if n := l.wire.Out(); n >= out {
			chain, out = l.chain.name, n
		}
	}
	return chain, out
}

// refresh reads how far the store's clock may be from ours; every event carries it.
func (s *store) refresh() {
	if c := s.traits.Clocked; c != nil {
		if bound, ok := c.ClockError(); ok {
			s.clockError.Store(int64(bound))
		}
	}
}

// remember notices that another server, or one without its memory, has come in a target's
// place: what was granted there may be forgotten, and granted again.
func (s *store) remember(now time.Time) {
	m := s.traits.Memory
	if m == nil {
		return
	}
	s.mu.RLock()
	all := slices.Collect(maps.Values(s.targets))
	s.mu.RUnlock()
	for _, t := range all {
		since, ok := m.Since(t.name)
		if !ok || !since.After(t.since) {
			continue
		}
		known := !t.since.IsZero()
		if t.since = since; !known {
			continue
		}
		s.gw.log.Warn("store was replaced: it may have forgotten what it granted", "store", s.name, "target", t.name, "ago", now.Sub(since))
		s.gw.news.Replaced(audit.Replaced{At: since, Store: s.name, Target: t.name})
		tell(s.gw, "replaced", s.gw.hooks.Replaced, ReplaceInfo{Store: s.name, Target: t.name, Since: since})
	}
}

// close waits for what the sensors still watch; their loops have ended.
func (s *store) close() {
	s.mu.RLock()
	all := slices.Collect(maps.Values(s.targets))
	s.mu.RUnlock()
	for _, t := range all {
		t.sensor.Close()
	}
}
