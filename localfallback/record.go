package localfallback

import (
	"slices"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
)

const (
	// linger is how long the cache keeps a record past its last holder's end. A busy key
	// then moves its record's expiry once a second, not on each grant.
	linger = time.Second
	// maxIdle bounds the records kept without a holder. Making and dropping a record costs
	// more than twice what the rest of an acquire and release does (measured).
	maxIdle = 4096
)

// holder is one permit taken.
type holder struct {
	id      tierlock.RequestID
	until   moment   // its hard end
	alone   bool     // was told that nobody else is in, and stays so whatever Permits becomes
	entries []uint64 // into its hold; nil: the acquisition's own alone
}

// depth counts the entries.
func (h *holder) depth() int {
	if h.entries == nil {
		return 1
	}
	return len(h.entries)
}

// enter adds an entry; a repeat adds nothing.
func (h *holder) enter(entry uint64) {
	switch {
	case h.entries == nil && entry == 0:
	case h.entries == nil:
		h.entries = []uint64{0, entry}
	case !slices.Contains(h.entries, entry):
		h.entries = append(h.entries, entry)
	}
}

// leave takes an entry out, if it is in, and tells whether none is left.
func (h *holder) leave(entry uint64) (last bool) {
	if h.entries == nil {
		return entry == 0
	}
	h.entries = slices.DeleteFunc(h.entries, func(e uint64) bool { return e == entry })
	return len(h.entries) == 0
}

// record is all that is known of one key. It is locked for some dozen instructions at a
// time, after the cache's bucket lock where both are needed and never before it.
type record struct {
	key tierlock.Key // never changes

	mu      sync.Mutex // guards all below
	dead    bool       // has left the cache, or is about to: look the key up again
	holders []holder
	counted bool          // in Table.live
	expires moment        // when the cache may drop the record
	wake    chan struct{} // closed when a permit is given back; nil while nobody waits
}

// prune drops the holders whose end has come.
func (r *record) prune(now moment) {
	live := r.holders[:0]
	for _, h := range r.holders {
		if h.until > now {
			live = append(live, h)
		}
	}
	r.holders = live
}

// find returns id's place among the holders, or -1.
func (r *record) find(id tierlock.RequestID) int {
	for i := range r.holders {
		if r.holders[i].id == id {
			return i
		}
	}
	return -1
}

// closed tells whether the holders of a pruned record keep every newcomer out.
func (r *record) closed(permits int) bool {
	return len(r.holders) >= permits || len(r.holders) > 0 && r.holders[0].alone
}

// first returns the holder that ends first; there must be one.
func (r *record) first() *holder {
	first := &r.holders[0]
	for i := range r.holders {
		if r.holders[i].until < first.until {
			first = &r.holders[i]
		}
	}
	return first
}

// last is when the last holder ends; 0 without one.
func (r *record) last() (last moment) {
	for i := range r.holders {
		last = max(last, r.holders[i].until)
	}
	return last
}

// add grants id a permit. Alone is decided here, once, for the holder's whole life.
func (r *record) add(id tierlock.RequestID, until moment, permits int) {
	r.holders = append(r.holders, holder{id: id, until: until, alone: permits == 1})
}

// drop takes holder i out and wakes whoever waits for its permit.
func (r *record) drop(i int) {
	end := len(r.holders) - 1
	r.holders[i] = r.holders[end]
	r.holders = r.holders[:end]
	r.rouse()
}

// rouse wakes all who wait. They race for the permit: this is one process, where a lost
// race costs less than a line to stand in.
func (r *record) rouse() {
	if r.wake != nil {
		close(r.wake)
		r.wake = nil
	}
}

// held is the answer to those who are kept out: when the holder that ends first ends, and
// who that is.
func (r *record) held(now moment) (tierlock.Answer, tierlock.RequestID) {
	first := r.first()
	return tierlock.Answer{Status: tierlock.Held, Remaining: time.Duration(first.until - now)}, first.id
}
