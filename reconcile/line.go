package reconcile

import "time"

// line are the holds of one key that are not judged yet.
type line struct {
	holds []*hold
	by    map[holdID]*hold // nil while holds are few

	due    time.Time // nothing of it can be over before: the horizon is compared with this alone
	opens  time.Time // earliest stretched start
	closes time.Time // latest stretched end

	sweptAt time.Time // horizon of the last sweep that left holds open
	left    int       // how many it left
}

// holdID names a hold among those of its key.
type holdID struct {
	holder  string
	granted int64 // Unix nanoseconds
}

// few holds are looked through faster than looked up.
const few = 16

// find returns the hold of one event's holder and grant, or nil.
func (l *line) find(holder string, granted time.Time) *hold {
	if l.by != nil {
		return l.by[holdID{holder, granted.UnixNano()}]
	}
	for _, h := range l.holds {
		if h.Holder == holder && h.GrantedAt.Equal(granted) {
			return h
		}
	}
	return nil
}

func (l *line) add(h *hold) {
	l.holds = append(l.holds, h)
	switch {
	case l.by != nil:
		l.by[h.id()] = h
	case len(l.holds) > few:
		l.index()
	}
}

func (h *hold) id() holdID { return holdID{h.Holder, h.GrantedAt.UnixNano()} }

func (l *line) index() {
	l.by = make(map[holdID]*hold, 2*len(l.holds))
	for _, h := range l.holds {
		l.by[h.id()] = h
	}
}

// note brings the line's bounds up to what h has become.
func (l *line) note(rule *Rule, h *hold) {
	if start := rule.start(&h.Interval); l.opens.IsZero() || start.Before(l.opens) {
		l.opens = start
	}
	l.widen(rule.end(&h.Interval))
}

// large is how many open holds make a sweep dear enough to be put off.
const large = 1024

// worthwhile tells whether the line is to be swept now. A key that stays busy can hold one
// group open for very long; sweeping all of it whenever one hold more is over would cost
// the square of its length. So a large line is swept when it has grown by half, when the
// horizon has gone on by half its length, and when all of it is over.
func (l *line) worthwhile(horizon time.Time) bool {
	if l.due.After(horizon) {
		return false
	}
	if len(l.holds) < large || len(l.holds) >= l.left+l.left/2 || !l.closes.After(horizon) {
		return true
	}
	return horizon.Sub(l.sweptAt) >= l.sweptAt.Sub(l.opens)/2
}

// sweep splits the line into groups that are over at the horizon, which it returns, those
// of one hold too, and holds that must wait.
func (l *line) sweep(w *window) (closed []group) {
	for _, h := range l.holds {
		h.settle(w.feeds.gone)
	}
	if len(l.holds) > 1 {
		l.holds = pairUp(l.holds)
		for _, h := range l.holds {
			h.settle(w.feeds.gone)
		}
	}
	intervals := make([]*Interval, len(l.holds))
	for i, h := range l.holds {
		intervals[i] = &h.Interval
	}
	var kept []*hold
	l.due, l.opens, l.closes, l.by = time.Time{}, time.Time{}, time.Time{}, nil
	for _, g := range groups(w.rule, intervals) {
		ends := g.ends(w.rule)
		over := !ends.After(w.horizon)
		if over {
			closed = append(closed, g)
		} else {
			l.widen(ends)
		}
		for i, at := range g.at {
			h := l.holds[at]
			if over {
				w.spend(h)
				continue
			}
			kept = append(kept, h)
			if start := w.rule.start(g.members[i]); l.opens.IsZero() || start.Before(l.opens) {
				l.opens = start
			}
		}
	}
	l.holds = kept
	if len(kept) > few {
		l.index()
	}
	l.sweptAt, l.left = w.horizon, len(kept)
	return closed
}

// widen takes in an end.
func (l *line) widen(end time.Time) {
	if l.due.IsZero() || end.Before(l.due) {
		l.due = end
	}
	if end.After(l.closes) {
		l.closes = end
	}
}

// ends is the latest stretched end of the group.
func (g *group) ends(rule *Rule) (end time.Time) {
	for _, iv := range g.members {
		if e := rule.end(iv); e.After(end) {
			end = e
		}
	}
	return end
}
