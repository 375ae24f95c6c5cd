package incident

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
)

// certify judges how complete the events of the period are. gaps are the findings of the
// job, stored ones those that it kept at its time.
func (l *ledger) certify(gaps []reconcile.Finding) Certificate {
	c := Certificate{
		Partitions: l.partitions(), Producers: l.heard(), Tails: l.tails(), Gaps: []Gap{}, Unknown: []string{},
		Malformed: append([]Malformed{}, l.malformed...), Unreadable: l.unread, Blind: append([]string{}, l.cfg.Blind...),
		Unlisted: l.records.unlisted(), Longest: l.cfg.Longest.Milliseconds(),
	}
	for _, t := range l.cfg.Rule.Ignore {
		c.Blind = append(c.Blind, "holds of tier "+t.String()+" are left out by reconcile.rule.ignore")
	}
	over := !l.cfg.To.After(l.opened)
	if !over { // also where every producer is sealed: another may begin
		c.Blind = append(c.Blind, "the period was not over when its events were read, at "+stamp(l.opened))
	}
	if l.degraded.lost > 0 {
		c.Blind = append(c.Blind, "stretches of degraded time beyond the first 10000 are not listed")
	}
	if l.unshown > 0 {
		c.Blind = append(c.Blind, "changes of health beyond the first 10000 are not listed")
	}
	for _, name := range l.cfg.Expect {
		if l.producers[name] == nil {
			c.Unknown = append(c.Unknown, name)
		}
	}
	slices.Sort(c.Unknown)
	c.Unknown = slices.Compact(c.Unknown)
	for i := range gaps {
		if g, touches := l.gap(&gaps[i]); touches {
			c.Gaps = append(c.Gaps, g)
		}
	}
	c.Gaps = append(c.Gaps, l.retained(c.Partitions)...)
	for _, loss := range l.losses {
		c.Gaps = append(c.Gaps, Gap{
			Gap:    reconcile.Gap{Partition: loss.Partition, Cause: "retention", Count: uint64(loss.To - loss.From)},
			Bypass: true, Note: "these offsets could not be read any more",
		})
	}
	slices.SortFunc(c.Gaps, func(a, b Gap) int {
		return cmp.Or(a.Earliest.Compare(b.Earliest), a.Latest.Compare(b.Latest), cmp.Compare(a.Producer, b.Producer),
			cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.From, b.From), cmp.Compare(a.Cause, b.Cause))
	})
	heard := len(c.Producers) > 0
	c.Bypass = heard && over && len(c.Tails) == 0 && len(c.Unknown) == 0 && c.Unreadable == 0 && len(c.Partitions) > 0 &&
		!slices.ContainsFunc(c.Gaps, func(g Gap) bool { return g.Bypass })
	c.Complete = c.Bypass && len(c.Gaps) == 0 && len(c.Blind) == 0 && c.Unlisted == 0
	return c
}

// partitions joins what was read with what the source says there was.
func (l *ledger) partitions() []Partition {
	out := []Partition{}
	if l.cfg.Partitions != nil {
		out = append(out, l.cfg.Partitions()...)
	} else {
		for _, p := range l.read {
			out = append(out, *p)
		}
	}
	for i := range out {
		if p := l.read[out[i].Partition]; p != nil {
			out[i].Records = p.Records
		}
	}
	slices.SortFunc(out, func(a, b Partition) int { return a.Partition - b.Partition })
	return out
}

// retained tells of partitions that begin after the longest hold before the period: what
// stood before may be taken by retention.
func (l *ledger) retained(partitions []Partition) (out []Gap) {
	for _, p := range partitions {
		if p.Oldest == 0 || p.From > p.Oldest {
			continue // all that was ever there, or there is something older that was not needed
		}
		if since := l.cfg.From.Add(-l.cfg.Longest); p.Begins.IsZero() || p.Begins.After(since) {
			out = append(out, Gap{
				Gap:    reconcile.Gap{Partition: p.Partition, Cause: "retention", Count: uint64(p.Oldest)},
				Latest: p.Begins, Bypass: true,
				Note: "older records are not kept: what was appended before is not known",
			})
		}
	}
	return out
}

// gap says when what is missing happened, and whether that may touch the period.
func (l *ledger) gap(f *reconcile.Finding) (g Gap, touches bool) {
	if f.Kind != reconcile.KindGap || f.Gap == nil || f.State == reconcile.StateWithdrawn || f.Gap.Cause == "retention" {
		return g, false // a silent producer is a tail; retention is told by what was read
	}
	g = Gap{Gap: *f.Gap, Latest: f.Gap.At.UTC(), Bypass: true}
	g.At = g.At.UTC()
	p := l.producers[g.Producer]
	if p == nil {
		g.Note = "told by an earlier run of the job"
		return g, true
	}
	if e := p.epochs[g.Epoch]; g.Cause == "sequence" && e != nil && e.seen.has(g.From) {
		return g, false // an earlier run missed it; it has come since
	}
	switch {
	case g.From == 0: // a count without seqs
		g.Earliest = p.since(g.Epoch, g.At)
	case g.To == 0: // to the end of an epoch
		g.Earliest, _ = p.around(g.Epoch, g.From, g.From)
	default:
		var after time.Time
		if g.Earliest, after = p.around(g.Epoch, g.From, g.To); !after.IsZero() {
			g.Latest = after
		}
	}
	g.Earliest, g.Latest = g.Earliest.UTC(), g.Latest.UTC()
	switch audit.Cause(g.Cause) {
	case audit.CauseCrash:
		g.Bypass, g.Note = false, "the process died: events that nobody had waited for may be lost; bypass grants are waited for"
	case audit.CauseOverflow:
		g.Bypass, g.Note = false, "notes came faster than the disk took them; bypass grants are waited for"
	case audit.CauseFull:
		g.Note = "the disk took nothing; a chain with on_full: shed granted without events then"
	case audit.CauseDamage:
		g.Note = "the disk gave them back damaged"
	case audit.CauseDead:
		g.Note = "the stream refused it, and so did its dead-letter topic"
	default:
		g.Note = "these seqs never came"
		if g.Cause == "folder_lost" {
			g.Note = "the producer lost the folder of its spool, and what had not been sent"
		}
	}
	return g, g.Earliest.Before(l.cfg.To) && !g.Latest.Before(l.cfg.From)
}
