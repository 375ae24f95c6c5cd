package reconcile

import (
	"context"
	"slices"
	"time"
)

// mostDecided bounds one question for what people have decided.
const mostDecided = 1000

// Finder is a [Findings] that can tell one finding as it stands, so that what becomes of a
// repair is written into it also when the job that found it is gone. Without one, only the
// approval itself keeps what became of it.
type Finder interface {
	// Find is the stored finding of that id.
	Find(ctx context.Context, id string) (f Finding, found bool, err error)
}

// decisions brings in line what people have decided since, of partitions that are ours. What
// cannot be asked now is asked with the next tick: nothing is lost by it.
func (j *Job) decisions(ctx context.Context, now time.Time, complete bool) {
	if !j.cfg.Apply || j.cfg.Approvals == nil || !complete && now.Sub(j.decidedAt) < j.cfg.Tick {
		return
	}
	if complete { // once more only when something was done: what cannot be settled would come for ever
		if j.decidedDone == j.repairs.done {
			return
		}
		j.decidedDone = j.repairs.done
	}
	j.decidedAt = now
	if approvals, patient := j.cfg.Approvals.(patientApprovals); patient {
		if n, known := approvals.pending(ctx, now); known { // else the next question says what is wrong
			j.count(func(b *books) { b.stats.Pending = n })
		}
	}
	decided, err := j.cfg.Approvals.Decided(ctx, now, mostDecided)
	if err != nil {
		j.cfg.Logger.WarnContext(ctx, "approvals not read, trying again", "error", err)
		return
	}
	for i := range decided {
		a := &decided[i]
		hook, hooked := j.cfg.Hooks[a.Case.Business.Type]
		if !hooked || hook.Repair == nil || hook.Consent.Apply == ApplyNever {
			continue // by the rule of now nothing is repaired; it stands until there is another
		}
		if j.windows[a.Partition] == nil || j.repairs.inLine(a) || j.repairs.weight >= j.repairs.most {
			continue
		}
		f, found, err := j.find(ctx, a.Case.Finding.ID)
		if err != nil {
			j.cfg.Logger.WarnContext(ctx, "finding not read, trying again", "finding", a.Case.Finding.ID, "error", err)
			return
		}
		if found && f.State == StateWithdrawn {
			j.repairs.told = append(j.repairs.told, settlement{a.Case.ID, withdrawn})
			continue
		}
		j.repairs.pushDecided(a, f, found && f.State != StateSuperseded)
	}
}

// withdrawn is the result of a case whose finding has been withdrawn: nothing was done.
const withdrawn = Result(StateWithdrawn)

// find asks the stores for a finding.
func (j *Job) find(ctx context.Context, id string) (Finding, bool, error) {
	for _, store := range j.cfg.Findings {
		finder, finds := store.(Finder)
		if !finds {
			continue
		}
		var f Finding
		var found bool
		err := j.patience.ask(ctx, "find_finding", func(ctx context.Context) (err error) { f, found, err = finder.Find(ctx, id); return err })
		if err != nil || found {
			return f, found, err
		}
	}
	return Finding{}, false, nil
}

// inLine tells whether the case is in line already, or its finding is: then its turn comes
// when that is done with.
func (r *repairer) inLine(a *Approval) bool {
	return slices.ContainsFunc(r.queue, func(d *due) bool {
		return d.finding.ID == a.Case.Finding.ID || slices.ContainsFunc(d.cases[d.next:], func(c Case) bool { return c.ID == a.Case.ID })
	})
}

// pushDecided puts one decided case in line. f is its finding, where it still stands.
func (r *repairer) pushDecided(a *Approval, f Finding, found bool) {
	c := a.Case
	if found {
		c.Finding = f
	} else {
		f = c.Finding
	}
	r.push(&due{finding: f, partition: a.Partition, cases: []Case{c}, bare: !found})
}
