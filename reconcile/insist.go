package reconcile

import (
	"context"
	"time"
)

// put stores a finding everywhere, however long that takes: nothing is committed before.
func (j *Job) put(ctx context.Context, f Finding) error {
	for _, store := range j.cfg.Findings {
		err := j.insist(ctx, "store_finding", func(ctx context.Context) error { return store.Put(ctx, f) })
		if err != nil {
			return err
		}
	}
	j.count(func(b *books) { b.finding(&f) })
	return nil
}

// deadLetter puts a record that is no event aside.
func (j *Job) deadLetter(ctx context.Context, r *Record, reason error) error {
	j.count(func(b *books) { b.stats.Malformed++ })
	j.cfg.Logger.WarnContext(ctx, "record is no event", "partition", r.Partition, "offset", r.Offset, "error", reason)
	if j.cfg.DeadLetter == nil {
		return nil
	}
	return j.insist(ctx, "write_dead_letter", func(ctx context.Context) error { return j.cfg.DeadLetter(ctx, *r, reason) })
}

// insist repeats do until it succeeds or ctx ends, waiting from 100 ms up to 5 s between. Each
// try ends with Config.StoreTimeout.
func (j *Job) insist(ctx context.Context, what string, do func(context.Context) error) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := j.patience.ask(ctx, what, do)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		j.cfg.Logger.ErrorContext(ctx, "step failed, trying again", "step", what, "wait", wait, "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}
