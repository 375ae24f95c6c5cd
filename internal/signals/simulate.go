package signals

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/switchcfg"
)

const (
	tick    = 100 * time.Millisecond // a ladder looks so often, whether anything is recorded or not
	maxGap  = 15 * time.Second       // without a line for so long, nothing was recorded
	maxBack = 5 * time.Second        // lines of several goroutines may stand in another order, by far less
	maxLine = 64 << 10
	closely = 500 * time.Millisecond // two steps so near are the same
)

var errRefused = errors.New("refused by change")

// Change gives a chain's policy in place of the recorded one.
type Change func(chain string, recorded degrade.Policy) (degrade.Policy, error)

// Simulate replays a recording twice, under the policies that it holds and under those that
// change makes of them. An error names its line.
func Simulate(in io.Reader, change Change) (*Report, error) {
	s := &simulation{change: change, chains: map[string]*rehearsal{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	n := 0
	for lines.Scan() {
		n++
		if len(lines.Bytes()) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d is not one of a recording: %w", n, err)
		}
		if err := s.take(l); err != nil {
			return nil, errors.Join(s.refused, atLine(n, err))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	if len(s.chains) == 0 {
		return nil, fmt.Errorf("the recording names no chain")
	}
	return s.report(), nil
}

// atLine puts the line before the fields of refused input.
func atLine(n int, err error) error {
	var all []error
	for _, e := range tierlock.Invalids(err) {
		all = append(all, tierlock.Invalid(fmt.Sprintf("line %d: %s", n, e.Field), e.Value, e.Rule))
	}
	return errors.Join(all...)
}

// simulation is a recording on its way.
type simulation struct {
	change   Change
	chains   map[string]*rehearsal
	from, to time.Time
	dropped  int64
	refused  error // by change: no fault of the line
}

// rehearsal is one chain.
type rehearsal struct {
	recorded, other *world
	words           map[string]string // of the recorded policy
	order           *degrade.Order
	last            map[string]gateway.ExplainedSignals // by target
	now             time.Time
	unrecorded      time.Duration
	seen            []Step         // that really happened
	calls           map[string]int // what they really got
}

func (s *simulation) take(l line) error {
	if l.At.IsZero() {
		return tierlock.Invalid("at", "", "is missing")
	}
	if s.from.IsZero() {
		s.from = l.At
	}
	if l.At.After(s.to) {
		s.to = l.At
	}
	if l.Dropped > 0 {
		s.dropped += l.Dropped
		return nil
	}
	c := s.chains[l.Chain]
	if c != nil && l.At.Before(c.now.Add(-maxBack)) {
		return tierlock.Invalid("at", l.At.Format(time.RFC3339Nano), "is before what came before: give each file once, in the order of time")
	}
	if l.Policy != nil {
		return s.begin(c, l)
	}
	if c == nil {
		return tierlock.Invalid("chain", l.Chain, "has no policy line before this one")
	}
	c.advance(l.At)
	return c.take(l)
}

// begin takes a policy line. A process that starts begins in good health; a further file of
// one goes on.
func (s *simulation) begin(c *rehearsal, l line) error {
	recorded, err := policyOf(l.Policy)
	if err != nil {
		return err
	}
	other, err := s.change(l.Chain, recorded)
	if err != nil {
		s.refused = err
		return errRefused
	}
	switch {
	case c == nil:
		c = &rehearsal{recorded: newWorld(recorded), other: newWorld(other), calls: map[string]int{}}
		s.chains[l.Chain] = c
	case l.Start:
		c.advance(l.At)
	}
	if c.last == nil || l.Start {
		c.last, c.now, c.order = map[string]gateway.ExplainedSignals{}, l.At, nil
		for _, w := range c.worlds() {
			clear(w.machines)
			clear(w.window)
		}
	}
	c.words, c.recorded.policy, c.other.policy = l.Policy, recorded, other
	return nil
}

// policyOf reads a recorded policy. What a later release has added is left out; what it
// lacks has its default.
func policyOf(words map[string]string) (degrade.Policy, error) {
	p := degrade.Weak()
	if words["class"] == degrade.ClassStrong.String() {
		p = degrade.Strong()
	}
	known := switchcfg.Words(degrade.Weak())
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(words)) {
		if _, ok := known[name]; ok {
			fmt.Fprintf(&text, "%s: %s\n", name, words[name])
		}
	}
	if err := switchcfg.Decode([]byte(text.String()), &p); err != nil {
		return p, err
	}
	return p, p.Validate()
}

func (c *rehearsal) worlds() [2]*world { return [2]*world{c.recorded, c.other} }

// advance lets the time until at go by: the ladder goes on looking, and sees what it saw.
func (c *rehearsal) advance(at time.Time) {
	if at.Sub(c.now) > maxGap {
		c.unrecorded += at.Sub(c.now)
		c.now = at
		return
	}
	for c.now.Before(at) {
		next := c.now.Add(tick)
		if next.After(at) {
			next = at
		}
		for _, w := range c.worlds() {
			w.pass(c.order, c.now, next.Sub(c.now))
			if next.Before(at) {
				for target, seen := range c.last {
					w.step(target, seen.At(next))
				}
			}
		}
		c.now = next
	}
}

// take takes what one line tells, at the time that has come.
func (c *rehearsal) take(l line) error {
	switch {
	case l.Signals != nil:
		c.last[l.Target] = *l.Signals
		for _, w := range c.worlds() {
			w.step(l.Target, l.Signals.At(c.now))
		}
	case l.Stands != nil:
		for _, w := range c.worlds() {
			if w.machines[l.Target] == nil { // else it goes on as it was
				w.machines[l.Target] = &degrade.Machine{State: l.Stands.State, Since: l.Stands.Since, Reason: l.Stands.Reason}
			}
		}
	case l.Step != nil:
		step := *l.Step
		step.At, step.Target = l.At, l.Target
		c.seen = append(c.seen, step)
	case l.Order != nil:
		c.order = nil
		if l.Order.Mode > tierlock.ModeAuto {
			c.order = &degrade.Order{Mode: l.Order.Mode, Until: l.Order.Until, Percent: l.Order.Percent, Version: l.Order.Version}
		}
	case l.Calls != nil:
		n := 0
		for what, more := range l.Calls {
			c.calls[what] += more
			n += more
		}
		for _, w := range c.worlds() {
			w.count(n)
		}
	}
	return nil
}
