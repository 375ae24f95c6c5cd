package redisstore

import (
	"testing"

	"github.com/tierlock/tierlock"
)

// Gone counts the acquires that are on a trip though their callers have gone.
func (s *Store) Gone() int {
	sum := 0
	for _, n := range s.servers.serving("") {
		sum += int(n.acquiring.loose.Load())
	}
	return sum
}

// Gather makes all who ask from now on stand in line, until go is called: then they travel
// together. The node serves key; InLine tells how many stand there.
func (s *Store) Gather(t testing.TB, key tierlock.Key) (g Gathering) {
	t.Helper()
	to, err := s.servers.place(till{t.Context()}, key)
	if err != nil {
		t.Fatal(err)
	}
	g = Gathering{to.node.acquiring, to.node.controlling}
	for _, b := range g {
		b.mu.Lock()
		b.limit, b.out, b.most = 1, b.out+1, 1
		b.mu.Unlock()
	}
	return g
}

// Gathering is the lines of a node that nobody takes from.
type Gathering [2]*batcher

// InLine counts those who stand there.
func (g Gathering) InLine() (sum int) {
	for _, b := range g {
		b.mu.Lock()
		sum += len(b.line) - b.first
		b.mu.Unlock()
	}
	return sum
}

// OnTheWire tells that an acquire has a connection to itself.
func (g Gathering) OnTheWire() bool {
	stats := g[0].client.PoolStats()
	return stats.TotalConns > stats.IdleConns
}

// Go lets them travel.
func (g Gathering) Go() {
	for _, b := range g {
		b.mu.Lock()
		b.most = b.node.cfg.PoolSize
		b.mu.Unlock()
		b.back()
	}
}

// Slotted has the store take its one server for one of a Cluster: only keys of one slot
// share a call.
func (s *Store) Slotted() { s.cfg.Cluster = true }

// Stall is how long a line stands before it gets another connection.
const Stall = stall

// MaxOps is how many travel together.
const MaxOps = maxOps
