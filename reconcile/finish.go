package reconcile

import (
	"context"
	"time"
)

// finishPatience is how long the end of a stream waits for what may pass, since the last case
// that was done or found to have to wait: a lock that somebody holds, a database that comes back. All tries of a case whose hook
// fails at once fit into it: see pause.
const finishPatience = time.Minute

// finish is the last step, unless a late event makes a partition come again.
func (j *Job) finish(ctx context.Context) (again bool, err error) {
	for _, w := range j.windows {
		w.caught, w.asOf = true, time.Now()
		if w.lateSince.IsZero() {
			continue
		}
		if _, err := j.reread(ctx, w, time.Now()); err != nil {
			return false, err
		}
		again = true
	}
	if again {
		return true, nil
	}
	if err := j.workOff(ctx); err != nil || ctx.Err() != nil {
		return false, err
	}
	for _, w := range j.windows { // what had no room in line comes once more
		if !j.repairs.hungry(w.partition) {
			continue
		}
		w.again(time.Now())
		if _, err := j.reread(ctx, w, time.Now()); err != nil {
			return false, err
		}
		again = true
	}
	return again, nil
}

// workOff does all cases that can be done when no more records come. What only more of them,
// people or a new minute of the caps could bring is left.
func (j *Job) workOff(ctx context.Context) error {
	j.repairs.hurry()
	for since, reached := time.Now(), j.repairs.reached(); ; {
		began, tried := time.Now(), j.repairs.tried
		if err := j.step(ctx, true); err != nil {
			return err
		}
		if worker, is := j.cfg.Source.(Worker); is {
			worker.Working()
		}
		if r := j.repairs.reached(); r != reached {
			since, reached = time.Now(), r
		}
		next, hope := j.repairs.hope()
		vain := j.repairs.tried == tried && !next.After(began) // it could have been tried, and was not
		if now := time.Now(); next.Before(now) {               // there was no time for it
			next = now
		}
		if !hope || vain || ctx.Err() != nil || next.Sub(since) > finishPatience {
			return nil //nolint:nilerr // to be told to stop is no fault
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
	}
}

// reached is how far the end of a stream has come: by cases that are done, and by those that
// are known to have to wait. A case that fails is neither, tried or not.
func (r *repairer) reached() int { return r.done + r.early }
