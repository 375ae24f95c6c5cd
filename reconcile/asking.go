package reconcile

import (
	"context"
	"fmt"
	"time"
)

// ask asks people for a case. It returns how much they have agreed to; zero: the case is
// done with, as out says.
func (r *repairer) ask(ctx context.Context, partition int, hook Hook, c Case, out *Repair) (most int64, err error) {
	if finished, err := r.finished(ctx, hook, c); err != nil || finished {
		out.Result = ResultAlready
		return 0, err // nobody is asked for what has been done
	}
	a, err := r.cfg.Approvals.Ask(ctx, Request{
		Case: c, Partition: partition, Amount: out.Wrong, Approvers: hook.Consent.Approvers, AskedBy: r.cfg.AskedBy, Valid: hook.Consent.Valid,
	})
	if err != nil {
		r.cfg.Logger.WarnContext(ctx, "approval not asked for, trying again", "repair", c.ID, "error", err)
		return 0, errBusy
	}
	now := time.Now()
	switch a.Status(now) {
	case StatusApproved:
		out.By = a.Yes(now)
		return a.Amount, nil
	case StatusRejected:
		out.Result, out.By, out.Error = ResultRejected, []string{a.RejectedBy}, a.Reason
	default:
		out.Result, out.Waits = ResultWaiting, a.Waits(now)
		r.cfg.Logger.WarnContext(ctx, "repair waits for people", "finding", c.Finding.ID, "repair", c.ID,
			"business_type", c.Business.Type, "wrong", out.Wrong, "waits", out.Waits)
	}
	return 0, nil
}

// finished tells whether nothing more is to be done under a case's key. What was only begun,
// a message that did not go out, goes on to its repair.
func (r *repairer) finished(ctx context.Context, hook Hook, c Case) (done bool, err error) {
	if half, ok := hook.Repair.(interface {
		finished(ctx context.Context, c Case) (bool, error)
	}); ok {
		return call(ctx, r, c.Business.Type, func(ctx context.Context) (bool, error) { return half.finished(ctx, c) })
	}
	if memory, remembers := hook.Repair.(Rememberer); remembers {
		return call(ctx, r, c.Business.Type, func(ctx context.Context) (bool, error) { return memory.Applied(ctx, c) })
	}
	return false, nil
}

// refused tells whether people have said no to as much or more, at a time when they were
// asked: that stands although nobody would be asked for so little, or by this rule.
func (r *repairer) refused(ctx context.Context, c Case, out *Repair) (bool, error) {
	if r.cfg.Approvals == nil {
		return false, nil
	}
	a, known, err := r.cfg.Approvals.Last(ctx, c.ID)
	if err != nil {
		r.cfg.Logger.WarnContext(ctx, "approval not read, trying again", "repair", c.ID, "error", err)
		return false, errBusy
	}
	if !known || a.Status(time.Now()) != StatusRejected || out.Wrong > a.Amount {
		return false, nil
	}
	out.Result, out.By, out.Error = ResultRejected, []string{a.RejectedBy}, a.Reason
	return true, nil
}

// agreed tells whether what people have said yes to still stands, once the lock is there:
// waiting for it takes time, in which a yes expires and somebody says no. Where it does not,
// or cannot be read, the next try asks again.
func (r *repairer) agreed(ctx context.Context, key string, amount int64) error {
	a, known, err := r.cfg.Approvals.Last(ctx, key)
	switch {
	case err != nil:
		r.cfg.Logger.WarnContext(ctx, "approval not read, trying again", "repair", key, "error", err)
		return fmt.Errorf("%w: approval not read: %w", errBusy, err)
	case !known || a.Amount != amount || a.Status(time.Now()) != StatusApproved:
		return fmt.Errorf("%w: the approval does not stand any more", errBusy)
	}
	return nil
}

// settle closes what people were asked for a case. It is false when that must be tried again:
// the case would come back from there.
func (r *repairer) settle(ctx context.Context, c Case, result Result) bool {
	if !r.cfg.Apply || r.cfg.Approvals == nil || result == ResultWaiting || !r.cfg.Hooks[c.Business.Type].Consent.asks() {
		return true
	}
	if err := r.cfg.Approvals.Settle(ctx, c.ID, result); err != nil {
		r.cfg.Logger.WarnContext(ctx, "approval not settled, trying again", "repair", c.ID, "error", err)
		return false
	}
	return true
}

// settleTold closes the decided cases whose findings are stored by now, so that whoever dies
// before leaves them to be found again. What fails comes back from [Approvals.Decided].
func (r *repairer) settleTold(ctx context.Context) {
	for _, s := range r.told {
		if err := r.cfg.Approvals.Settle(ctx, s.key, s.result); err != nil {
			r.cfg.Logger.WarnContext(ctx, "approval not settled, trying again", "repair", s.key, "error", err)
			continue
		}
		r.done++
	}
	r.told = nil
}
