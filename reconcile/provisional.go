package reconcile

import (
	"context"
	"slices"
	"time"
)

// hole is a stretch of time of which a producer may have more to tell.
type hole struct {
	producer string // "": of any
	from, to time.Time
}

// Absentees is a [Findings] that can tell what it has stored as missing. When a partition
// is assigned, the job asks it, so that a restart knows who was silent and which seqs have
// not come. Without one, a restart takes findings for final that those may still change.
type Absentees interface {
	// Missing are the gaps and silences of a partition that stand, not withdrawn. An error
	// makes the job try again.
	Missing(ctx context.Context, partition int) ([]Finding, error)
}

// missing asks the stores what an earlier life of the job has found missing.
func (j *Job) missing(ctx context.Context, w *window) error {
	for _, store := range j.cfg.Findings {
		memory, remembers := store.(Absentees)
		if !remembers {
			continue
		}
		err := j.insist(ctx, "recall_missing", func(ctx context.Context) error {
			stored, err := memory.Missing(ctx, w.partition)
			for i := range stored {
				w.feeds.recall(stored[i])
				if gap := stored[i].Gap; gap != nil {
					w.lacks[gap.Producer] = true // as that life may have told
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// recall takes in what an earlier life has told as missing.
func (fs *feeds) recall(f Finding) {
	if _, told := fs.reported[f.ID]; told || f.Gap == nil {
		return
	}
	fs.reported[f.ID] = f
	if f.Kind == KindSilent {
		if was, known := fs.away[f.Gap.Producer]; !known || was.Gap.At.Before(f.Gap.At) {
			fs.away[f.Gap.Producer] = f
		}
		return
	}
	if f.Gap.Cause != causePartitions { // of other keys than this partition's
		fs.holes[f.ID] = hole{f.Gap.Producer, f.From, f.To}
	}
	if f.Gap.Cause == causeSequence {
		fs.missed[seqOf{f.Gap.Producer, f.Gap.From}] = true
	}
}

// lacking are the producers that may have more to tell of holds between from and to, and
// whether anything may be missing there: nobody knows whose events retention took. all
// counts producers too that are waited for, since nothing is read any more.
func (fs *feeds) lacking(from, to time.Time, all bool) (producers []string, lacks bool) {
	note := func(producer string) {
		if lacks = true; producer != "" {
			producers = append(producers, producer)
		}
	}
	for name, f := range fs.away {
		if !f.Gap.At.After(to) {
			note(name)
		}
	}
	for _, h := range fs.holes {
		if !h.from.After(to) && !h.to.Before(from) {
			note(h.producer)
		}
	}
	for name, f := range fs.by {
		if all && !f.closed && !f.mark.After(to) {
			note(name)
		}
		for _, h := range f.awaited {
			if !h.from.After(to) && !h.to.Before(from) {
				note(name)
			}
		}
	}
	slices.Sort(producers)
	return slices.Compact(producers), lacks
}

// keep takes over what outlives a second reading of the partition.
func (fs *feeds) keep(was *feeds) {
	fs.reported, fs.missed, fs.out, fs.holes, fs.away = was.reported, was.missed, was.out, was.holes, was.away
}

// qualify marks an overlap as provisional where what has been read may not be all of it.
func (w *window) qualify(f *Finding, complete bool) {
	slack := w.stretch + resolution
	f.Awaited, f.Provisional = w.feeds.lacking(f.From.Add(-slack), f.To.Add(slack), complete)
	if !f.Provisional {
		return
	}
	for _, name := range f.Awaited {
		w.lacks[name] = true
	}
	f.Digest = idOf(append([]string{f.Digest, "provisional"}, f.Awaited...)...)
}

// revisit has the partition read once more when a producer has told what a provisional
// finding was waiting for: it is final then, or another one.
func (w *window) revisit(now time.Time) {
	for name := range w.feeds.back {
		if w.lacks[name] && w.next >= w.resume {
			w.again(now)
		}
	}
	clear(w.feeds.back)
}
