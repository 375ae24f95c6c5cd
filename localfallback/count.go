package localfallback

import (
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/tierlock/tierlock"
)

// A record is counted in all from the Compute that writes it to the deletion that forgets
// it, and in live while it has holders. The functions here are the only ones that move it,
// all under its lock, so the sums stay exact.

// count puts r into live, unless the table has all the keys it may.
func (t *Table) count(r *record, found bool) bool {
	if t.live.Add(1) > t.keys {
		t.live.Add(-1)
		return false
	}
	r.counted = true
	if !found {
		t.all.Add(1)
	}
	return true
}

// keep makes sure that the cache keeps r as long as its holders last. Most grants on a
// busy key find that it does already, and write nothing.
func (t *Table) keep(r *record) otter.ComputeOp {
	last := r.last()
	if last <= r.expires {
		return otter.CancelOp
	}
	r.expires = last + moment(linger)
	return otter.WriteOp
}

// expiry is how long the cache keeps the record of an entry from now on, by its own clock.
func (t *Table) expiry(e otter.Entry[tierlock.Key, *record]) time.Duration {
	return t.clock.untilAt(e.Value.expires, e.SnapshotAtNano)
}

// vacate takes r out of live when its last holder has gone, and tells whether there are too
// many records without one to keep it.
func (t *Table) vacate(r *record) (surplus bool) {
	if len(r.holders) > 0 || !r.counted {
		return false
	}
	r.counted = false
	return t.all.Load()-t.live.Add(-1) > maxIdle
}

// forget is called by the cache, under the bucket's lock, when a record leaves it: swept
// after its end, replaced after its end, or invalidated. An update in place is none of
// these.
func (t *Table) forget(e otter.DeletionEvent[tierlock.Key, *record]) {
	if e.Cause == otter.CauseReplacement {
		return
	}
	r := e.Value
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = true
	t.all.Add(-1)
	if r.counted {
		t.live.Add(-1)
	}
	r.rouse()
}
