package incident

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tierlock/tierlock/reconcile"
)

// memory keeps the findings of a job by the rules of [reconcile.Findings]; of overlaps
// only those that reach into the period.
type memory struct {
	cfg *Config
	by  map[string]reconcile.Finding
}

// Put implements [reconcile.Findings].
func (m *memory) Put(_ context.Context, f reconcile.Finding) error {
	for _, id := range f.Supersedes() {
		delete(m.by, id)
	}
	if f.Kind == reconcile.KindOverlap && (!f.From.Before(m.cfg.To) || f.To.Before(m.cfg.From)) {
		delete(m.by, f.ID)
		return nil
	}
	if was, known := m.by[f.ID]; !known || f.Replaces(&was) {
		m.by[f.ID] = f
	}
	return nil
}

// stands tells whether an overlap counts.
func stands(s reconcile.State) bool {
	return s != reconcile.StateSuperseded && s != reconcile.StateWithdrawn
}

// both is what is known of one conflict from the events and from the job's table.
type both struct {
	found, stored *reconcile.Finding
}

// finding is the better of the two: content as found now, state and repairs as stored.
func (b both) finding() (f reconcile.Finding, where string) {
	switch {
	case b.stored == nil:
		return *b.found, Found
	case b.found == nil:
		return *b.stored, Stored
	}
	f = *b.found
	f.Repairs = b.stored.Repairs
	if f.State != reconcile.StateHarmless && b.stored.State != reconcile.StateHarmless { // which is said of the events, by whoever knows more of them
		f.State = b.stored.State
	}
	return f, Both
}

// overlaps joins the findings of the events with those that the job has stored.
func (m *memory) overlaps(stored []reconcile.Finding) []both {
	by := map[string]both{}
	for _, f := range m.by {
		if f.Kind == reconcile.KindOverlap && stands(f.State) {
			by[f.ID] = both{found: &f}
		}
	}
	for _, f := range stored {
		b := by[f.ID]
		if f.Kind != reconcile.KindOverlap || b.found == nil && !stands(f.State) {
			continue
		}
		b.stored = &f
		by[f.ID] = b
	}
	out := slices.Collect(maps.Values(by))
	slices.SortFunc(out, func(a, b both) int {
		x, _ := a.finding()
		y, _ := b.finding()
		return cmp.Or(x.From.Compare(y.From), cmp.Compare(x.Key.String(), y.Key.String()), cmp.Compare(x.ID, y.ID), cmp.Compare(x.Part, y.Part))
	})
	return out
}

// gaps are what is missing as found now and, of what is not found now, as stored.
func (m *memory) gaps(stored []reconcile.Finding) (out []reconcile.Finding) {
	for _, id := range slices.Sorted(maps.Keys(m.by)) {
		out = append(out, m.by[id])
	}
	for _, f := range stored {
		if _, known := m.by[f.ID]; !known && f.Kind == reconcile.KindGap && f.State != reconcile.StateWithdrawn {
			out = append(out, f)
		}
	}
	return out
}

// mostMembers is how many holds of one conflict are listed.
const mostMembers = 50

// conflict writes a finding down for the report, and what it cost on the records it names.
func (m *maker) conflict(ctx context.Context, b both) (Conflict, error) {
	f, where := b.finding()
	own := f.Members[min(f.Carried, len(f.Members)):]
	c := Conflict{
		ID: f.ID, State: f.State, Where: where, Chain: f.Chain, Key: f.Key, Certain: f.Certain,
		Provisional: f.Provisional, Awaited: f.Awaited, Causes: append([]reconcile.Cause{}, f.Causes...),
		Part: f.Part, Holds: len(own), Pairs: f.Pairs, CertainPairs: f.CertainPairs, AtRiskPairs: f.AtRiskPairs, Depth: f.Depth, From: f.From.UTC(), To: f.To.UTC(),
		Business: []string{}, Repairs: append([]reconcile.Repair{}, f.Repairs...),
		Members: append([]reconcile.Interval{}, f.Members[:min(len(f.Members), mostMembers)]...),
	}
	names := map[string]bool{}
	for i := range f.Members {
		if b := &f.Members[i].Business; !b.IsZero() {
			names[b.Type+":"+b.ID] = true
			m.involve(&f.Members[i], f.ID)
		}
	}
	c.Business = sorted(names)
	return c, m.lose(ctx, &f)
}

// involve ties a record to a conflict. Conflicts come one by one, so only the last one can be
// there already: one record may be in all of them.
func (m *maker) involve(iv *reconcile.Interval, finding string) {
	t := m.ledger.records.by[recordKey{iv.Business.Type, iv.Business.ID}]
	if t == nil || len(t.Conflicts) > 0 && t.Conflicts[len(t.Conflicts)-1] == finding {
		return
	}
	t.Conflicts = append(t.Conflicts, finding)
}

// lose charges what each losing hold could have done wrong to its record, and credits what
// was repaired of it.
func (m *maker) lose(ctx context.Context, f *reconcile.Finding) error {
	hooks := maps.Clone(m.cfg.Hooks)
	if hooks == nil {
		hooks = map[string]reconcile.Hook{}
	}
	for i := range f.Members {
		if kind := f.Members[i].Business.Type; kind != "" {
			hooks[kind] = m.cfg.Hooks[kind] // none: it loses all the same
		}
	}
	results := map[string]reconcile.Repair{}
	for _, r := range f.Repairs {
		results[r.Key] = r
	}
	for _, c := range f.Cases(hooks) {
		if m.charged[c.ID] {
			continue // a hold that loses in two findings loses once
		}
		m.charged[c.ID] = true
		a := m.amount(c.Business.Type)
		risk := max(c.Business.Delta, -c.Business.Delta)
		a.AtRisk += risk
		if risk == 0 {
			a.NoDelta++
		}
		done, repaired, err := m.repaired(ctx, &c, results)
		if err != nil {
			return err
		}
		a.Repaired += repaired
		t := m.ledger.records.by[recordKey{c.Business.Type, c.Business.ID}]
		if t == nil {
			continue
		}
		t.AtRisk, t.Repaired = t.AtRisk+risk, t.Repaired+repaired
		t.hold, t.losses = c.Loser, true
		t.Action = graver(t.Action, done)
	}
	return nil
}

// repaired tells what was done about one losing hold, and how much that put right.
func (m *maker) repaired(ctx context.Context, c *reconcile.Case, results map[string]reconcile.Repair) (action string, wrong int64, err error) {
	r, worked := results[c.ID]
	if m.cfg.Store != nil {
		wrong, _, applied, err := m.cfg.Store.Repaired(ctx, c.ID)
		if err != nil {
			return "", 0, fmt.Errorf("repair of %s: %w", c.Business.Type, err)
		}
		if applied {
			return actionRepaired, wrong, nil
		}
	}
	switch {
	case !worked:
		return actionNone, 0, nil
	case r.Result == reconcile.ResultApplied || r.Result == reconcile.ResultAlready:
		return actionRepaired, r.Wrong, nil
	case r.Result == reconcile.ResultWould:
		return actionWould, 0, nil
	case r.Result == reconcile.ResultFailed:
		return actionFailed, 0, nil
	case r.Result == reconcile.ResultUnchanged:
		return actionUnchanged, 0, nil
	case r.Result == reconcile.ResultWaiting:
		return actionWaiting, 0, nil
	case r.Result == reconcile.ResultRejected:
		return actionRejected, 0, nil
	}
	return actionClean, 0, nil
}

// What was done about a record, the most pressing last.
const (
	actionClean    = "checked: nothing was wrong"
	actionRepaired = "repaired"
	actionAgain    = "repaired, and wrong again"
	actionRejected = "repair rejected"
	actionNone     = "nothing yet"
	actionWould    = "dry run: would be repaired"
	actionWaiting  = "waits for people's approval"
	actionFailed   = "repair failed"

	actionUnchanged = "repair changed nothing"
)

var pressing = []string{"", actionClean, actionRepaired, actionRejected, actionNone, actionWould, actionWaiting, actionUnchanged, actionFailed}

func graver(a, b string) string {
	return pressing[max(slices.Index(pressing, a), slices.Index(pressing, b))]
}
