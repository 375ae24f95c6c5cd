package reconcile

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// Gather puts events together into holds, as a job does, for whoever wants to look at the
// holds of a few keys. It keeps all it is given. The zero Gather is ready; it is not safe
// for concurrent use.
type Gather struct{ lines map[tierlock.Key]*line }

// Take takes an event of a hold, in any order and as often as wanted; markers are passed
// over.
func (g *Gather) Take(ev *audit.Event) {
	if ev.Type.Marker() {
		return
	}
	if g.lines == nil {
		g.lines = map[tierlock.Key]*line{}
	}
	l := g.lines[ev.Key]
	if l == nil {
		l = &line{}
		g.lines[ev.Key] = l
	}
	h := l.find(ev.Holder, ev.GrantedAt)
	if h == nil {
		h = &hold{Interval: Interval{Key: ev.Key, Holder: ev.Holder, GrantedAt: ev.GrantedAt}}
		l.add(h)
	}
	h.take(ev)
}

// Holds lists what was gathered, by grant. Where no end was told, Latest is the longest
// that the hold may have lasted: nothing here knows whether its process lived on.
func (g *Gather) Holds() []Interval {
	lives := func(string, uint64) (time.Time, bool) { return time.Time{}, false }
	var out []Interval
	for _, l := range g.lines {
		for _, h := range pairUp(slices.Clone(l.holds)) {
			h.settle(lives)
			out = append(out, h.Interval)
		}
	}
	slices.SortFunc(out, func(a, b Interval) int {
		return cmp.Or(before(&a, &b), cmp.Compare(a.Key.String(), b.Key.String()))
	})
	return out
}
