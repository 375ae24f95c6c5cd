package reconcile

import (
	"context"
	"time"
)

// reread begins a partition anew when a late event has come. It waits for the rest of what
// is late with it: until nothing more is there to be read, or for a tick.
func (j *Job) reread(ctx context.Context, w *window, now time.Time) (again bool, err error) {
	if w.lateSince.IsZero() {
		return false, nil
	}
	if !w.caught && now.Sub(w.lateSince) < j.cfg.Tick {
		return true, nil
	}
	j.cfg.Logger.WarnContext(ctx, "late event, partition is read again", "partition", w.partition, "until_offset", w.next)
	if err := j.cfg.Source.Rewind(ctx, w.partition); err != nil {
		return false, err
	}
	if err := j.recall(ctx, w); err != nil {
		return false, err
	}
	w.reread()
	j.count(func(b *books) { b.reread(w.partition) })
	return true, nil
}

// recall asks the stores for what they have of the late events' keys: all else is found
// again as it was.
func (j *Job) recall(ctx context.Context, w *window) error {
	for _, store := range j.cfg.Findings {
		memory, remembers := store.(Recaller)
		if !remembers {
			continue
		}
		for key := range w.lateKeys {
			err := j.insist(ctx, "recall_findings", func(ctx context.Context) error {
				stored, err := memory.Standing(ctx, key)
				w.recall(stored)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// judge stores what a window has found.
func (j *Job) judge(ctx context.Context, w *window, complete bool) error {
	if w.caught {
		w.feeds.silence(w.asOf, j.cfg.Idle)
	}
	found, judged := w.judge(j.cfg.Lateness, complete)
	w.feeds.miss(w.horizon)
	w.feeds.settle(w.horizon)
	for i := range found {
		for f := range found[i].findings(w.rule) {
			w.qualify(&f, complete)
			if err := j.tell(ctx, w, f); err != nil {
				return err
			}
		}
		found[i] = group{} // its holds are not needed any more
	}
	for _, f := range w.others() {
		if err := j.put(ctx, f); err != nil {
			return err
		}
		j.repairs.remove(f.ID)
	}
	j.count(func(b *books) { b.stats.Holds += uint64(judged) })
	return nil
}

// tell stores an overlap that is new or has changed, and puts its cases in line.
func (j *Job) tell(ctx context.Context, w *window, f Finding) error {
	isNew, swallowed := w.learn(&f)
	if !isNew {
		return nil
	}
	if err := j.put(ctx, f); err != nil {
		return err
	}
	if !j.repairs.add(f, w.partition) {
		delete(w.told, f.ID) // it has to be found again
	}
	w.forget(mostTold)
	for _, id := range swallowed {
		j.repairs.remove(id)
		j.count(func(b *books) { b.supersede(id) })
	}
	return nil
}

// ready tells whether a chain may be repaired now.
func (j *Job) ready(chain string) bool {
	known := time.Now() // up to when nothing was unread anywhere
	for _, w := range j.windows {
		if !w.caught || w.next < w.resume || !w.lateSince.IsZero() {
			return false // what producers say now has not been read yet
		}
		if w.asOf.Before(known) {
			known = w.asOf
		}
	}
	if j.cfg.SwitchOn != nil && j.cfg.SwitchOn(chain) {
		return false
	}
	return j.fleet.quiet(chain, j.cfg.Quiet, j.cfg.Idle, known)
}

// commit moves restart points on; it never takes one back. While there is much to read a
// tick passes between two commits of a partition: each is a question to the broker.
func (j *Job) commit(ctx context.Context, now time.Time, complete bool) error {
	for _, w := range j.windows {
		if w.next < w.resume || !w.lateSince.IsZero() || !w.caught && !complete && now.Sub(w.markedAt) < j.cfg.Tick {
			continue
		}
		m := w.mark(j.repairs.pinned(w.partition))
		if m.Offset < w.marked.Offset || m == w.marked {
			continue
		}
		if err := j.cfg.Source.Commit(ctx, m); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // to be told to stop is no fault
			}
			j.cfg.Logger.WarnContext(ctx, "offset not committed", "partition", w.partition, "error", err)
			continue // it comes again with the next step
		}
		w.marked, w.markedAt = m, now
	}
	return nil
}
