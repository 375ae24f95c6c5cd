package reconcile

import (
	"math"
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
	lines     map[tierlock.Key]*line
	open      int // holds in them
	feeds     feeds

	told  map[string]told // overlap findings that have been given out, by id
	lacks map[string]bool // producers that provisional ones of them wait for

	next      int64     // offset after the last record
	resume    int64     // nothing is judged or late below
	floor     time.Time // groups that began before are judged
	horizon   time.Time // of the last judgement
	stretch   time.Duration
	spent     []spent
	low       int64     // no hold, open or spent, has an older record
	lowAt     time.Time // the mark that low was looked for
	doubts    int       // of told
	caught    bool
	asOf      time.Time // when nothing was unread last
	lateSince time.Time // a late event waits for a reread since; zero: none
	lateKeys  map[tierlock.Key]bool
	marked    Mark // last committed
	markedAt  time.Time
}

// spent is a judged hold, kept while an older group is open.
type spent struct {
	offset int64
	end    time.Time
}

func newWindow(rule *Rule, m Mark) *window {
	return &window{
		rule: rule, partition: m.Partition, lines: map[tierlock.Key]*line{}, feeds: newFeeds(m.Partition), told: map[string]told{}, lacks: map[string]bool{},
		next: m.Offset, resume: m.Read, floor: m.Judged, horizon: m.Judged, stretch: rule.DefaultError, marked: m, low: math.MaxInt64,
	}
}

// reread forgets everything but where the late event stood and what has been told; that
// is in doubt until it is found again.
func (w *window) reread() {
	fresh := newWindow(w.rule, Mark{Partition: w.partition, Read: w.next})
	fresh.asOf, fresh.marked, fresh.markedAt, fresh.told = w.asOf, w.marked, w.markedAt, w.told
	fresh.feeds.keep(&w.feeds)
	fresh.feeds.before = w.feeds.heard()
	for id, t := range fresh.told {
		t.doubt = true
		fresh.told[id] = t
	}
	fresh.doubts = len(fresh.told)
	*w = *fresh
}

// shrink begins anew after the stream was cut to end: its offsets from there on mean other
// records now. What was told stands, since events that are gone disprove nothing; what was
// committed says nothing of the stream as it is.
func (w *window) shrink(end int64) {
	fresh := newWindow(w.rule, Mark{Partition: w.partition, Read: end})
	fresh.asOf, fresh.told = w.asOf, w.told
	fresh.feeds.keep(&w.feeds)
	fresh.lacks = w.lacks
	for id, t := range fresh.told {
		t.doubt = false
		fresh.told[id] = t
	}
	*w = *fresh
}

func (w *window) noteLate(key tierlock.Key, now time.Time) {
	w.again(now)
	if w.lateKeys == nil {
		w.lateKeys = map[tierlock.Key]bool{}
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

// learn takes note of a finding and tells whether it is new or has changed, and which
// others, smaller ones that were given out before, it has taken in.
func (w *window) learn(f *Finding) (isNew bool, swallowed []string) {
	was, known := w.told[f.ID]
	if was.doubt {
		w.doubts--
	}
	f.Revision = w.next
	w.told[f.ID] = told{finding: f.shell()}
	if known && was.finding.Digest == f.Digest {
		return false, nil
	}
	for _, id := range f.Supersedes() {
		if old, known := w.told[id]; known {
			if old.doubt {
				w.doubts--
			}
			delete(w.told, id)
			swallowed = append(swallowed, id)
		}
	}
	return true, swallowed
}

// others are what is to be told beside the overlaps found: gaps, and overlaps that a late
// event has shown to be none.
func (w *window) others() []Finding {
	out := w.feeds.out
	w.feeds.out = nil
	if w.doubts == 0 || w.next < w.resume {
		return out
	}
	for id, t := range w.told {
		if t.doubt && w.decided(&t.finding) {
			t.finding.State, t.finding.Digest, t.finding.Revision = StateWithdrawn, "", w.next
			delete(w.told, id)
			w.doubts--
			out = append(out, t.finding)
		}
	}
	return out
}

// decided tells whether every hold that could make f a finding again has been judged.
func (w *window) decided(f *Finding) bool {
	to := f.To.Add(w.stretch)
	if to.After(w.horizon) {
		return false
	}
	l := w.lines[f.Key]
	return l == nil || l.opens.After(to)
}

// absorb takes one event of a hold and tells whether it came too late to be judged with
// its group.
func (w *window) absorb(ev *audit.Event, offset int64) (late bool) {
	l := w.lines[ev.Key]
	if l == nil {
		l = &line{}
		w.lines[ev.Key] = l
	}
	h := l.find(ev.Holder, ev.GrantedAt)
	unknown := h == nil
	if unknown {
		h = &hold{offset: offset, Interval: Interval{Key: ev.Key, Holder: ev.Holder, GrantedAt: ev.GrantedAt}}
		if len(l.holds) > 0 { // its key is there already
			h.Key = l.holds[0].Key
		}
		l.add(h)
		w.open++
	}
	h.take(ev)
	h.settle(w.feeds.gone)
	h.offset = min(h.offset, offset)
	w.low = min(w.low, offset)
	w.stretch = max(w.stretch, w.rule.margin(&h.Interval))
	l.note(w.rule, h)
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

// judge returns every group of two or more that the horizon has passed, by first grant, and
// forgets all that it has passed. complete tells whether all that will ever come has come.
func (w *window) judge(lateness time.Duration, complete bool) (found []group, judged int) {
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
	if !horizon.After(w.horizon) && !w.feeds.moved {
		return nil, 0 // nothing more is over
	}
	if horizon.After(w.horizon) {
		w.horizon = horizon
	}
	if w.feeds.moved {
		w.feeds.moved = false
		for _, l := range w.lines { // an end that nobody told may be nearer than it was
			l.due, l.left = w.horizon, 0
		}
	}
	oldest := w.horizon
	for key, l := range w.lines {
		if complete || l.worthwhile(w.horizon) {
			had := len(l.holds)
			for _, g := range l.sweep(w) {
				judged += len(g.members)
				if len(g.members) > 1 && !w.rule.start(g.members[0]).Before(w.floor) {
					found = append(found, g)
				}
			}
			w.open += len(l.holds) - had
			if len(l.holds) == 0 {
				delete(w.lines, key)
				continue
			}
		}
		if l.opens.Before(oldest) {
			oldest = l.opens
		}
	}
	if oldest.After(w.floor) {
		w.floor = oldest
	}
	slices.SortFunc(found, func(a, b group) int { return before(a.members[0], b.members[0]) })
	return found, judged
}

// spend remembers where a judged hold's record stands.
func (w *window) spend(h *hold) {
	w.spent = append(w.spent, spent{offset: h.offset, end: w.rule.end(&h.Interval)})
}

// mark tells where a restart may begin. pinned bounds it where repairs are still due.
func (w *window) mark(pinned time.Time) Mark {
	judged := w.floor
	if !pinned.IsZero() && pinned.Before(judged) {
		judged = pinned
	}
	if !judged.Equal(w.lowAt) {
		w.seek(judged)
	}
	return Mark{Partition: w.partition, Offset: min(w.next, w.feeds.anchor(w.next), w.low), Judged: judged, Read: w.next}
}

// seek finds the oldest record of any hold that is open or reaches beyond judged. Until
// judged moves it can only become newer, so that what was found stays safe.
func (w *window) seek(judged time.Time) {
	w.lowAt, w.low = judged, math.MaxInt64
	keep := w.spent[:0]
	for _, s := range w.spent {
		if s.end.After(judged) {
			keep = append(keep, s)
			w.low = min(w.low, s.offset)
		}
	}
	w.spent = keep
	for _, l := range w.lines {
		for _, h := range l.holds {
			w.low = min(w.low, h.offset)
		}
	}
}
