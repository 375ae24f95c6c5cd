package incident

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// columns of the CSV: one fact a row, whatever it is about.
var columns = []string{
	"what", "id", "chain", "key", "tier", "state", "certain", "cause", "from", "to",
	"count", "at_risk", "repaired", "wrong", "owner", "action", "detail",
}

// row is one fact by column.
type row struct {
	what, id, chain, key, tier, state, certain, cause, from, to string
	count, atRisk, repaired, wrong, owner, action, detail       string
}

// WriteCSV writes d as one table with a header. A text that a spreadsheet would take for a
// formula has an apostrophe in front.
func (d *Document) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write(columns); err != nil {
		return err
	}
	for _, x := range d.rows() {
		fields := []string{
			x.what, x.id, x.chain, x.key, x.tier, x.state, x.certain, x.cause, x.from, x.to,
			x.count, x.atRisk, x.repaired, x.wrong, x.owner, x.action, x.detail,
		}
		for i, f := range fields {
			fields[i] = inert(clean(f))
		}
		if err := out.Write(fields); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// inert keeps a spreadsheet from taking text for a formula; a plain number is none.
func inert(text string) string {
	if text == "" || !strings.ContainsRune("=+-@", rune(text[0])) {
		return text
	}
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return text
	}
	return "'" + text
}

func (d *Document) rows() []row {
	r := d.Report
	rows := []row{{
		what: "incident", state: string(d.Stage), from: stamp(r.From), to: stamp(r.To), count: strconv.Itoa(r.Total.Open),
		owner: r.Author, detail: r.Verdict(),
	}}
	for _, s := range d.Reviews {
		rows = append(rows, row{what: "review", owner: s.By, from: stamp(s.At), detail: s.SHA256})
	}
	if s := d.Signature; s != nil {
		rows = append(rows, row{what: "signature", id: s.Key, owner: s.By, from: stamp(s.At), detail: s.SHA256})
	}
	rows = append(rows, r.requestRows()...)
	rows = append(rows, r.conflictRows()...)
	rows = append(rows, r.recordRows()...)
	return append(rows, r.Certificate.rows()...)
}

func (r *Report) requestRows() (rows []row) {
	for _, q := range r.Requests {
		for _, part := range []struct {
			state string
			n     int
		}{
			{"granted", q.Granted},
			{"released", q.Released},
			{"expired", q.Expired},
			{"lost", q.Lost},
			{"forced", q.Forced},
			{"untold", q.Untold},
			{"committed", q.Committed},
			{"rolled_back", q.RolledBack},
		} {
			rows = append(rows, row{what: "requests", chain: q.Chain, tier: q.Tier.String(), state: part.state, count: strconv.Itoa(part.n)})
		}
	}
	for _, o := range r.Optimistic {
		for _, part := range []struct {
			state string
			n     int
		}{{"answers", o.Answers}, {"committed", o.Committed}, {"rolled_back", o.RolledBack}, {"untold", o.Untold}} {
			rows = append(rows, row{what: "optimistic", chain: o.Chain, tier: "optimistic", state: part.state, cause: string(o.Reason), count: strconv.Itoa(part.n)})
		}
	}
	for _, q := range r.Refused {
		rows = append(rows, row{what: "refused", chain: q.Chain, state: q.Answer, count: strconv.Itoa(q.Count)})
	}
	for _, o := range r.Orders {
		rows = append(rows, row{
			what: "switch", id: strconv.FormatUint(o.Version, 10), chain: o.Chain, from: stamp(o.First), to: stamp(o.Last), count: strconv.Itoa(o.Grants),
			detail: o.Reason,
		})
	}
	for _, s := range r.Degraded {
		rows = append(rows, row{what: "degraded", id: s.Producer, chain: s.Chain, tier: s.Tier, from: stamp(s.From), to: stamp(s.To)})
	}
	for _, h := range r.Health {
		rows = append(rows, row{what: "health", id: h.Producer, chain: h.Chain, state: h.To, cause: string(h.Reason), from: stamp(h.At), detail: "was " + h.From + targetText(h.Target)})
	}
	return rows
}

func (r *Report) conflictRows() (rows []row) {
	for i := range r.Conflicts {
		c := &r.Conflicts[i]
		rows = append(rows, row{
			what: "conflict", id: c.ID, chain: c.Chain, key: c.Key.String(), state: string(c.State), certain: strconv.FormatBool(c.Certain),
			cause: joined(c.Causes), from: stamp(c.From), to: stamp(c.To), count: strconv.Itoa(c.Holds), action: c.Where + awaited(c),
			detail: strings.Join(c.Business, " "),
		})
		for j := range c.Members {
			m := &c.Members[j]
			rows = append(rows, row{
				what: "hold", id: m.Event, chain: m.Chain, key: m.Key.String(), tier: m.Tier.String(), state: string(m.How), from: stamp(m.GrantedAt),
				to: stamp(m.EndedAt), owner: m.Holder, action: string(m.Outcome), detail: c.ID + about(m),
			})
		}
	}
	return rows
}

func (r *Report) recordRows() (rows []row) {
	for i := range r.Records {
		x := &r.Records[i]
		rows = append(rows, row{
			what: "record", id: x.Type + ":" + x.ID, chain: strings.Join(x.Chains, " "), key: strings.Join(x.Keys, " "), state: string(x.Check),
			from: stamp(x.First), to: stamp(x.Last), count: strconv.Itoa(x.Holds), atRisk: amount(x.AtRisk), repaired: amount(x.Repaired),
			wrong: amount(x.Wrong), owner: x.Owner, action: x.Action, detail: strings.Join(x.Conflicts, " "),
		})
	}
	for _, a := range r.Amounts {
		rows = append(rows, row{
			what: "amount", id: a.Type, count: strconv.Itoa(a.NoDelta), atRisk: amount(a.AtRisk), repaired: amount(a.Repaired), wrong: amount(a.Open),
			detail: "count: losing holds without a delta; wrong: open",
		})
	}
	return rows
}

func amount(n int64) string { return strconv.FormatInt(n, 10) }

func (c *Certificate) rows() []row {
	rows := []row{
		{what: "certificate", id: "bypass", state: yes(c.Bypass, "complete", "incomplete")},
		{what: "certificate", id: "everything", state: yes(c.Complete, "complete", "incomplete"), count: strconv.Itoa(c.Unlisted), detail: "count: records not listed"},
	}
	for i := range c.Gaps {
		g := &c.Gaps[i]
		rows = append(rows, row{what: "gap", id: g.Producer, cause: g.Cause, from: stamp(g.Earliest), to: stamp(g.Latest), count: strconv.FormatUint(g.Count, 10), detail: gapText(g)})
	}
	for _, t := range c.Tails {
		rows = append(rows, row{what: "tail", id: t.Producer, from: stamp(t.Told), detail: fmt.Sprintf("partitions %v: %s", t.Partitions, t.Note)})
	}
	for _, name := range c.Unknown {
		rows = append(rows, row{what: "unknown", id: name})
	}
	for _, m := range c.Malformed {
		rows = append(rows, row{what: "malformed", id: fmt.Sprintf("%d/%d", m.Partition, m.Offset), detail: m.Reason})
	}
	for _, b := range c.Blind {
		rows = append(rows, row{what: "blind", detail: b})
	}
	for _, p := range c.Producers {
		rows = append(rows, row{
			what: "producer", id: p.Producer, state: yes(p.Sealed, "sealed", "not sealed"), from: stamp(p.First), to: stamp(p.Last),
			count: strconv.FormatUint(p.Events, 10), detail: fmt.Sprintf("epochs %v", p.Epochs),
		})
	}
	for _, p := range c.Partitions {
		rows = append(rows, row{what: "partition", id: strconv.Itoa(p.Partition), count: strconv.FormatInt(p.Records, 10), detail: fmt.Sprintf("offsets %d to %d, oldest %d", p.From, p.To, p.Oldest)})
	}
	return rows
}
