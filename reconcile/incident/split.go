package incident

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
)

// mostSplit bounds the holds that are looked at together for records under several keys. One
// record that has more is looked at alone, and whole.
const mostSplit = 100_000

// split finds records that were held under different keys at once. Their holds lie in as many
// partitions as there are keys, so which records to look at is known when all has been read;
// then the source is read once more for their holds alone, and again for each mostSplit of them.
func (m *maker) split(ctx context.Context) error {
	suspects := m.ledger.records.underKeys()
	for len(suspects) > 0 {
		n, holds := 1, suspects[0].Holds
		for n < len(suspects) && holds+suspects[n].Holds <= m.mostSplit {
			holds, n = holds+suspects[n].Holds, n+1
		}
		if err := m.splitOf(ctx, suspects[:n]); err != nil {
			return err
		}
		suspects = suspects[n:]
	}
	return nil
}

// splitOf reads the source again for a few records.
func (m *maker) splitOf(ctx context.Context, few []*touched) error {
	c := chosen{of: make(map[recordKey]bool, len(few)), holds: map[holdKey]bool{}}
	for _, t := range few {
		c.of[recordKey{t.Type, t.ID}] = true
	}
	for partition := range m.ledger.read {
		if err := m.cfg.Source.Rewind(ctx, partition); err != nil {
			return err
		}
	}
	var parser audit.Parser
	for {
		b, err := m.cfg.Source.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for _, l := range b.Lost { // retention was faster than the second reading
			if !slices.Contains(m.ledger.losses, l) {
				m.ledger.losses = append(m.ledger.losses, l)
			}
		}
		for i := range b.Records {
			if ev, err := parser.Parse(b.Records[i].Value); err == nil {
				c.take(&ev)
			}
		}
	}
	for _, f := range reconcile.SplitKeys(m.cfg.Rule, c.gather.Holds()) {
		if err := m.memory.Put(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// chosen gathers the holds of a few records.
type chosen struct {
	of     map[recordKey]bool
	holds  map[holdKey]bool
	gather reconcile.Gather
}

// take passes over what is about other records. An end need not repeat what its grant was about.
func (c *chosen) take(ev *audit.Event) {
	if ev.Type.Marker() {
		return
	}
	id := holdKey{ev.Key.String(), ev.Holder}
	switch {
	case c.of[recordKey{ev.Business.Type, ev.Business.ID}]:
		c.holds[id] = true
	case !ev.Business.IsZero() || !c.holds[id]:
		return
	}
	c.gather.Take(ev)
}

// underKeys lists the records that were touched under more than one key, by name. A hold that
// was granted after the period counts beside one of the period, which may have outlived it.
func (r *records) underKeys() []*touched {
	var out []*touched
	for id, t := range r.by {
		key, later := r.after[id]
		if len(t.keys) > 1 || later && !t.keys[key] {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *touched) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID)) })
	return out
}

// follow notes a hold that was granted after the period, while a hold of the period may last:
// under which key, and no key where there were two.
func (r *records) follow(ev *audit.Event) {
	if ev.GrantedAt.After(r.cfg.To.Add(r.cfg.Longest)) {
		return
	}
	id, key := recordKey{ev.Business.Type, ev.Business.ID}, ev.Key.String()
	was, known := r.after[id]
	switch {
	case known && was != key:
		r.after[id] = ""
	case !known && len(r.after) < mostUnlisted:
		r.after[id] = key
	}
}
