//go:build !nodemo

package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// view shows the story while it goes on. On a terminal a block at the bottom is drawn over
// again, in colours unless NO_COLOR is set; elsewhere every second and every flip is a
// line. Its methods may be called from any goroutine.
type view struct {
	w      io.Writer
	live   bool // redraw
	colour bool

	mu    sync.Mutex
	drawn int // lines of the block that stand on the terminal now
}

// board is one moment of the story.
type board struct {
	at     time.Duration
	phase  string
	chains []chainBoard
	order  string // what the switch says, with its countdown; empty: nothing
}

// chainBoard is one chain on all instances.
type chainBoard struct {
	name      string
	places    []place
	rate      float64 // requests per second
	requests  int64
	conflicts int64
}

// place is where one chain of one instance stands.
type place struct{ instance, tier, reason string }

func newView(w io.Writer) *view {
	v := &view{w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		v.live = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	v.colour = v.live && os.Getenv("NO_COLOR") == ""
	return v
}

// every is how often the board is worth showing.
func (v *view) every() time.Duration {
	if v.live {
		return 200 * time.Millisecond
	}
	return time.Second
}

// say writes a line that stays.
func (v *view) say(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wipe()
	fmt.Fprintf(v.w, format+"\n", args...)
}

// phase announces the next part of the story.
func (v *view) phase(at time.Duration, name, what string) {
	v.say("%s", v.paint(bold, fmt.Sprintf("\n%5.1fs  %s", at.Seconds(), strings.ToUpper(name)))+"  "+what)
}

// flip tells of one change of tier.
func (v *view) flip(f Flip) {
	v.say("%5.1fs  %s %-6s %s → %s  (%s)", f.At, f.Instance, f.Chain, v.tier(f.From), v.tier(f.To), f.Reason)
}

// show draws the board.
func (v *view) show(b board) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.live {
		fmt.Fprintln(v.w, v.line(b))
		return
	}
	v.wipe()
	lines := v.block(b)
	fmt.Fprint(v.w, strings.Join(lines, "\n")+"\n")
	v.drawn = len(lines)
}

// end leaves the terminal as a reader expects it.
func (v *view) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wipe()
}

// wipe takes the block away: what is written next goes above the next one.
func (v *view) wipe() {
	if v.drawn > 0 {
		fmt.Fprintf(v.w, "\x1b[%dA\x1b[J", v.drawn)
		v.drawn = 0
	}
}

// line is the board in one line, for pipes and logs.
func (v *view) line(b board) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%5.1fs  %-9s", b.at.Seconds(), b.phase)
	for _, c := range b.chains {
		fmt.Fprintf(&s, "  %s %-10s %4.0f/s %d conflicts", c.name, summary(c.places), c.rate, c.conflicts)
	}
	if b.order != "" {
		s.WriteString("  " + b.order)
	}
	return s.String()
}

// summary is the tier all instances share, or each one's.
func summary(places []place) string {
	var tiers []string
	for _, p := range places {
		if len(tiers) == 0 || tiers[len(tiers)-1] != p.tier {
			tiers = append(tiers, p.tier)
		}
	}
	return strings.Join(tiers, "/")
}

// block is the board on a terminal.
func (v *view) block(b board) []string {
	lines := []string{"", v.paint(dim, fmt.Sprintf("%5.1fs  %s", b.at.Seconds(), b.phase))}
	for _, c := range b.chains {
		for i, p := range c.places {
			name := c.name
			if i > 0 {
				name = ""
			}
			line := fmt.Sprintf("  %-7s %-7s %s", name, p.instance, v.tier(fmt.Sprintf("%-10s", p.tier)))
			if i == 0 {
				line += fmt.Sprintf(" %6.0f/s %8d requests %6d conflicts ", c.rate, c.requests, c.conflicts)
			} else {
				line += strings.Repeat(" ", 43)
			}
			lines = append(lines, line+v.paint(dim, p.reason))
		}
	}
	order := "  switch  none"
	if b.order != "" {
		order = v.paint(red, "  "+b.order)
	}
	return append(lines, order)
}

// The colours, by what they mean here.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// tier paints the name of a tier, blanks around it included.
func (v *view) tier(name string) string {
	switch strings.TrimSpace(name) {
	case "shared":
		return v.paint(green, name)
	case "optimistic":
		return v.paint(cyan, name)
	case "local":
		return v.paint(yellow, name)
	}
	return v.paint(red, name)
}

func (v *view) paint(code, s string) string {
	if !v.colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
