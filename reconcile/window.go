package reconcile

import (
	"slices"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// window is what is known of one partition: the holds that can still be in a group with
// something to come. A group is judged and forgotten once the horizon has passed all of it:
// nothing that arrives in time can touch it any more.
//
// Where a restart begins is told by three things (see [Mark]).
//   - Judged: every group that began before is judged. It is the horizon, or earlier where
//     an older group is still open.
//   - Offset: the oldest record of any hold, judged or not, that reached beyond Judged. So
//     a hold that begins at Judged or later finds all of its group from Offset on. A group
//     whose oldest holds lie below Offset shows itself: what is left of it begins before
//     Judged, and is not judged again.
//   - Read: what the job had read. Below it, holds that begin before Judged are context;
//     from it on, they are late.
//
// A late event may belong to a group that is forgotten. Then the whole partition is read
// again, and nothing is judged until the place is reached where the late event stood.
type window struct {
	rule      *Rule
	partition int
	keys      map[tierlock.Key][]*hold
	feeds     feeds

	told map[string]told // overlap findings that have been given out, by id

	next      int64     // offset after the last record
	resume    int64     // nothing is judged or late below
	floor     time.Time // groups that began before are judged
	horizon   time.Time // of the last judgement
	stretch   time.Duration
	spent     []spent
	caught    bool
	asOf      time.Time // when nothing was unread last
	lateSince time.Time // a late event waits for a reread since; zero: none
	lateKeys  map[tierlock.Key]bool
	marked    Mark // last committed
}

// spent is a judged hold, kept while an older group is open.
type spent struct {
	offset int64
	end    time.Time
}

func newWindow(rule *Rule, m Mark) *window {
	return &window{
		rule: rule, partition: m.Partition, keys: map[tierlock.Key][]*hold{}, feeds: newFeeds(m.Partition), told: map[string]told{},
		next: m.Offset, resume: m.Read, floor: m.Judged, horizon: m.Judged, stretch: rule.DefaultError, marked: m,
	}
}

// reread forgets everything but where the late event stood and what has been told; that
// is in doubt until it is found again.
func (w *window) reread() {
	fresh := newWindow(w.rule, Mark{Partition: w.partition, Read: w.next})
	fresh.asOf, fresh.marked, fresh.told, fresh.feeds.reported, fresh.feeds.out = w.asOf, w.marked, w.told, w.feeds.reported, w.feeds.out
	for id, t := range fresh.told {
		t.doubt = true
		fresh.told[id] = t
	}
	*w = *fresh
}

func (w *window) noteLate(key tierlock.Key, now time.Time) {
	if w.lateSince.IsZero() {
		w.lateSince, w.lateKeys = now, map[tierlock.Key]bool{}
	}
	w.lateKeys[key] = true
}

// recall takes in findings that an earlier life of the job has given out.
func (w *window) recall(stored []Finding) {
	for _, f := range stored {
		if _, known := w.told[f.ID]; !known {
			w.told[f.ID] = told{finding: f.shell()}
		}
	}
}

// told is a finding that has been given out.
type told struct {
	finding Finding // its shell
	doubt   bool    // the partition is read again, and it has not been found again yet
}

// shell is f without its members: all that is needed to know it again and to withdraw it.
func (f Finding) shell() Finding {
	f.Members, f.Repairs = nil, nil
	return f
}

// news are the findings that are not known yet: overlaps that are new or have changed,
// gaps, and overlaps that a late event has shown to be none. swallowed are those that
// larger ones have taken in.
func (w *window) news(found []Finding) (news []Finding, swallowed []string) {
	news = w.feeds.out
	w.feeds.out = nil
	for _, f := range found {
		was, known := w.told[f.ID]
		f.Revision = w.next
		w.told[f.ID] = told{finding: f.shell()}
		if known && was.finding.Digest == f.Digest {
			continue
		}
		news = append(news, f)
		for _, id := range f.Supersedes() {
			if _, known := w.told[id]; known {
				delete(w.told, id)
				swallowed = append(swallowed, id)
			}
		}
	}
	for id, t := range w.told {
		if t.doubt && w.next >= w.resume && w.decided(&t.finding) {
			t.finding.State, t.finding.Digest, t.finding.Revision = StateWithdrawn, "", w.next
			delete(w.told, id)
			news = append(news, t.finding)
		}
	}
	return news, swallowed
}

// decided tells whether every hold that could make f a finding again has been judged.
func (w *window) decided(f *Finding) bool {
	to := f.To.Add(w.stretch)
	if to.After(w.horizon) {
		return false
	}
	return !slices.ContainsFunc(w.keys[f.Key], func(h *hold) bool { return !w.rule.start(&h.Interval).After(to) })
}

// absorb takes one event of a hold and tells whether it came too late to be judged with
// its group.
func (w *window) absorb(ev *audit.Event, offset int64) (late bool) {
	list := w.keys[ev.Key]
	i := slices.IndexFunc(list, func(h *hold) bool { return h.Holder == ev.Holder && h.GrantedAt.Equal(ev.GrantedAt) })
	unknown := i < 0
	if unknown {
		h := &hold{offset: offset, Interval: Interval{Key: ev.Key, Holder: ev.Holder, GrantedAt: ev.GrantedAt}}
		i = len(list)
		list = append(list, h)
		w.keys[ev.Key] = list
	}
	h := list[i]
	h.take(ev)
	h.offset = min(h.offset, offset)
	w.stretch = max(w.stretch, w.rule.margin(&h.Interval))
	// A hold that is not known, or not any more, may belong to a group that the horizon has
	// passed, above the floor too: an older group that is still open holds the floor down.
	from := w.floor
	if unknown {
		from = w.horizon
	}
	return offset >= w.resume && w.rule.start(&h.Interval).Before(from)
}

// forever is a horizon that passes everything: no more records will ever come.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// judge returns a finding for every group that the horizon has passed, and forgets it.
// complete tells whether all that will ever come has come.
func (w *window) judge(lateness time.Duration, complete bool) (found []Finding, judged int) {
	if w.next < w.resume && !complete {
		return nil, 0
	}
	horizon := forever
	if !complete {
		mark, ok := w.feeds.low(w.asOf, w.caught)
		if !ok {
			return nil, 0
		}
		horizon = mark.Add(-lateness - w.stretch)
	}
	if horizon.After(w.horizon) {
		w.horizon = horizon
	}
	oldest := w.horizon
	for key, list := range w.keys {
		kept, closed := w.close(list)
		for _, g := range closed {
			judged += len(g.members)
			if !w.rule.start(g.members[0]).Before(w.floor) {
				found = append(found, g.findings(w.rule)...)
			}
		}
		if len(kept) == 0 {
			delete(w.keys, key)
			continue
		}
		w.keys[key] = kept
		for _, h := range kept {
			if s := w.rule.start(&h.Interval); s.Before(oldest) {
				oldest = s
			}
		}
	}
	if oldest.After(w.floor) {
		w.floor = oldest
	}
	slices.SortFunc(found, func(a, b Finding) int { return before(&a.Members[0], &b.Members[0]) })
	return found, judged
}

// close splits the holds of one key into those that must wait and the groups that are over.
func (w *window) close(list []*hold) (kept []*hold, closed []group) {
	due := false
	for _, h := range list {
		h.settle(w.feeds.gone)
		due = due || !w.rule.end(&h.Interval).After(w.horizon)
	}
	if !due {
		return list, nil
	}
	list = pairUp(list)
	byInterval := make(map[*Interval]*hold, len(list))
	var sorted []*Interval
	for _, h := range list {
		h.settle(w.feeds.gone)
		byInterval[&h.Interval] = h
		sorted = append(sorted, &h.Interval)
	}
	slices.SortFunc(sorted, before)
	for _, g := range groups(w.rule, w.counted(sorted)) {
		over := !slices.ContainsFunc(g.members, func(iv *Interval) bool { return w.rule.end(iv).After(w.horizon) })
		for _, iv := range g.members {
			h := byInterval[iv]
			if over {
				w.spent = append(w.spent, spent{offset: h.offset, end: w.rule.end(iv)})
			} else {
				kept = append(kept, h)
			}
		}
		if over {
			closed = append(closed, g)
		}
	}
	return kept, closed
}

// counted leaves out tiers the rule ignores.
func (w *window) counted(in []*Interval) []*Interval {
	return slices.DeleteFunc(in, func(iv *Interval) bool { return !w.rule.counts(iv.Tier) })
}

// mark tells where a restart may begin. pinned bounds it where repairs are still due.
func (w *window) mark(pinned time.Time) Mark {
	judged := w.floor
	if !pinned.IsZero() && pinned.Before(judged) {
		judged = pinned
	}
	offset := min(w.next, w.feeds.anchor(w.next))
	keep := w.spent[:0]
	for _, s := range w.spent {
		if s.end.After(judged) {
			keep = append(keep, s)
			offset = min(offset, s.offset)
		}
	}
	w.spent = keep
	for _, list := range w.keys {
		for _, h := range list {
			offset = min(offset, h.offset)
		}
	}
	return Mark{Partition: w.partition, Offset: offset, Judged: judged, Read: w.next}
}
