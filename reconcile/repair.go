package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tierlock/tierlock"
)

// errNotNow says that a case cannot be worked on now, errBusy that this may be over soon
// without a record more: somebody holds the lock, or a store does not answer.
var (
	errNotNow = errors.New("reconcile: not now")
	errBusy   = fmt.Errorf("%w: busy", errNotNow)
)

// casesOf lists the losing holds of a finding: per business record every hold but the one
// that was granted first; where only one hold names a record, that one. A hold whose work was
// rolled back neither wins nor loses.
func casesOf(f *Finding, hooks map[string]Hook) []Case {
	if f.State == StateHarmless {
		return nil
	}
	type record struct{ kind, id string }
	first := map[record]int{}
	count := map[record]int{}
	for i := range f.Members {
		b := &f.Members[i].Business
		if _, hooked := hooks[b.Type]; !hooked || f.Members[i].undone() {
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
		if !hooked || m.undone() || first[r] == i && count[r] > 1 || i < f.Carried {
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
	weight   int              // of the queue
	most     int              // bound of weight
	short    map[int]shortage // by partition
	budget   budget
	calls    calls
	patience *patience
	ending   bool         // nothing more will be read, unless something is read again
	tried    int          // cases, as often as they were
	early    int          // cases that were found to be too early when they were tried first
	done     int          // cases; of those that people have decided the ones that are settled: others come again
	told     []settlement // of decided cases, to be written down once their findings are stored
}

// settlement is what has become of a decided case.
type settlement struct {
	key    string
	result Result
}

func newRepairer(cfg *Config) repairer {
	return repairer{cfg: cfg, most: mostDue, short: map[int]shortage{}, budget: budget{cfg: cfg}, calls: newCalls()}
}

// work does up to most cases that may be done now, and tells which findings have changed.
// ready tells whether a chain is quiet enough to be repaired.
func (r *repairer) work(ctx context.Context, most int, ready func(chain string) bool) (changed []Finding) {
	now := time.Now()
	var tried []*due
	for _, d := range r.queue {
		if most <= 0 || ctx.Err() != nil || time.Since(now) >= r.cfg.HookTimeout { // a slow hook must not keep us from reading
			break
		}
		if d.notBefore.After(now) {
			continue
		}
		tried = append(tried, d)
		was := d.next
		for most > 0 && ctx.Err() == nil && time.Since(now) < r.cfg.HookTimeout && d.next < len(d.cases) {
			most--
			if !r.one(ctx, d, ready) {
				break
			}
		}
		if d.next == was || d.bare {
			continue
		}
		d.finding.State = stateOf(&d.finding, d.next < len(d.cases))
		changed = append(changed, d.finding)
	}
	r.drain(func(d *due) bool { return d.next >= len(d.cases) })
	r.stepBack(tried)
	return changed
}

// one works on the case d is at and tells whether it is done with.
func (r *repairer) one(ctx context.Context, d *due, ready func(chain string) bool) bool {
	c := d.cases[d.next]
	r.tried++
	repair, err := r.attempt(ctx, d.partition, c, ready)
	switch {
	case errors.Is(err, errBusy):
		if d.last != busy {
			r.cfg.Logger.InfoContext(ctx, "repair put off, trying again", "finding", d.finding.ID, "repair", c.ID, "why", err)
		}
		d.last, d.notBefore = busy, time.Now().Add(r.pause(0))
		return false
	case errors.Is(err, errNotNow):
		if d.last == untried {
			r.early++
		}
		d.last, d.notBefore = putOff, time.Now().Add(r.cfg.Tick)
		return false
	case err != nil && ctx.Err() != nil:
		return false // we were told to stop: it has not failed
	case err != nil:
		d.last, d.tries = failed, d.tries+1
		r.budget.count(true)
		r.cfg.Logger.WarnContext(ctx, "repair failed", "finding", d.finding.ID, "repair", c.ID, "tries", d.tries, "error", err)
		if d.tries < r.cfg.Caps.Tries {
			d.notBefore = time.Now().Add(r.pause(d.tries))
			return false
		}
		repair.Result, repair.Error = ResultFailed, err.Error()
	default:
		r.budget.count(false)
	}
	decided := d.opens.IsZero()
	if !decided && !r.settle(ctx, c, repair.Result) {
		d.last, d.notBefore = busy, time.Now().Add(r.pause(0))
		return false
	}
	if !decided {
		r.done++
	}
	if repair = d.finding.noteRepair(repair); decided && repair.Result != ResultWaiting {
		r.told = append(r.told, settlement{c.ID, repair.Result})
	}
	d.next, d.tries, d.last = d.next+1, 0, untried
	return true
}

// noteRepair keeps what has become of a case, in place of what was told of it before, and
// returns what stands. That it is done already is no news of a repair that is told as applied.
func (f *Finding) noteRepair(repair Repair) Repair {
	f.Repairs = slices.Clone(f.Repairs) // stored findings share it
	for i := range f.Repairs {
		was := &f.Repairs[i]
		if was.Key != repair.Key {
			continue
		}
		if was.Result == ResultApplied && (repair.Result == ResultAlready || repair.Result == ResultClean) {
			return *was
		}
		*was = repair
		return repair
	}
	f.Repairs = append(f.Repairs, repair)
	return repair
}

// attempt checks a case and, where something is wrong and may be repaired, repairs it.
func (r *repairer) attempt(ctx context.Context, partition int, c Case, ready func(chain string) bool) (Repair, error) {
	hook := r.cfg.Hooks[c.Business.Type]
	out := Repair{Key: c.ID, Loser: c.Loser.Event, Result: ResultClean}
	if why := nameless(&c.Business); why != "" {
		r.cfg.Logger.WarnContext(ctx, "case cannot be checked", "finding", c.Finding.ID, "repair", c.ID, "why", why)
		out.Result, out.Error = ResultFailed, why
		return out, nil
	}
	if r.calls.pausing(c.Business.Type) {
		return out, errNotNow
	}
	wrong, err := call(ctx, r, c.Business.Type, func(ctx context.Context) (int64, error) { return hook.Check.Check(ctx, c) })
	if err != nil {
		return out, err
	}
	if out.Wrong = wrong; wrong <= 0 {
		out.Wrong = 0
		return r.cleanOrAlready(ctx, hook, c, out)
	}
	if !r.cfg.Apply || hook.Repair == nil || hook.Consent.Apply == ApplyNever {
		out.Result = ResultWould
		if a := (&Approval{Request: Request{Approvers: hook.Consent.Approvers}}); hook.Repair != nil && hook.Consent.needs(wrong) {
			out.Waits = a.Waits(time.Now())
		}
		return out, nil
	}
	if most := r.cfg.Caps.AmountPerMinute; most > 0 && wrong > most {
		out.Result, out.Error = ResultFailed, tooMuch(wrong, most)
		return out, nil
	}
	asked := hook.Consent.needs(wrong)
	if c.Most = hook.Consent.Over; asked {
		if c.Most, err = r.ask(ctx, partition, hook, c, &out); err != nil || c.Most == 0 {
			return out, err
		}
	} else if refused, err := r.refused(ctx, c, &out); err != nil || refused {
		return out, err
	}
	agreed := c.Most
	if !r.budget.allows(wrong) || !ready(c.Finding.Chain) {
		return out, errNotNow
	}
	c.Most = r.budget.bound(agreed)
	err = r.cfg.Locker.DoShared(ctx, c.Loser.Key, func(ctx context.Context, g tierlock.Grant) error {
		if g.Tier != tierlock.Shared {
			return fmt.Errorf("%w: granted as %s", errBusy, g.Tier)
		}
		if asked {
			if err := r.agreed(ctx, c.ID, agreed); err != nil {
				return err
			}
		}
		c.Grant = g
		var err error
		out.Result, err = call(ctx, r, c.Business.Type, func(ctx context.Context) (Result, error) { return hook.Repair.Repair(ctx, c) })
		return err
	})
	switch {
	case errors.Is(err, tierlock.ErrHeld) || errors.Is(err, tierlock.ErrTimeout) || errors.Is(err, tierlock.ErrSystem):
		return out, fmt.Errorf("%w: %w", errBusy, err) // the lock, not the repair: the holder goes on first
	case errors.Is(err, ErrMore):
		return out, errBusy // the next check sees how much, and people are asked
	}
	switch {
	case err != nil:
	case out.Result == ResultApplied:
		r.budget.spend(wrong)
	case out.Result == ResultUnchanged:
		r.budget.unchanged++
		out.Error = "as much is wrong as before the repair"
	}
	return out, err
}

func (r *repairer) cleanOrAlready(ctx context.Context, hook Hook, c Case, out Repair) (Repair, error) {
	memory, remembers := hook.Repair.(Rememberer)
	if !remembers {
		return out, nil
	}
	applied, err := call(ctx, r, c.Business.Type, func(ctx context.Context) (bool, error) { return memory.Applied(ctx, c) })
	if applied {
		out.Result = ResultAlready
	}
	return out, err
}

// safely makes an error of a hook's panic: one case fails, and the job reads on.
func safely(hook func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reconcile: hook panicked: %v", p)
		}
	}()
	return hook()
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
	case has(ResultWaiting):
		return StateWaiting
	case has(ResultRejected):
		return StateRejected
	case has(ResultApplied, ResultAlready):
		return StateRepaired
	case has(ResultUnchanged):
		return StateFailed // nobody puts it right but a person
	case has(ResultWould):
		return StateDryRun
	}
	return StateClean
}
