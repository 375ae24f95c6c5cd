package incident

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tierlock/tierlock/reconcile"
)

// mostLines is how many conflicts and records the text shows of each; the JSON has all.
const mostLines = 100

// WriteText writes d for people, one fact a line.
func (d *Document) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	p := printer{out}
	r := d.Report
	p.line("incident", "%s to %s", stamp(r.From), stamp(r.To))
	p.line("report", "%s, made by %s at %s", d.Stage, clean(r.Author), stamp(r.At))
	for _, s := range d.Reviews {
		p.line("", "reviewed by %s at %s, sha256 %s", clean(s.By), stamp(s.At), s.SHA256)
	}
	if s := d.Signature; s != nil {
		p.line("", "signed by %s at %s, sha256 %s, key %s", clean(s.By), stamp(s.At), s.SHA256, s.Key)
	}
	p.line("verdict", "%s", r.Verdict())
	p.requests(r)
	p.health(r)
	p.conflicts(r)
	p.records(r)
	p.certificate(&r.Certificate)
	return out.Flush()
}

// Verdict is one line on what is open and whether the events are complete.
func (r *Report) Verdict() string {
	verdict := "nothing is open"
	if r.Total.Open > 0 {
		verdict = fmt.Sprintf("%d open", r.Total.Open)
	}
	switch {
	case r.Certificate.Complete:
		return verdict + ", complete: every event of the period was seen"
	case r.Certificate.Bypass:
		return verdict + ", complete for bypass; not for everything else, see the certificate"
	}
	return verdict + ", NOT complete, see the certificate"
}

type printer struct{ w io.Writer }

func (p printer) line(name, format string, args ...any) {
	fmt.Fprintf(p.w, "%-12s "+format+"\n", append([]any{name}, args...)...)
}

func (p printer) requests(r *Report) {
	t := r.Total
	p.line("requests", "%d bypassed, %d local, %d optimistic, %d refused, %d shared", t.Bypassed, t.Local, t.Optimistic, t.Refused, t.Shared)
	for _, q := range r.Requests {
		p.line("", "%s %s: %d granted; %d released, %d expired, %d lost, %d forced, %d without an end; %d committed, %d rolled back",
			clean(q.Chain), q.Tier, q.Granted, q.Released, q.Expired, q.Lost, q.Forced, q.Untold, q.Committed, q.RolledBack)
	}
	for _, o := range r.Optimistic {
		p.line("", "%s optimistic (%s): %d answers; %d committed, %d rolled back, %d not told", clean(o.Chain), clean(string(o.Reason)), o.Answers, o.Committed, o.RolledBack, o.Untold)
	}
	for _, q := range r.Refused {
		p.line("", "%s refused (%s): %d", clean(q.Chain), clean(q.Answer), q.Count)
	}
	for _, o := range r.Orders {
		if o.Chain == "" {
			p.line("switch", "version %d in force in %d processes, %s to %s", o.Version, o.Processes, stamp(o.First), stamp(o.Last))
			continue
		}
		p.line("switch", "version %d, %s: %d grants, %d of them bypass, %d optimistic, %s to %s: %s",
			o.Version, clean(o.Chain), o.Grants, o.Bypass, o.Optimistic, stamp(o.First), stamp(o.Last), clean(o.Reason))
	}
	for i, s := range r.Degraded {
		if i == mostLines {
			p.line("", "and %d more stretches", len(r.Degraded)-i)
			break
		}
		p.line("degraded", "%s %s at %s, %s to %s", clean(s.Chain), clean(s.Tier), clean(s.Producer), stamp(s.From), stamp(s.To))
	}
}

func (p printer) health(r *Report) {
	for i, h := range r.Health {
		if i == mostLines {
			p.line("", "and %d more changes of health", len(r.Health)-i)
			break
		}
		p.line("health", "%s %s%s at %s: %s to %s%s%s", stamp(h.At), clean(h.Chain), targetText(h.Target), clean(h.Producer), clean(h.From), clean(h.To),
			yes(h.Reason == "", "", ", "+clean(string(h.Reason))), yes(h.Observed, ", observed only", ""))
	}
}

func targetText(target string) string { return yes(target == "", "", " on "+clean(target)) }

func (p printer) conflicts(r *Report) {
	p.line("conflicts", "%d: %d certain, %d possible", r.Total.Conflicts, r.Total.Certain, r.Total.Possible)
	for _, cause := range causesOf(r) {
		p.line("", "%6d  %s", r.Causes[cause], clean(cause))
	}
	for i := range r.Conflicts {
		if i == mostLines {
			p.line("", "and %d more", len(r.Conflicts)-i)
			break
		}
		c := &r.Conflicts[i]
		p.line("conflict", "%s %s %s %s: %d holds, %d pairs (%d certain), cause %s, %s to %s, %s%s", c.ID, certainty(c), c.State, clean(c.Key.String()),
			c.Holds, c.Pairs, c.CertainPairs, clean(joined(c.Causes)), stamp(c.From), stamp(c.To), c.Where, clean(awaited(c)))
		for j := range c.Members {
			m := &c.Members[j]
			p.line("", "  %s to %s %s %s at %s%s%s", stamp(m.GrantedAt), stamp(m.EndedAt), m.Tier, clean(m.Holder), clean(m.Producer),
				yes(m.Key == c.Key, "", ", key "+clean(m.Key.String())), clean(about(m)))
		}
		if more := c.Holds - len(c.Members); more > 0 {
			p.line("", "  and %d more holds", more)
		}
	}
}

func (p printer) records(r *Report) {
	p.line("records", "%d touched, %d checked over the whole period, %d wrong", r.Total.Records, r.Total.Checked, r.Total.Wrong)
	for _, c := range r.Checks {
		p.line("", "%s: %d records; %d clean, %d wrong, %d failed, %d without a check", clean(c.Type), c.Records, c.Clean, c.Wrong, c.Failed, c.Unchecked)
	}
	shown := pressingRecords(r)
	for i, x := range shown {
		if i == mostLines {
			p.line("", "and %d more", len(shown)-i)
			break
		}
		p.line("record", "%s:%s: %d holds (%d bypass, %d local, %d optimistic, %d shared), %d conflicts; at risk %d, repaired %d, check %s (%d); %s; owner %s",
			clean(x.Type), clean(x.ID), x.Holds, x.Bypass, x.Local, x.Optimistic, x.Shared, len(x.Conflicts), x.AtRisk, x.Repaired, x.Check, x.Wrong,
			clean(x.Action), clean(x.Owner))
	}
	for _, a := range r.Amounts {
		p.line("amount", "%s: %d at risk, %d repaired, %d open; %d losing holds told no delta", clean(a.Type), a.AtRisk, a.Repaired, a.Open, a.NoDelta)
	}
}

func (p printer) certificate(c *Certificate) {
	p.line("bypass", "%s", yes(c.Bypass, "complete: every bypass grant was seen", "NOT complete"))
	p.line("complete", "%s", yes(c.Complete, "yes: every event was seen", "NO"))
	for _, g := range c.Gaps {
		p.line("gap", "%s", clean(gapText(&g)))
	}
	for _, t := range c.Tails {
		p.line("tail", "%s epoch %d told everything until %s in partitions %v: %s", clean(t.Producer), t.Epoch, stamp(t.Told), t.Partitions, t.Note)
	}
	for _, name := range c.Unknown {
		p.line("unknown", "%s was expected, and nothing was heard of it", clean(name))
	}
	for _, m := range c.Malformed {
		p.line("malformed", "partition %d offset %d: %s", m.Partition, m.Offset, clean(m.Reason))
	}
	if more := c.Unreadable - len(c.Malformed); more > 0 {
		p.line("malformed", "and %d more records", more)
	}
	for _, b := range c.Blind {
		p.line("blind", "%s", clean(b))
	}
	if c.Unlisted > 0 {
		p.line("unlisted", "%d records beyond the most that are listed: not checked", c.Unlisted)
	}
	for _, q := range c.Producers {
		p.line("producer", "%s epochs %v, %d events, %s to %s, %s, switch versions %v", clean(q.Producer), q.Epochs, q.Events, stamp(q.First), stamp(q.Last),
			yes(q.Sealed, "sealed", "not sealed"), q.Versions)
	}
	for _, q := range c.Partitions {
		p.line("partition", "%d: offsets %d to %d of %d to %d, %d records", q.Partition, q.From, q.To, q.Oldest, q.To, q.Records)
	}
}

func gapText(g *Gap) string {
	what := fmt.Sprintf("partition %d", g.Partition)
	if g.Producer != "" {
		what += fmt.Sprintf(" %s epoch %d", g.Producer, g.Epoch)
	}
	if g.From != 0 {
		what += fmt.Sprintf(" seq %d to %s", g.From, yes(g.To == 0, "?", fmt.Sprint(g.To)))
	}
	if g.Count != 0 {
		what += fmt.Sprintf(" count %d", g.Count)
	}
	return fmt.Sprintf("%s: %s, between %s and %s: %s%s", what, g.Cause, stamp(g.Earliest), stamp(g.Latest), g.Note,
		yes(g.Bypass, "; a bypass grant may be among them", ""))
}

// pressingRecords are those that a person should see: in a conflict, not clean, or noted.
func pressingRecords(r *Report) (out []*Record) {
	for i := range r.Records {
		x := &r.Records[i]
		if len(x.Conflicts) > 0 || x.Check == Wrong || x.Check == Failed || len(x.Hand) > 0 {
			out = append(out, x)
		}
	}
	return out
}

// awaited says what may still change a conflict.
func awaited(c *Conflict) string {
	switch {
	case !c.Provisional:
		return ""
	case len(c.Awaited) == 0:
		return ", provisional: events are missing"
	}
	return ", provisional: waits for " + strings.Join(c.Awaited, ", ")
}

func certainty(c *Conflict) string { return yes(c.Certain, "certain", "possible") }

func about(m *reconcile.Interval) string {
	b := &m.Business
	if b.IsZero() {
		return ""
	}
	return fmt.Sprintf(", %s %s:%s %+d", b.Op, b.Type, b.ID, b.Delta)
}

func yes(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func joined[T ~string](words []T) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return strings.Join(all, ", ")
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
