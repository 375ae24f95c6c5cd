package incident

import (
	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/reconcile"
)

// sum fills what follows from the rest: totals, causes, checks, and what is open. It is
// done again when a person has noted something in a draft.
func (r *Report) sum() {
	t := Total{Records: len(r.Records) + r.Certificate.Unlisted}
	for _, q := range r.Requests {
		switch q.Tier {
		case tierlock.Shared:
			t.Shared += q.Granted
		case tierlock.Local:
			t.Local += q.Granted
		case tierlock.Bypass:
			t.Bypassed += q.Granted
		}
	}
	for _, q := range r.Refused {
		t.Refused += q.Count
	}
	for _, o := range r.Optimistic {
		t.Optimistic += o.Answers
	}
	settled := r.sumRecords(&t)
	r.Causes = map[string]int{}
	for i := range r.Conflicts {
		c := &r.Conflicts[i]
		if c.Open = open(c, settled); c.Open {
			t.Open++
		}
		t.Conflicts++
		if c.Certain {
			t.Certain++
		} else {
			t.Possible++
		}
		if len(c.Causes) > 0 {
			r.Causes[string(c.Causes[0])]++
		}
	}
	r.Checks = r.checks()
	r.Total = t
}

// sumRecords counts records and returns those that need nothing more, as "type:id".
func (r *Report) sumRecords(t *Total) (settled map[string]bool) {
	settled = map[string]bool{}
	for i := range r.Amounts {
		r.Amounts[i].Open = 0
	}
	for i := range r.Records {
		x := &r.Records[i]
		if x.Check == Clean || x.Check == Wrong {
			t.Checked++
		}
		if x.Check == Wrong {
			t.Wrong++
		}
		switch {
		case x.Check == Clean || x.Settled:
			settled[x.Type+":"+x.ID] = true
		case x.Check == Wrong || x.Check == Failed:
			t.Open++
		}
		if x.Check == Wrong && !x.Settled {
			for j := range r.Amounts {
				if r.Amounts[j].Type == x.Type {
					r.Amounts[j].Open += x.Wrong
				}
			}
		}
	}
	return settled
}

// open tells whether a conflict is nobody's yet: it may have left something, the job has neither cleared nor repaired
// it, nobody has decided against its repair, and not every record in it was found right, or
// settled by hand. A record that is wrong is open by itself.
func open(c *Conflict, settled map[string]bool) bool {
	switch c.State {
	case reconcile.StateHarmless, reconcile.StateClean, reconcile.StateRepaired, reconcile.StateRejected, reconcile.StateSuperseded, reconcile.StateWithdrawn:
		return false
	}
	for _, name := range c.Business {
		if !settled[name] {
			return true
		}
	}
	return len(c.Business) == 0
}
