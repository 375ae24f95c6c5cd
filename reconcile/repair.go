package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tierlock/tierlock"
)

// errNotNow says that no case can be worked on now.
var errNotNow = errors.New("reconcile: not now")

// due is a finding whose cases are not all done.
type due struct {
	finding   Finding
	partition int
	cases     []Case
	next      int // the case it is at
	tries     int // of that case
	notBefore time.Time
}

// casesOf lists the losing holds of a finding: per business record every hold but the one
// that was granted first; where only one hold names a record, that one.
func casesOf(f *Finding, hooks map[string]Hook) []Case {
	type record struct{ kind, id string }
	first := map[record]int{}
	count := map[record]int{}
	for i := range f.Members {
		b := &f.Members[i].Business
		if _, hooked := hooks[b.Type]; !hooked {
			continue
		}
		r := record{b.Type, b.ID}
		if count[r] == 0 {
			first[r] = i
		}
		count[r]++
	}
	var cases []Case
	for i := range f.Members {
		m := &f.Members[i]
		r := record{m.Business.Type, m.Business.ID}
		hook, hooked := hooks[r.kind]
		if !hooked || first[r] == i && count[r] > 1 || i < f.Carried {
			continue
		}
		action := or(hook.Action, "repair")
		cases = append(cases, Case{
			ID:     repairKey(m, action),
			Action: action, Finding: *f, Loser: *m, Business: m.Business,
		})
	}
	return cases
}

// repairKey names a repair by what it gives back, and by nothing that the rule decides: see
// [Case.ID]. The losing hold is named by its holder and grant, which are the same whichever
// of its events is lost.
func repairKey(loser *Interval, action string) string {
	return hashOf("tierlock.repair", []string{
		loser.Business.Type, loser.Business.ID, action, loser.Key.String(), loser.Holder, stamp(loser.GrantedAt),
	})
}

// repairer works cases off, one at a time, within the caps.
type repairer struct {
	cfg      *Config
	queue    []*due
	applied  []time.Time // in the last minute
	total    int
	results  []bool // of the last 100 cases: true is failed
	stopped  bool
	failures int
}

// add puts a finding in line, in place of an older revision of it.
func (r *repairer) add(f Finding, partition int) {
	r.remove(f.ID)
	if cases := casesOf(&f, r.cfg.Hooks); len(cases) > 0 {
		r.queue = append(r.queue, &due{finding: f, partition: partition, cases: cases})
	}
}

// remove takes a finding out of line.
func (r *repairer) remove(id string) {
	r.queue = slices.DeleteFunc(r.queue, func(d *due) bool { return d.finding.ID == id })
}

// drop forgets the findings of a partition that is not ours any more: its new owner finds
// them again, since nothing behind them was committed.
func (r *repairer) drop(partition int) {
	r.queue = slices.DeleteFunc(r.queue, func(d *due) bool { return d.partition == partition })
}

// pinned is the start of the oldest finding of partition that is still due.
func (r *repairer) pinned(partition int) time.Time {
	var oldest time.Time
	for _, d := range r.queue {
		if d.partition != partition {
			continue
		}
		for i := range d.finding.Members {
			if s := r.cfg.Rule.start(&d.finding.Members[i]); oldest.IsZero() || s.Before(oldest) {
				oldest = s
			}
		}
	}
	return oldest
}

// work does up to most cases that may be done now, and tells which findings have changed.
// ready tells whether a chain is quiet enough to be repaired.
func (r *repairer) work(ctx context.Context, most int, ready func(chain string) bool) (changed []Finding) {
	now := time.Now()
	for _, d := range slices.Clone(r.queue) {
		if most <= 0 || ctx.Err() != nil {
			break
		}
		if d.notBefore.After(now) {
			continue
		}
		had := len(d.finding.Repairs)
		for most > 0 && ctx.Err() == nil && d.next < len(d.cases) {
			most--
			if !r.one(ctx, d, ready) {
				break
			}
		}
		if len(d.finding.Repairs) == had {
			continue
		}
		d.finding.State = stateOf(&d.finding, d.next < len(d.cases))
		changed = append(changed, d.finding)
	}
	r.queue = slices.DeleteFunc(r.queue, func(d *due) bool { return d.next >= len(d.cases) })
	return changed
}

// one works on the case d is at and tells whether it is done with.
func (r *repairer) one(ctx context.Context, d *due, ready func(chain string) bool) bool {
	c := d.cases[d.next]
	repair, err := r.attempt(ctx, c, ready)
	switch {
	case errors.Is(err, errNotNow):
		d.notBefore = time.Now().Add(r.cfg.Tick)
		return false
	case err != nil && ctx.Err() != nil:
		return false // we were told to stop: it has not failed
	case err != nil:
		d.tries++
		r.count(true)
		r.cfg.Logger.WarnContext(ctx, "repair failed", "finding", d.finding.ID, "repair", c.ID, "tries", d.tries, "error", err)
		if d.tries < r.cfg.Caps.Tries {
			d.notBefore = time.Now().Add(r.cfg.Tick << d.tries)
			return false
		}
		repair.Result, repair.Error = ResultFailed, err.Error()
	default:
		r.count(false)
	}
	d.finding.Repairs = append(d.finding.Repairs, repair)
	d.next, d.tries = d.next+1, 0
	return true
}

// attempt checks a case and, where something is wrong and may be repaired, repairs it.
func (r *repairer) attempt(ctx context.Context, c Case, ready func(chain string) bool) (Repair, error) {
	hook := r.cfg.Hooks[c.Business.Type]
	out := Repair{Key: c.ID, Loser: c.Loser.Event, Result: ResultClean}
	wrong, err := hook.Check.Check(ctx, c)
	if err != nil {
		return out, err
	}
	if out.Wrong = wrong; wrong <= 0 {
		out.Wrong = 0
		return r.cleanOrAlready(ctx, hook, c, out)
	}
	if !r.cfg.Apply || hook.Repair == nil {
		out.Result = ResultWould
		return out, nil
	}
	if !r.allowed() || !ready(c.Finding.Chain) {
		return out, errNotNow
	}
	err = r.cfg.Locker.DoShared(ctx, c.Loser.Key, func(ctx context.Context, g tierlock.Grant) error {
		if g.Tier != tierlock.Shared {
			return errNotNow
		}
		c.Grant = g
		var err error
		out.Result, err = hook.Repair.Repair(ctx, c)
		return err
	})
	if errors.Is(err, tierlock.ErrHeld) || errors.Is(err, tierlock.ErrTimeout) || errors.Is(err, tierlock.ErrSystem) {
		return out, errNotNow // the lock, not the repair: the holder goes on first
	}
	if err == nil && out.Result == ResultApplied {
		r.applied = append(r.applied, time.Now())
		r.total++
	}
	return out, err
}

func (r *repairer) cleanOrAlready(ctx context.Context, hook Hook, c Case, out Repair) (Repair, error) {
	memory, remembers := hook.Repair.(Rememberer)
	if !remembers {
		return out, nil
	}
	applied, err := memory.Applied(ctx, c)
	if applied {
		out.Result = ResultAlready
	}
	return out, err
}

// allowed tells whether the caps leave room for one more repair.
func (r *repairer) allowed() bool {
	if r.stopped {
		return false
	}
	minute := time.Now().Add(-time.Minute)
	r.applied = slices.DeleteFunc(r.applied, func(t time.Time) bool { return !t.After(minute) })
	if r.cfg.Caps.Total > 0 && r.total >= r.cfg.Caps.Total {
		r.stopped = true
		r.cfg.Logger.Error("repairs stopped: total cap reached", "total", r.total)
		return false
	}
	return len(r.applied) < r.cfg.Caps.PerMinute
}

// count keeps the last 100 results and stops all repairs when too many of them failed: then
// the hook is wrong, not the data.
func (r *repairer) count(failed bool) {
	const window, enough = 100, 20
	if len(r.results) == window {
		r.results = r.results[1:]
	}
	r.results = append(r.results, failed)
	if failed {
		r.failures++
	}
	bad := 0
	for _, f := range r.results {
		if f {
			bad++
		}
	}
	if len(r.results) >= enough && float64(bad) > r.cfg.Caps.FailureRatio*float64(len(r.results)) && !r.stopped {
		r.stopped = true
		r.cfg.Logger.Error("repairs stopped: too many failed", "failed", bad, "of", len(r.results))
	}
}

// stateOf sums the results of a finding's cases up.
func stateOf(f *Finding, more bool) State {
	has := func(want ...Result) bool {
		return slices.ContainsFunc(f.Repairs, func(r Repair) bool { return slices.Contains(want, r.Result) })
	}
	switch {
	case more:
		return StateOpen
	case has(ResultFailed):
		return StateFailed
	case has(ResultApplied, ResultAlready):
		return StateRepaired
	case has(ResultWould):
		return StateDryRun
	}
	return StateClean
}
