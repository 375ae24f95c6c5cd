package incident

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
)

// Question asks who held what around a point in time, and why.
type Question struct {
	Type string       // of the business record; empty: of any type
	ID   string       // of the business record; empty: by key alone
	Key  tierlock.Key // zero: every key under which the record was touched
	At   time.Time    // required

	// Open opens the partitions, nil for all, for reading from Longest before At to the
	// end; Why closes what it gets. It is asked twice: for the keys, and for their
	// partitions. Required.
	Open    func(partitions []int) (Closed, error)
	Longest time.Duration // default 10 min
	Rule    reconcile.Rule
	Store   Store // nil: nowhere
	Logger  *slog.Logger
}

// Closed is a closed source that knows its partitions.
type Closed interface {
	reconcile.Source
	io.Closer
	Partitions() []Partition // after Open or the first Next
}

// Validate reports every bad field at once.
func (q *Question) Validate() error {
	var errs []error
	if q.ID == "" && q.Key.IsZero() {
		errs = append(errs, tierlock.Invalid("biz", "", "is required without a key: want TYPE:ID or ID"))
	}
	if q.At.IsZero() {
		errs = append(errs, tierlock.Invalid("at", "", "is required: an instant, as 2026-11-29T10:00:00Z"))
	}
	if q.Open == nil {
		errs = append(errs, tierlock.Invalid("open", "nil", "is required"))
	}
	if q.Longest < 0 {
		errs = append(errs, tierlock.Invalid("longest", q.Longest.String(), "want a duration of zero (10m) or more"))
	}
	return errors.Join(append(errs, q.Rule.Validate())...)
}

// Answer is who held what.
type Answer struct {
	At        time.Time  `json:"at"`
	Record    string     `json:"record,omitempty"` // as it was asked for
	Keys      []string   `json:"keys"`             // that were looked at
	Holds     []Held     `json:"holds"`            // at that time, and the nearest before and after, by grant
	Conflicts []Conflict `json:"conflicts"`        // of those holds
	// Complete: nothing is known to be missing of the partitions of these keys at that time.
	Complete bool     `json:"complete"`
	Missing  []string `json:"missing"`
}

// Held is one hold, or one optimistic answer.
type Held struct {
	// When is held, maybe held, before or after, as seen from the time that was asked for.
	When     string             `json:"when"`
	Hold     reconcile.Interval `json:"hold"`
	Reason   tierlock.Reason    `json:"reason,omitempty"` // of the tier
	Why      string             `json:"why"`              // in a sentence
	Overlaps []Overlap          `json:"overlaps"`
	Findings []string           `json:"findings"` // ids of conflicts
	Action   string             `json:"action,omitempty"`
}

// Overlap is another hold that overlapped.
type Overlap struct {
	Event   string            `json:"event"`
	Holder  string            `json:"holder"`
	Certain bool              `json:"certain"`
	Causes  []reconcile.Cause `json:"causes"`
}

// The words of Held.When.
const (
	WhenHeld   = "held"
	WhenMaybe  = "maybe held"
	WhenBefore = "before"
	WhenAfter  = "after"
)

// Why answers q. It reads all that came after At too: late events count.
func Why(ctx context.Context, q Question) (*Answer, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if q.Logger == nil {
		q.Logger = slog.New(slog.DiscardHandler)
	}
	if q.Longest == 0 {
		q.Longest = 10 * time.Minute
	}
	q.At = q.At.UTC()
	keys, partitions, err := q.keys(ctx)
	if err != nil {
		return nil, err
	}
	a := &Answer{At: q.At, Keys: sorted(keys), Holds: []Held{}, Conflicts: []Conflict{}, Missing: []string{}}
	if q.ID != "" {
		a.Record = q.ID
		if q.Type != "" {
			a.Record = q.Type + ":" + q.ID
		}
	}
	if len(keys) == 0 {
		a.Missing = append(a.Missing, "no event since "+stamp(q.At.Add(-q.Longest))+" names this record")
		return a, nil
	}
	return a, q.answer(ctx, a, keys, partitions)
}

// keys finds the keys to look at, and the partitions that they are in.
func (q *Question) keys(ctx context.Context) (keys map[string]bool, partitions []int, err error) {
	source, err := q.Open(nil)
	if err != nil {
		return nil, nil, err
	}
	defer source.Close()
	keys = map[string]bool{}
	if !q.Key.IsZero() {
		keys[q.Key.String()] = true
	}
	var parser audit.Parser
	for {
		b, err := source.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if !q.Key.IsZero() {
			break // the key is known: only the number of partitions was asked for
		}
		for i := range b.Records {
			ev, err := parser.Parse(b.Records[i].Value)
			if err == nil && !ev.Type.Marker() && q.names(&ev.Business) {
				keys[ev.Key.String()] = true
			}
		}
	}
	n := len(source.Partitions())
	in := map[int]bool{}
	for key := range keys {
		in[audit.PartitionOf(key, n)] = true
	}
	return keys, sorted(in), nil
}

func (q *Question) names(b *audit.Business) bool {
	return b.ID == q.ID && (q.Type == "" || b.Type == q.Type)
}

// listener is the ledger of a moment that also keeps the holds of some keys.
type listener struct {
	*ledger
	keys    map[string]bool
	gather  reconcile.Gather
	reasons map[holdKey]tierlock.Reason
	scan    audit.Parser
}

// Next implements [reconcile.Source].
func (l *listener) Next(ctx context.Context) (reconcile.Batch, error) {
	b, err := l.ledger.Next(ctx)
	for i := range b.Records {
		ev, bad := l.scan.Parse(b.Records[i].Value)
		if bad != nil || ev.Type.Marker() || !l.keys[ev.Key.String()] {
			continue
		}
		l.gather.Take(&ev)
		if ev.Reason != "" {
			l.reasons[holdKey{ev.Key.String(), ev.Holder}] = ev.Reason
		}
	}
	return b, err
}

func (q *Question) answer(ctx context.Context, a *Answer, keys map[string]bool, partitions []int) error {
	source, err := q.Open(partitions)
	if err != nil {
		return err
	}
	defer source.Close()
	m := newMaker(Config{
		From: q.At.Add(-q.Longest), To: q.At.Add(time.Microsecond), Author: "why", Source: source, Partitions: source.Partitions,
		Longest: q.Longest, Rule: q.Rule, Store: q.Store, Logger: q.Logger,
	}.withDefaults())
	l := &listener{ledger: m.ledger, keys: keys, reasons: map[holdKey]tierlock.Reason{}}
	if err := m.readFrom(ctx, l); err != nil {
		return err
	}
	stored, err := m.stored(ctx)
	if err != nil {
		return err
	}
	q.missing(a, m.ledger.certify(m.memory.gaps(stored)))
	holds := q.near(l.gather.Holds())
	a.Holds = q.held(holds, l.reasons)
	return q.conflicts(ctx, m, a, stored)
}

// missing tells in sentences what may be missing at that time.
func (q *Question) missing(a *Answer, c Certificate) {
	for i := range c.Gaps {
		if !c.Gaps[i].Latest.IsZero() && c.Gaps[i].Latest.Before(q.At.Add(-q.Longest)) {
			continue
		}
		a.Missing = append(a.Missing, gapText(&c.Gaps[i]))
	}
	for _, t := range c.Tails {
		a.Missing = append(a.Missing, fmt.Sprintf("%s epoch %d told everything until %s: %s", t.Producer, t.Epoch, stamp(t.Told), t.Note))
	}
	if c.Unreadable > 0 {
		a.Missing = append(a.Missing, strconv.Itoa(c.Unreadable)+" records are no events")
	}
	a.Complete = len(a.Missing) == 0 && len(c.Producers) > 0
}

// neighbours is how many holds before and after are told.
const neighbours = 3

// near picks the holds that were, or may have been, in hand at that time, and the nearest
// before and after.
func (q *Question) near(all []reconcile.Interval) (out []reconcile.Interval) {
	var earlier, later []reconcile.Interval
	for _, iv := range all {
		if q.ID != "" && !q.names(&iv.Business) && !iv.Business.IsZero() {
			continue // a coarse key: it was about another record
		}
		switch q.when(&iv) {
		case WhenBefore:
			earlier = append(earlier, iv)
		case WhenAfter:
			later = append(later, iv)
		default:
			out = append(out, iv)
		}
	}
	slices.SortStableFunc(earlier, func(a, b reconcile.Interval) int { return a.Latest.Compare(b.Latest) })
	earlier = earlier[max(0, len(earlier)-neighbours):]
	later = later[:min(len(later), neighbours)]
	out = slices.Concat(earlier, out, later)
	slices.SortStableFunc(out, func(a, b reconcile.Interval) int { return a.GrantedAt.Compare(b.GrantedAt) })
	return out
}

// when places a hold around the time that was asked for; its clock may be off by its error.
func (q *Question) when(iv *reconcile.Interval) string {
	margin := iv.Error
	if margin <= 0 {
		if margin = q.Rule.DefaultError; margin == 0 {
			margin = 500 * time.Millisecond
		}
	}
	switch {
	case iv.Latest.Add(margin).Before(q.At):
		return WhenBefore
	case iv.GrantedAt.Add(-margin).After(q.At):
		return WhenAfter
	case !iv.GrantedAt.Add(margin).After(q.At) && iv.Ended() && !iv.EndedAt.Add(-margin).Before(q.At):
		return WhenHeld
	}
	return WhenMaybe
}

func (q *Question) held(holds []reconcile.Interval, reasons map[holdKey]tierlock.Reason) []Held {
	out := []Held{}
	for i := range holds {
		iv := holds[i]
		h := Held{When: q.when(&iv), Hold: iv, Reason: reasons[holdKey{iv.Key.String(), iv.Holder}], Overlaps: []Overlap{}, Findings: []string{}}
		h.Why = because(&iv, h.Reason)
		for j := range holds {
			if j == i {
				continue
			}
			between := reconcile.Overlaps
			if holds[j].Key != iv.Key {
				between = reconcile.SplitKeys
			}
			for _, f := range between(q.Rule, []reconcile.Interval{iv, holds[j]}) {
				h.Overlaps = append(h.Overlaps, Overlap{Event: holds[j].Event, Holder: holds[j].Holder, Certain: f.Certain, Causes: f.Causes})
			}
		}
		out = append(out, h)
	}
	return out
}

// because says in a sentence why the hold was served on its tier.
func because(iv *reconcile.Interval, reason tierlock.Reason) string {
	order := ""
	if iv.Switch.Version != 0 {
		order = fmt.Sprintf("by the operators' order of version %d (%s)", iv.Switch.Version, iv.Switch.Reason)
	}
	own := ""
	if reason != "" {
		own = "reason " + string(reason)
	}
	cause := order
	switch {
	case order == "" && own == "":
		cause = "no reason is told"
	case order == "":
		cause = own
	case own != "":
		cause += ", " + own
	}
	switch iv.Tier {
	case tierlock.Bypass:
		return "let through: " + cause + "; nobody was excluded"
	case tierlock.Local:
		return "locked inside " + iv.Producer + " alone: " + cause
	case tierlock.Optimistic:
		return "nothing was held: " + cause + "; the caller compared a version"
	}
	text := "granted by the store " + iv.Store
	if iv.Token != 0 {
		text += " with token " + strconv.FormatUint(uint64(iv.Token), 10)
	}
	if order != "" {
		text += ", " + order
	}
	return text
}

// conflicts ties the holds to their findings and what was done about them.
func (q *Question) conflicts(ctx context.Context, m *maker, a *Answer, stored []reconcile.Finding) error {
	by := map[string][]int{} // event → holds
	for i := range a.Holds {
		by[a.Holds[i].Hold.Event] = append(by[a.Holds[i].Hold.Event], i)
	}
	for _, b := range m.memory.overlaps(stored) {
		f, _ := b.finding()
		among := false
		for i := range f.Members {
			for _, at := range by[f.Members[i].Event] {
				h := &a.Holds[at]
				h.Hold.Latest = f.Members[i].Latest // the job knows whether the process lived on
				h.Findings = append(h.Findings, f.ID)
				among = true
			}
		}
		if !among {
			continue
		}
		c, err := m.conflict(ctx, b)
		if err != nil {
			return err
		}
		c.Open = open(&c, nil)
		a.Conflicts = append(a.Conflicts, c)
		for _, r := range f.Repairs {
			for _, at := range by[r.Loser] {
				a.Holds[at].Action = "repair " + string(r.Result)
			}
		}
	}
	return nil
}

// WriteText writes the answer for people.
func (a *Answer) WriteText(w io.Writer) error {
	p := printer{w}
	what := a.Record
	if what == "" {
		what = "the key"
	}
	p.line("question", "who held %s at %s", clean(what), stamp(a.At))
	for _, key := range a.Keys {
		p.line("key", "%s", clean(key))
	}
	inside := 0
	for i := range a.Holds {
		h := &a.Holds[i]
		if h.When == WhenHeld || h.When == WhenMaybe {
			inside++
		}
		iv := &h.Hold
		ended := yes(iv.How == "", yes(iv.EndedAt.IsZero(), "its end was not told", "ended"), string(iv.How))
		p.line(h.When, "%s to %s, %s, %s at %s, key %s%s", stamp(iv.GrantedAt), stamp(iv.EndedAt), iv.Tier, clean(iv.Holder), clean(iv.Producer),
			clean(iv.Key.String()), clean(about(iv)))
		p.line("", "why: %s", clean(h.Why))
		p.line("", "end: %s, work %s", ended, yes(iv.Outcome == "", "not told", clean(string(iv.Outcome))))
		for _, o := range h.Overlaps {
			p.line("", "overlaps %s (%s): %s, %s", clean(o.Holder), clean(o.Event), yes(o.Certain, "certain", "possible"), clean(joined(o.Causes)))
		}
		for _, id := range h.Findings {
			p.line("", "finding %s%s", id, yes(h.Action == "", "", ", "+h.Action))
		}
	}
	if inside == 0 {
		p.line("nobody", "is told to have held it then")
	}
	for i := range a.Conflicts {
		c := &a.Conflicts[i]
		p.line("finding", "%s %s %s: %d holds, cause %s, %s", c.ID, certainty(c), c.State, c.Holds, clean(joined(c.Causes)), c.Where)
	}
	for _, m := range a.Missing {
		p.line("missing", "%s", clean(m))
	}
	p.line("complete", "%s", yes(a.Complete, "yes: every event of these partitions until then was seen", "NO"))
	return nil
}
