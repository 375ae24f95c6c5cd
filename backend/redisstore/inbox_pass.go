package redisstore

import (
	"time"

	"github.com/tierlock/tierlock"
)

// keep has the next one that would sleep for key not do so. Where nobody comes soon, whose
// turn it was has gone, and the word goes on to the next in the server's line.
func (b *inbox) keep(key tierlock.Key) {
	now := time.Now()
	if len(b.early) >= mostEarly {
		for old, since := range b.early {
			if now.Sub(since) > earlyFor {
				delete(b.early, old)
			}
		}
	}
	if b.closed || len(b.early) >= mostEarly {
		return
	}
	b.early[key] = now
	b.done.Go(func() {
		timer := time.NewTimer(passAfter)
		defer timer.Stop()
		select {
		case <-b.ending.Done():
			return
		case <-timer.C:
		}
		b.mu.Lock()
		since, still := b.early[key]
		b.mu.Unlock()
		if still && since.Equal(now) {
			b.tellNext(key)
		}
	})
}

// passOn gives a turn away that nobody here has a use for, behind the caller.
func (b *inbox) passOn(key tierlock.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.done.Go(func() { b.tellNext(key) })
	}
}

// tellNext has the server tell the next in key's line, if the key is free: a release by an
// id that has nothing does. It asks once; what goes wrong here costs who waits no more than
// a lost word.
func (b *inbox) tellNext(key tierlock.Key) {
	now := time.Now()
	q := questionOf(b.ending, now, now.Add(b.node.cfg.Timeout))
	defer q.end()
	r := riderFor(tierlock.Hold{Key: key, ID: tierlock.NewRequestID()})
	defer r.free()
	r.lined()
	_ = b.node.controlling.ask(q, place{node: b.node}, &releaseScript, r)
}
