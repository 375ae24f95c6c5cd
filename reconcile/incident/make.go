package incident

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierlock/tierlock/reconcile"
)

// maker puts a report together.
type maker struct {
	cfg     Config
	ledger  *ledger
	memory  *memory
	amounts map[string]*Amount
	charged map[string]bool // repair keys of losing holds that are in amounts

	mostSplit int
}

// Make reads the source to its end, asks the store and the checks, and returns the report.
// It repairs nothing and commits nothing. What it keeps in memory grows with the holds that
// are open at once, the conflicts of the period, the records it touched, and one bit for
// each event.
func Make(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return newMaker(cfg).make(ctx)
}

func newMaker(cfg Config) *maker {
	m := &maker{cfg: cfg, amounts: map[string]*Amount{}, charged: map[string]bool{}, mostSplit: mostSplit}
	m.memory = &memory{cfg: &m.cfg, by: map[string]reconcile.Finding{}}
	m.ledger = newLedger(&m.cfg)
	return m
}

func (m *maker) make(ctx context.Context) (*Report, error) {
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	if err := m.split(ctx); err != nil {
		return nil, err
	}
	stored, err := m.stored(ctx)
	if err != nil {
		return nil, err
	}
	return m.report(ctx, stored)
}

// read runs a job over the source: overlaps are judged by its rule and no other.
func (m *maker) read(ctx context.Context) error { return m.readFrom(ctx, m.ledger) }

// readFrom is read through what lies around the ledger.
func (m *maker) readFrom(ctx context.Context, source reconcile.Source) error {
	// No repairs wait, so a tick only bounds one question to the broker.
	const tick = 30 * time.Second
	job, err := reconcile.New(reconcile.Config{
		Source: source, Findings: []reconcile.Findings{m.memory}, Rule: m.cfg.Rule, Idle: m.cfg.Idle, Lateness: m.cfg.Lateness,
		Quiet: tick, Tick: tick, Logger: m.cfg.Logger,
	})
	if err != nil {
		return err
	}
	if err := job.Run(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { // the job ends with nil then
		return err
	}
	m.ledger.settle()
	m.ledger.records.settle()
	return nil
}

func (m *maker) stored(ctx context.Context) (all []reconcile.Finding, err error) {
	if m.cfg.Store == nil {
		return nil, nil
	}
	err = m.cfg.Store.Between(ctx, m.cfg.From, m.cfg.To, func(f reconcile.Finding) error {
		all = append(all, f)
		return nil
	})
	return all, err
}

func (m *maker) report(ctx context.Context, stored []reconcile.Finding) (*Report, error) {
	r := &Report{
		From: m.cfg.From, To: m.cfg.To, At: time.Now().UTC().Round(time.Millisecond), Author: m.cfg.Author, FourEyes: m.cfg.FourEyes,
		Requests: m.requests(), Refused: m.ledger.refusals.list(), Optimistic: m.optimistic(), Orders: m.ledger.inForce(), Degraded: m.ledger.degraded.list(), Health: m.ledger.changes(),
		Conflicts: []Conflict{}, Causes: map[string]int{}, Records: []Record{},
	}
	for _, b := range m.memory.overlaps(stored) {
		c, err := m.conflict(ctx, b)
		if err != nil {
			return nil, err
		}
		r.Conflicts = append(r.Conflicts, c)
	}
	touched := m.ledger.records.list()
	if err := check(ctx, &m.cfg, touched); err != nil {
		return nil, fmt.Errorf("checks: %w", err)
	}
	for _, t := range touched {
		m.act(&t.Record)
		r.Records = append(r.Records, t.Record)
		if t.Check == Wrong {
			m.amount(t.Type) // its sum comes last
		}
	}
	for _, a := range m.amounts {
		r.Amounts = append(r.Amounts, *a)
	}
	r.Amounts = append([]Amount{}, r.Amounts...)
	slices.SortFunc(r.Amounts, func(a, b Amount) int { return cmp.Compare(a.Type, b.Type) })
	r.Certificate = m.ledger.certify(m.memory.gaps(stored))
	r.sum()
	return r, nil
}

// act says what was done about a record, where no repair does.
func (m *maker) act(t *Record) {
	if t.Owner == "" {
		t.Owner = Unassigned
	}
	switch {
	case t.Action == actionRepaired && t.Check == Wrong:
		t.Action = actionAgain
	case t.Action != "":
	case t.Check == Wrong:
		t.Action = actionNone
	case t.Check == Clean:
		t.Action = actionClean
	case len(t.Conflicts) > 0:
		t.Action = actionNone
	}
}

// Unassigned is the owner of a record that nobody was named for.
const Unassigned = "unassigned"

func (m *maker) amount(kind string) *Amount {
	a := m.amounts[kind]
	if a == nil {
		a = &Amount{Type: kind}
		m.amounts[kind] = a
	}
	return a
}

func (m *maker) requests() []Requests {
	out := []Requests{}
	for _, q := range m.ledger.requests {
		out = append(out, *q)
	}
	slices.SortFunc(out, func(a, b Requests) int { return cmp.Or(cmp.Compare(a.Chain, b.Chain), cmp.Compare(a.Tier, b.Tier)) })
	return out
}

func (m *maker) optimistic() []Optimistic {
	out := []Optimistic{}
	for _, o := range m.ledger.answers {
		out = append(out, *o)
	}
	slices.SortFunc(out, func(a, b Optimistic) int {
		return cmp.Or(cmp.Compare(a.Chain, b.Chain), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

// checks sums the verdicts up by business type.
func (r *Report) checks() []Check {
	by := map[string]*Check{}
	for i := range r.Records {
		t := &r.Records[i]
		c := by[t.Type]
		if c == nil {
			c = &Check{Type: t.Type}
			by[t.Type] = c
		}
		c.Records++
		switch t.Check {
		case Clean:
			c.Clean++
		case Wrong:
			c.Wrong++
		case Failed:
			c.Failed++
		default:
			c.Unchecked++
		}
	}
	out := []Check{}
	for _, kind := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[kind])
	}
	return out
}
