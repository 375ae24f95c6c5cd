package reconcile

import (
	"slices"
	"time"
)

// mostDue bounds the line of a job in memory, in holds of the findings that wait. What has no
// room is left out: its partition is not committed beyond it, and is read again once half
// of the line is done and there is room for some of it.
const mostDue = 50_000

// due is a finding whose cases are not all done.
type due struct {
	finding   Finding
	partition int
	cases     []Case
	opens     time.Time // its earliest start; zero: [Approvals] keeps it until it is settled
	next      int       // the case it is at
	tries     int       // of that case
	last      try       // of that case
	notBefore time.Time
	bare      bool // the finding is not stored as it was any more: its document is left alone
}

// try is how a case was left that is not done.
type try int

const (
	untried try = iota
	putOff      // it is too early for it
	busy        // for a reason that may be gone with the next try, which is no fault of it
	failed      // and which is
)

// shortage is what of a partition had no room in line.
type shortage struct {
	opens time.Time // its earliest start
	least int       // the weight of the lightest
}

// weight is what a due costs in memory, in holds.
func (d *due) weight() int { return len(d.finding.Members) + len(d.cases) }

// add puts a finding in line, in place of an older revision of it. It is false when there
// is no room.
func (r *repairer) add(f Finding, partition int) bool {
	r.remove(f.ID)
	cases := casesOf(&f, r.cfg.Hooks)
	if len(cases) == 0 {
		return true
	}
	d := &due{finding: f, partition: partition, cases: cases}
	for i := range f.Members {
		if s := r.cfg.Rule.start(&f.Members[i]); d.opens.IsZero() || s.Before(d.opens) {
			d.opens = s
		}
	}
	if len(r.queue) > 0 && r.weight+d.weight() > r.most {
		s, has := r.short[partition]
		if !has || d.opens.Before(s.opens) {
			s.opens = d.opens
		}
		if !has || d.weight() < s.least {
			s.least = d.weight()
		}
		r.short[partition] = s
		return false
	}
	r.push(d)
	return true
}

func (r *repairer) push(d *due) {
	r.queue = append(r.queue, d)
	r.weight += d.weight()
}

// drain takes out of line what gone says.
func (r *repairer) drain(gone func(*due) bool) {
	r.queue = slices.DeleteFunc(r.queue, func(d *due) bool {
		if !gone(d) {
			return false
		}
		r.weight -= d.weight()
		return true
	})
}

// remove takes a finding out of line.
func (r *repairer) remove(id string) {
	r.drain(func(d *due) bool { return d.finding.ID == id })
}

// drop forgets the findings of a partition that is not ours any more: its new owner finds
// them again, since nothing behind them was committed.
func (r *repairer) drop(partition int) {
	r.drain(func(d *due) bool { return d.partition == partition })
	delete(r.short, partition)
}

// hurry has everything tried at once that was only too early: nothing more will be read that
// it could wait for. Pauses are those of the end from now on.
func (r *repairer) hurry() {
	r.ending = true
	for _, d := range r.queue {
		if d.tries == 0 || d.last == putOff {
			d.last, d.notBefore = untried, time.Time{}
		} else if latest := time.Now().Add(r.pause(d.tries)); d.notBefore.After(latest) {
			d.notBefore = latest
		}
	}
}

// pause is how long a case waits after so many tries that failed: a tick, and twice as long
// after each. At the end of a stream it is short enough for all that Caps.Tries allows.
func (r *repairer) pause(tries int) time.Duration {
	p := r.cfg.Tick
	for range tries {
		if p > longestPause/2 {
			p = max(p, longestPause)
			break
		}
		p *= 2
	}
	if r.ending {
		p = min(p, finishPatience/time.Duration(max(r.cfg.Caps.Tries, 2)))
	}
	return p
}

// longestPause bounds what doubling makes of the pause between two tries.
const longestPause = 24 * time.Hour

// hope tells when the next case may be tried that might be done then, though nothing more is
// read; false: there is none.
func (r *repairer) hope() (next time.Time, is bool) {
	for _, d := range r.queue {
		if d.last != putOff && (!is || d.notBefore.Before(next)) {
			next, is = d.notBefore, true
		}
	}
	return next, is
}

// hungry tells whether partition has findings that had no room, and there is room now; they
// are forgotten then, and have to be found again. Half of the line must be empty, so that
// finding them is worth it, and hold one of them: what does not fit beside a case that waits
// for long would be found, and left out, for as long.
func (r *repairer) hungry(partition int) bool {
	s, short := r.short[partition]
	if !short || len(r.queue) > 0 && (r.weight > r.most/2 || r.weight+s.least > r.most) {
		return false
	}
	delete(r.short, partition)
	return true
}

// awaits tells whether a case of a business type is left to be worked on.
func (r *repairer) awaits(kind string) bool {
	return slices.ContainsFunc(r.queue, func(d *due) bool {
		return slices.ContainsFunc(d.cases[d.next:], func(c Case) bool { return c.Business.Type == kind })
	})
}

// pinned is the start of the oldest finding of partition that is still due and is kept
// nowhere else. What waits for people is: it pins nothing.
func (r *repairer) pinned(partition int) time.Time {
	oldest := r.short[partition].opens
	for _, d := range r.queue {
		if d.partition == partition && !d.opens.IsZero() && (oldest.IsZero() || d.opens.Before(oldest)) {
			oldest = d.opens
		}
	}
	return oldest
}

// stepBack puts those that were tried, and are not done, behind all that were not: what waits
// for long would else keep everything that stands behind it waiting as long.
func (r *repairer) stepBack(tried []*due) {
	left := make(map[*due]bool, len(tried))
	for _, d := range tried {
		left[d] = d.next < len(d.cases)
	}
	r.queue = slices.DeleteFunc(r.queue, func(d *due) bool { return left[d] })
	for _, d := range tried {
		if left[d] {
			r.queue = append(r.queue, d)
		}
	}
}
