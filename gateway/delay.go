package gateway

import (
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
)

// lockDelay is how long nothing is granted by a store that may have forgotten what it
// granted before; 0: not at all. A holder of then works on until its ttl is over, and on a
// strong chain without tokens nothing else would keep the next one away from it.
func (p *Policy) lockDelay() time.Duration {
	switch {
	case p.LockDelay < 0:
		return 0
	case p.LockDelay == 0 && p.Ladder.Class == degrade.ClassStrong && !p.Fencing:
		return p.TTL
	}
	return p.LockDelay
}

func checkLockDelay(d time.Duration) error {
	if d > maxTTL {
		return tierlock.Invalid("lock_delay", d.String(), "want at most "+maxTTL.String()+", 0 for the default, or below 0 for none")
	}
	return nil
}

// tooYoung refuses a request while the store that would serve it has not remembered for
// long enough. It is looked at before the store is asked, to spare it, and after it has
// granted, to be right: the connection that the grant came on may have been the first to
// find another server.
func (r *request) tooYoung(now time.Time) *tierlock.Error {
	delay, memory := r.policy.lockDelay(), r.chain.store.traits.Memory
	if delay == 0 || memory == nil {
		return nil
	}
	since, ok := memory.Since(r.ladder.target.name)
	left := since.Add(delay).Sub(now)
	if !ok || left <= 0 {
		return nil
	}
	e := r.because(tierlock.ReasonRecovering, nil)
	e.RetryAfter = left
	return e
}

// checkMemory refuses a delay that the store could not keep.
func (p *Policy) checkMemory(b tierlock.Backend) error {
	if p.LockDelay > 0 && b.Traits().Memory == nil {
		return tierlock.Invalid("lock_delay", p.LockDelay.String(), "the store cannot tell since when it remembers")
	}
	return nil
}
