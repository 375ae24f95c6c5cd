package redisstore

// Dialling counts the connections being made, awaited or not.
func (s *Store) Dialling() int { return int(s.only.dials.pending.Load()) }
