package localfallback

import (
	"github.com/maypok86/otter/v2"

	"github.com/tierlock/tierlock"
)

// Most questions need no Compute: the record is there and stays there, and its own lock is
// enough. Only making a record, moving its expiry and dropping it are the cache's to do.
//
// Why a holder can never be added to a record that the cache drops:
//  1. Sweep: it drops what is past expires by the cache's clock, which is never ahead of
//     ours; attend adds nobody whose end lies beyond expires, so a record with a holder is
//     not past it. Compute raises expires and the cache's copy of it under one bucket lock,
//     which the sweep needs too.
//  2. Drop: it looks at the holders and marks the record dead under one lock. Who comes
//     before is seen there and keeps the record; who comes after sees the mark.
//  3. Who finds the mark goes to Compute, which waits for the bucket, and with it for the
//     deletion, and makes a new record.

// attend runs the attempt on key's record under its lock alone. It is false when the cache
// has to do something: then nothing has happened.
func (t *Table) attend(key tierlock.Key, a *attempt) bool {
	r := t.record(key)
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		t.front.gone(r)
		return false
	}
	if a.until > r.expires {
		return false
	}
	t.try(r, true, a)
	return true
}

// touch runs do on key's record, if it has one, with the expired holders gone. A record
// that is left empty stays, idle, while there are few of those.
func (t *Table) touch(key tierlock.Key, now moment, do func(*record)) {
	r := t.record(key)
	if r == nil {
		return
	}
	done, surplus := t.visit(r, now, do)
	if !done { // r is leaving: whatever has taken its place
		t.front.gone(r)
		t.records.Compute(key, func(next *record, found bool) (*record, otter.ComputeOp) {
			if found {
				r = next
				_, surplus = t.visit(r, now, do)
			}
			return next, otter.CancelOp
		})
	}
	if surplus {
		t.drop(key, r)
	}
}

// visit is touch on one record; done is false when it is dead.
func (t *Table) visit(r *record, now moment, do func(*record)) (done, surplus bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return false, false
	}
	r.prune(now)
	do(r)
	return true, t.vacate(r)
}

// drop takes an idle record out of the cache, unless somebody has come in meanwhile.
func (t *Table) drop(key tierlock.Key, idle *record) {
	t.records.Compute(key, func(r *record, found bool) (*record, otter.ComputeOp) {
		if !found || r != idle {
			return r, otter.CancelOp
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.holders) > 0 {
			return r, otter.CancelOp
		}
		r.dead = true
		return r, otter.InvalidateOp
	})
}
