package incident

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/tierlock/tierlock/reconcile"
)

//go:embed page.html
var pageText string

// page escapes every value for the place it stands in: keys, reasons and ids are written
// by others.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"stamp": stamp, "clean": clean, "causes": func(c []reconcile.Cause) string { return clean(joined(c)) },
	"about": func(m reconcile.Interval) string { return clean(about(&m)) }, "awaited": func(p picture) string { return clean(awaited(p.Conflict)) }, "gap": func(g Gap) string { return clean(gapText(&g)) },
}).Parse(pageText))

// mostPictures is how many conflicts the page draws; the JSON has all.
const mostPictures = 200

// WriteHTML writes d as one page that needs nothing else: no script, no picture, no font,
// nothing from anywhere.
func (d *Document) WriteHTML(w io.Writer) error {
	r := d.Report
	view := struct {
		*Document
		Pictures []picture
		More     int
		Pressing []*Record
		Rest     int
		Causes   []causeCount
	}{Document: d, Pressing: pressingRecords(r)}
	for i := range r.Conflicts {
		if i == mostPictures {
			view.More = len(r.Conflicts) - i
			break
		}
		view.Pictures = append(view.Pictures, draw(&r.Conflicts[i], r.From, r.To))
	}
	for _, c := range causesOf(r) {
		view.Causes = append(view.Causes, causeCount{clean(c), r.Causes[c]})
	}
	if len(view.Pressing) > mostPictures*5 {
		view.Pressing = view.Pressing[:mostPictures*5]
	}
	view.Rest = r.Total.Records - len(view.Pressing)
	return page.Execute(w, view)
}

type causeCount struct {
	Cause string
	Count int
}

// picture is a conflict with its timeline: one line for each hold, by grant.
type picture struct {
	*Conflict
	Height int
	Bars   []bar
	Ticks  []tick
	Edges  []int // where the period begins or ends, as far as it is in the picture
	More   int   // holds that are not drawn
}

// bar is one hold. Before and After are its clock error; Tail is the time in which it may
// have gone on.
type bar struct {
	X, W, Y      int
	Before       int
	After        int
	TailX, TailW int
	Mid          int    // the y of its middle
	Text, TextX  int    // where its label stands
	Anchor       string // which end of it
	Class        string
	Label        string
	Title        string
}

type tick struct {
	X     int
	Label string
}

const (
	drawLeft  = 45 // room for half of a tick's label
	drawWidth = 710
	drawLine  = 22
	drawRight = drawLeft + drawWidth
	drawLate  = drawLeft + drawWidth*2/3 // a label that begins later would leave the picture
)

// draw lays the members out between their first stretched start and last stretched end.
func draw(c *Conflict, from, to time.Time) picture {
	p := picture{Conflict: c, Height: drawLine*len(c.Members) + 30, More: max(c.Holds-len(c.Members), 0)}
	if len(c.Members) == 0 {
		return p
	}
	first, last := c.Members[0].GrantedAt.Add(-c.Members[0].Error), c.Members[0].Latest
	for i := range c.Members {
		m := &c.Members[i]
		first, last = earlier(first, m.GrantedAt.Add(-m.Error)), later(last, m.Latest.Add(m.Error))
	}
	span := max(last.Sub(first), time.Microsecond)
	x := func(t time.Time) int {
		return drawLeft + int(float64(drawWidth)*min(max(float64(t.Sub(first))/float64(span), 0), 1))
	}
	for i := range c.Members {
		m := &c.Members[i]
		end := m.EndedAt
		if end.IsZero() {
			end = m.Latest
		}
		b := bar{
			X: x(m.GrantedAt), Y: drawLine*i + 4, Text: drawLine*i + 15, Class: m.Tier.String(), Before: x(m.GrantedAt.Add(-m.Error)), After: x(end.Add(m.Error)),
			TailX: x(end), Label: clean(m.Tier.String() + " " + m.Holder),
			Title: clean(fmt.Sprintf("%s %s at %s, %s to %s, ended %s%s", m.Tier, m.Holder, m.Producer, stamp(m.GrantedAt), stamp(m.EndedAt), orNone(string(m.How)), yes(m.Key == c.Key, "", ", key "+m.Key.String())+about(m))),
		}
		b.Mid, b.TextX, b.Anchor = b.Y+7, b.X, "start"
		if b.X > drawLate {
			b.TextX, b.Anchor = drawRight, "end"
		}
		b.W = max(x(end)-b.X, 1)
		b.TailW = max(x(m.Latest)-b.TailX, 0)
		p.Bars = append(p.Bars, b)
	}
	for i := range 5 {
		at := first.Add(span * time.Duration(i) / 4)
		p.Ticks = append(p.Ticks, tick{drawLeft + drawWidth*i/4, at.UTC().Format("15:04:05.000")})
	}
	for _, edge := range []time.Time{from, to} {
		if edge.After(first) && edge.Before(last) {
			p.Edges = append(p.Edges, x(edge))
		}
	}
	return p
}

func orNone(how string) string { return yes(how == "", "not told", how) }
