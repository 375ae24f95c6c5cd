package localfallback

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/tierlock/tierlock"
)

// front stands before the cache and remembers which record a key had, so that a busy key is
// found without the cache's own bookkeeping, which costs more than all else that a lookup
// does. It need not be right: a record that has left the cache says so itself (dead), and
// whoever finds that out goes on to the cache. A key that shares its place with another
// is found there too.
type front struct {
	seed   maphash.Seed
	places [frontPlaces]atomic.Pointer[record]
}

// frontPlaces is twice the records kept without a holder, so that few busy keys share a place.
const frontPlaces = 2 * maxIdle

func newFront() *front { return &front{seed: maphash.MakeSeed()} }

func (f *front) place(key tierlock.Key) *atomic.Pointer[record] {
	return &f.places[maphash.String(f.seed, key.String())%frontPlaces]
}

// record is what key has; nil: nothing that is known here or in the cache.
func (t *Table) record(key tierlock.Key) *record {
	place := t.front.place(key)
	if r := place.Load(); r != nil && r.key == key {
		return r
	}
	r, found := t.records.GetIfPresent(key)
	if !found {
		return nil
	}
	place.Store(r)
	return r
}

// gone takes note that r is dead.
func (f *front) gone(r *record) { f.place(r.key).CompareAndSwap(r, nil) }
