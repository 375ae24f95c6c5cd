package redisstore

// Dialling counts the connections being made, awaited or not.
func (s *Store) Dialling() int {
	sum := 0
	for _, n := range s.servers.serving("") {
		sum += int(n.dials.pending.Load())
	}
	return sum
}
