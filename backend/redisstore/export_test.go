package redisstore

import "github.com/tierlock/tierlock"

// Dialling counts the connections being made, awaited or not.
func (s *Store) Dialling() int {
	sum := 0
	for _, n := range s.servers.serving("") {
		sum += int(n.dials.pending.Load())
	}
	return sum
}

// ReadyToProbe counts the connections that stand ready for probes.
func (s *Store) ReadyToProbe() int {
	sum := 0
	for _, n := range s.servers.serving("") {
		sum += int(n.prober.client.PoolStats().IdleConns)
	}
	return sum
}

// AskForFunctionsAgain ends the time for which their lack is believed.
func (s *Store) AskForFunctionsAgain() {
	for _, n := range s.servers.serving("") {
		if n.functions.away.Load() != 0 {
			n.functions.away.Store(1)
		}
	}
}

// SlotOf is the slot of key.
func SlotOf(key tierlock.Key) int { return int(slotOf(key)) }
