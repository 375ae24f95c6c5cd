package redisstore

import (
	"time"

	"github.com/tierlock/tierlock"
)

// Waits has who waits ask again after retry, and a silent subscription be asked for a sign
// of life after quiet; call it before the first question. Of one server only.
func (s *Store) Waits(retry, quiet time.Duration) {
	box := s.servers.(single).only.inbox
	box.retry, box.heard, box.quiet = retry, retry, quiet
}

// Asleep counts who sleeps for key. Of one server only.
func (s *Store) Asleep(key tierlock.Key) int {
	box := s.servers.(single).only.inbox
	box.mu.Lock()
	defer box.mu.Unlock()
	return len(box.asleep[key])
}

// Hear is a word of the server's. Of one server only.
func (s *Store) Hear(hold tierlock.Hold) {
	s.servers.(single).only.inbox.hear(hold.ID.Fingerprint() + " " + hold.Key.String())
}
