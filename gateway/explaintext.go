package gateway

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
)

// WriteText writes the explanation for a person: what a new request would meet, then what
// that rests on.
func (x *Explanation) WriteText(w io.Writer) error {
	var p page
	p.line("%s, chain %s (%s): %s", x.Key, x.Chain, x.Class, x.Protects)
	if !x.Asked.IsZero() {
		p.line("  is the slot of %s", x.Asked)
	}
	p.row("a new request", "%s", x.Next)
	if o := x.Next.Others; o != nil {
		p.row("", "the others: %s", *o)
	}
	x.writeWhy(&p)
	x.writeHolders(&p)
	for i := range x.Steps {
		s := &x.Steps[i]
		p.row(first(i, "health changed"), "%s %s to %s%s", clock(s.At), s.From, s.To, because(s.Reason, s.To.String()))
	}
	for i := range x.Orders {
		p.row(first(i, "order changed"), "%s %s", clock(x.Orders[i].At), x.Orders[i])
	}
	words := make([]string, 0, len(x.Policy))
	for _, name := range slices.Sorted(maps.Keys(x.Policy)) {
		if name != "protects" && name != "class" {
			words = append(words, name+" "+x.Policy[name])
		}
	}
	for i := 0; i < len(words); i += 4 {
		p.row(first(i, "policy"), "%s", strings.Join(words[i:min(i+4, len(words))], ", "))
	}
	_, err := w.Write(p.Bytes())
	return err
}

// writeWhy writes the order and the health that the ladder went by.
func (x *Explanation) writeWhy(p *page) {
	switch o := x.Order; {
	case o == nil:
		p.row("order", "none (switch version %d)", x.Applied)
	case !o.Covers:
		p.row("order", "%s; this key is not among its %d %%", *o, o.Percent)
	default:
		p.row("order", "%s", *o)
	}
	if d := x.DryRun; d != nil {
		p.row("dry run", "%s; nobody obeys it", *d)
	}
	if x.Withheld > 0 {
		p.row("withheld", "switch version %d, for a canary without this instance", x.Withheld)
	}
	h := &x.Health
	name := h.Store
	if h.Target != "" {
		name += "/" + h.Target
	}
	p.row("health", "%s %s since %s%s, %s so far", name, h.State, clock(h.Since), because(h.Reason, h.State.String()), counted(int(h.Steps), "change"))
	p.row("", "%d of %d on the wire, %d of this chain; %s", h.Out, h.Limit, h.Own, h.Sensed)
	if h.LockDelay > 0 {
		p.row("", "may have lost its memory: nothing is granted for %s more", forMS(h.LockDelay))
	}
}

// writeHolders writes who has the key, and who wants it.
func (x *Explanation) writeHolders(p *page) {
	switch s := &x.Store; s.Found {
	case "held":
		where := "not by this process"
		if s.Here {
			where = "by this process"
		}
		p.row("on the store", "held by %s %s, %s", s.Holder, s.lasts(), where)
	case "free":
		p.row("on the store", "free")
	default:
		p.row("on the store", "unknown: %s (%s)", s.Fault, s.Error)
	}
	for i := range x.Holders {
		p.row(first(i, "in this process"), "%s", x.Holders[i])
	}
	switch more := x.Held - len(x.Holders); {
	case x.Held == 0:
		p.row("in this process", "no lock")
	case more > 0:
		p.row("", "and %d more", more)
	}
	p.row("waiting here", "%s", counted(x.Waiting, "call"))
	for i := range x.InDoubt {
		d := &x.InDoubt[i]
		p.row(first(i, "in doubt"), "%s since %s, free at the latest at %s", d.Holder, clock(d.Since), clock(d.Until))
	}
	switch more := x.Doubtful - len(x.InDoubt); {
	case x.Doubtful == 0:
		p.row("in doubt", "nothing")
	case more > 0:
		p.row("", "and %d more", more)
	}
}

// lasts is for how long the key is held, in words.
func (s *ExplainedStore) lasts() string {
	switch {
	case s.Endless:
		return "without a ttl: it never ends by itself"
	case s.Remaining == 0:
		return "for less than a millisecond, or the store does not tell for how long"
	}
	return "for " + forMS(s.Remaining) + " more"
}

// String is the answer in words.
func (n ExplainedNext) String() string {
	s := n.Outcome.String()
	if n.Outcome == tierlock.Success {
		s = n.Tier.String()
	}
	s += because(n.Reason, "")
	if n.Advice != 0 {
		s += ", advice " + n.Advice.String()
	}
	switch n.Admits {
	case "trickle":
		s += "; two a second try"
	case "ramp":
		s += fmt.Sprintf("; %.0f %% of the wire may be out", 100*n.Share)
	case "under":
		s += fmt.Sprintf("; less than %.0f %% of the wire may be out", 100*n.Share)
	case "one":
		s += "; one call of this process at a time asks for the key, the others wait for it"
	}
	if n.Observed != "" {
		s += "; only observed: " + string(n.Observed)
	}
	if n.By != "" {
		s += "; decided by the " + strings.ReplaceAll(n.By, "_", " ")
	}
	return s
}

// String is the order in words.
func (o ExplainedOrder) String() string {
	if o.Mode <= tierlock.ModeAuto {
		return "none any more"
	}
	return fmt.Sprintf("%s until %s, version %d by %s: %s", o.Mode, clock(o.Until), o.Version, o.By, o.Reason)
}

// String names the lock and what is left of it.
func (h ExplainedHolder) String() string {
	s := fmt.Sprintf("%s by %s since %s, %s left, %s", h.Tier, h.Holder, clock(h.AcquiredAt), forMS(h.Expires), counted(h.Entries, "entry"))
	if h.Token != 0 {
		s += fmt.Sprintf(", token %d", h.Token)
	}
	return s + because(h.Reason, "")
}

// String names what is not as on a healthy day.
func (s ExplainedSignals) String() string {
	parts := []string{fmt.Sprintf("occupancy %.2f (weak %.2f)", s.Occupancy, s.WeakOccupancy)}
	for _, sign := range []struct {
		on   bool
		text string
	}{
		{s.Timeouts > 0, counted(s.Timeouts, "timeout") + " within 1 s"},
		{s.Failures > 0, counted(s.Failures, "failure") + " in a row"},
		{s.Refused, "refused"},
		{s.Open, "breaker open"},
		{s.ProbeFailed, "last probe failed"},
		{s.Unanswered > 0, "probes unanswered for " + forMS(s.Unanswered)},
		{s.Probes > 0, counted(s.Probes, "probe") + " answered in a row, " + fmt.Sprint(s.FastProbes) + " fast"},
	} {
		if sign.on {
			parts = append(parts, sign.text)
		}
	}
	return strings.Join(parts, ", ")
}

// page is text in the making: lines, and rows that have a name.
type page struct{ bytes.Buffer }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *page) row(name, format string, args ...any) {
	p.line("  %-16s %s", name, fmt.Sprintf(format, args...))
}

// first is name for the first of several rows.
func first(i int, name string) string {
	if i > 0 {
		return ""
	}
	return name
}

// because adds a reason that says more than known does.
func because(reason tierlock.Reason, known string) string {
	if reason == "" || string(reason) == known {
		return ""
	}
	return " (" + string(reason) + ")"
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	plural, isY := strings.CutSuffix(what, "y")
	if isY {
		plural += "ie"
	}
	return fmt.Sprintf("%d %ss", n, plural)
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }

func forMS(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }
