package incident

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
)

// lives has two producers beat every minute from before the period until after it, under
// order 7 from minute 5 to 20.
func (s *stream) lives(during func(minute int)) *stream {
	for _, p := range []string{"shop-1", "shop-2"} {
		s.hello(p, at(-15*time.Minute))
	}
	for minute := -14; minute <= 35; minute++ {
		tier, version := "shared", uint64(0)
		if minute >= 5 && minute < 20 {
			tier, version = "bypass", 7
		}
		for _, p := range []string{"shop-1", "shop-2"} {
			s.beat(p, at(time.Duration(minute)*time.Minute), tier, version)
		}
		if during != nil {
			during(minute)
		}
	}
	return s
}

func (s *stream) sealed() *stream {
	for _, p := range []string{"shop-1", "shop-2"} {
		s.seal(p, at(36*time.Minute))
	}
	return s
}

var order7 = audit.Switch{Version: 7, Reason: "store under attack"}

// bypass is a hold under the order.
func bypass(id string, from, last time.Duration) span {
	return span{tier: tierlock.Bypass, id: id, from: at(from), last: last, outcome: audit.Committed, order: order7, reason: tierlock.ReasonForced}
}

func make1(t *testing.T, s *stream, change ...func(*Config)) *Report {
	t.Helper()
	source := s.source()
	cfg := Config{From: begin, To: at(30 * time.Minute), Author: "kim", Source: source, Partitions: source.Partitions}
	for _, c := range change {
		c(&cfg)
	}
	r, err := Make(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAQuietPeriodIsCompleteAndClosed(t *testing.T) {
	r := make1(t, newStream(t).lives(nil).sealed())
	if !r.Exit() || !r.Certificate.Bypass || !r.Certificate.Complete {
		text, _ := json.MarshalIndent(r.Certificate, "", " ")
		t.Fatalf("total %+v\n%s", r.Total, text)
	}
	// Two processes, minutes 5 to 19, until the next heartbeat said otherwise.
	if len(r.Degraded) != 2 || r.Degraded[0] != (Stretch{"coupon", "shop-1", "bypass", at(5 * time.Minute), at(20 * time.Minute)}) {
		t.Errorf("degraded %+v", r.Degraded)
	}
	if len(r.Orders) != 1 || r.Orders[0].Version != 7 || r.Orders[0].Processes != 2 || r.Orders[0].First != at(5*time.Minute) || r.Orders[0].Last != at(19*time.Minute) {
		t.Errorf("orders %+v", r.Orders)
	}
}

func TestRequestsAreCountedByTierAndEnd(t *testing.T) {
	s := newStream(t)
	s.lives(func(minute int) {
		switch minute {
		case -5, 31: // outside
			s.hold("shop-1", bypass("out", time.Duration(minute)*time.Minute, time.Second))
		case 6:
			s.hold("shop-1", bypass("a", 6*time.Minute, time.Second))
			s.hold("shop-1", span{tier: tierlock.Local, id: "b", from: at(6 * time.Minute), last: time.Second, how: audit.Expired})
			s.hold("shop-1", span{tier: tierlock.Local, id: "c", from: at(6 * time.Minute), last: time.Second, how: audit.Lost})
			s.hold("shop-1", span{tier: tierlock.Local, id: "d", from: at(6 * time.Minute), last: time.Second, how: audit.Forced, outcome: audit.RolledBack})
			s.hold("shop-2", span{tier: tierlock.Local, id: "e", from: at(6 * time.Minute)})
			s.hold("shop-2", span{tier: tierlock.Shared, id: "f", from: at(6 * time.Minute), last: time.Second, outcome: audit.Committed})
			s.optimistic("shop-2", "g", at(6*time.Minute), tierlock.ReasonSlow, audit.Committed)
			s.optimistic("shop-2", "h", at(6*time.Minute), tierlock.ReasonSlow, audit.RolledBack)
			s.optimistic("shop-2", "i", at(6*time.Minute), tierlock.ReasonSlow, audit.Unknown)
			s.optimistic("shop-2", "j", at(6*time.Minute), tierlock.ReasonSaturated, audit.Unknown)
		}
	}).sealed()
	// An expiry is followed by the unlock of whoever had it: that is the last word.
	r := make1(t, s)
	want := []Requests{
		{Chain: "coupon", Tier: tierlock.Shared, Granted: 1, Released: 1, Committed: 1},
		{Chain: "coupon", Tier: tierlock.Local, Granted: 4, Expired: 1, Lost: 1, Forced: 1, Untold: 1, RolledBack: 1},
		{Chain: "coupon", Tier: tierlock.Bypass, Granted: 1, Released: 1, Committed: 1},
	}
	if !reflect.DeepEqual(r.Requests, want) {
		t.Errorf("got  %+v\nwant %+v", r.Requests, want)
	}
	answers := []Optimistic{
		{Chain: "coupon", Reason: tierlock.ReasonSaturated, Answers: 1, Untold: 1},
		{Chain: "coupon", Reason: tierlock.ReasonSlow, Answers: 3, Committed: 1, RolledBack: 1, Untold: 1},
	}
	if !reflect.DeepEqual(r.Optimistic, answers) {
		t.Errorf("got  %+v\nwant %+v", r.Optimistic, answers)
	}
	if r.Total.Bypassed != 1 || r.Total.Local != 4 || r.Total.Optimistic != 4 || r.Total.Shared != 1 || r.Total.Records != 10 {
		t.Errorf("total %+v", r.Total)
	}
}

// table is a store of findings and repairs in memory.
type table struct {
	findings []reconcile.Finding
	repaired map[string]int64
}

func (s *table) Between(_ context.Context, _, _ time.Time, do func(reconcile.Finding) error) error {
	for _, f := range s.findings {
		if err := do(f); err != nil {
			return err
		}
	}
	return nil
}

func (s *table) Repaired(_ context.Context, key string) (int64, time.Time, bool, error) {
	wrong, known := s.repaired[key]
	return wrong, begin, known, nil
}

func TestConflictsRecordsAndAmounts(t *testing.T) {
	s := newStream(t)
	s.lives(func(minute int) {
		if minute == 6 {
			for _, id := range []string{"u1", "u2", "u3"} {
				s.hold("shop-1", bypass(id, 6*time.Minute, time.Second))
				s.hold("shop-2", bypass(id, 6*time.Minute+200*time.Millisecond, time.Second))
			}
			s.hold("shop-1", bypass("alone", 6*time.Minute, time.Second))
			possible := bypass("maybe", 6*time.Minute, time.Second)
			possible.unsure = true
			s.hold("shop-1", possible)
			possible.from = possible.from.Add(1200 * time.Millisecond)
			s.hold("shop-2", possible)
			other := bypass("crate", 6*time.Minute, time.Second)
			other.kind = "stock"
			s.hold("shop-1", other)
		}
	}).sealed()
	asked := map[string]int{}
	hook := reconcile.Hook{Check: reconcile.CheckFunc(func(_ context.Context, c reconcile.Case) (int64, error) {
		asked[c.Business.ID]++
		return map[string]int64{"u2": 2, "alone": 5}[c.Business.ID], nil
	})}
	hooks := map[string]reconcile.Hook{"coupon": hook}

	bare := make1(t, s, func(c *Config) { c.Hooks = hooks; c.Owners = map[string]string{"coupon": "growth team"} })
	if want := map[string]int{"u1": 1, "u2": 1, "u3": 1, "alone": 1, "maybe": 1}; !reflect.DeepEqual(asked, want) {
		t.Errorf("asked %v, want every record of the period once: %v", asked, want)
	}
	if n := bare.Total; n.Conflicts != 4 || n.Certain != 3 || n.Possible != 1 || n.Records != 6 || n.Checked != 5 || n.Wrong != 2 {
		t.Errorf("total %+v", n)
	}
	// u2 is wrong, and so is its conflict; alone is wrong without one.
	if bare.Total.Open != 3 || bare.Exit() {
		t.Errorf("%d open, want 3", bare.Total.Open)
	}
	if want := []Amount{{Type: "coupon", AtRisk: 8, Open: 7}}; !reflect.DeepEqual(bare.Amounts, want) {
		t.Errorf("amounts %+v, want %+v", bare.Amounts, want)
	}
	if want := []Check{{Type: "coupon", Records: 5, Clean: 3, Wrong: 2}, {Type: "stock", Records: 1, Unchecked: 1}}; !reflect.DeepEqual(bare.Checks, want) {
		t.Errorf("checks %+v", bare.Checks)
	}
	if bare.Records[0].Owner != "growth team" || bare.Records[5].Owner != Unassigned {
		t.Errorf("owners %s, %s", bare.Records[0].Owner, bare.Records[5].Owner)
	}

	// The job has repaired u1, and calls one of the events nobody finds any more.
	store := &table{repaired: map[string]int64{}}
	var f reconcile.Finding
	for _, c := range bare.Conflicts {
		if strings.HasSuffix(c.Key.String(), ":u1") {
			f = reconcile.Finding{ID: c.ID, Kind: reconcile.KindOverlap, State: reconcile.StateRepaired, Key: c.Key, Members: c.Members, From: c.From, To: c.To}
		}
	}
	for _, c := range f.Cases(hooks) {
		f.Repairs = append(f.Repairs, reconcile.Repair{Key: c.ID, Loser: c.Loser.Event, Result: reconcile.ResultApplied, Wrong: 2})
		store.repaired[c.ID] = 2
	}
	gone := f
	gone.ID, gone.State, gone.Repairs = "gone", reconcile.StateOpen, nil
	store.findings = []reconcile.Finding{f, gone}
	r := make1(t, s, func(c *Config) { c.Hooks, c.Store = hooks, store })
	if r.Total.Conflicts != 5 || r.Amounts[0].Repaired != 2 || r.Amounts[0].AtRisk != 8 {
		t.Errorf("total %+v, amounts %+v", r.Total, r.Amounts)
	}
	where := map[string]int{}
	for _, c := range r.Conflicts {
		where[c.Where]++
	}
	if !reflect.DeepEqual(where, map[string]int{Both: 1, Found: 3, Stored: 1}) {
		t.Errorf("where %v", where)
	}
	i := slices.IndexFunc(r.Records, func(x Record) bool { return x.ID == "u1" })
	if x := r.Records[i]; x.Repaired != 2 || x.Action != actionRepaired || len(x.Conflicts) != 2 {
		t.Errorf("u1 %+v", x)
	}
}

func TestAConflictWithoutACheckStaysOpen(t *testing.T) {
	s := newStream(t)
	s.lives(func(minute int) {
		if minute == 6 {
			s.hold("shop-1", bypass("u1", 6*time.Minute, time.Second))
			s.hold("shop-2", bypass("u1", 6*time.Minute, time.Second))
		}
	}).sealed()
	if r := make1(t, s); r.Total.Open != 1 || r.Exit() {
		t.Errorf("total %+v", r.Total)
	}
}

func TestAFailingCheckIsOpenAndNotAskedForEver(t *testing.T) {
	s := newStream(t)
	s.lives(func(minute int) {
		if minute == 6 {
			for i := range 30 {
				s.hold("shop-1", bypass("u"+string(rune('a'+i%26))+string(rune('a'+i/26)), 6*time.Minute, time.Second))
			}
		}
	}).sealed()
	asked := 0
	hook := reconcile.Hook{Check: reconcile.CheckFunc(func(context.Context, reconcile.Case) (int64, error) {
		asked++
		return 0, errors.New("away")
	})}
	r := make1(t, s, func(c *Config) { c.Hooks = map[string]reconcile.Hook{"coupon": hook} })
	if asked != mostFailures || r.Checks[0].Failed != 30 || r.Total.Open != 30 {
		t.Errorf("asked %d times, checks %+v, %d open", asked, r.Checks, r.Total.Open)
	}
}

func TestRecordsOfHoldsThatReachIntoThePeriodAreTouched(t *testing.T) {
	s := newStream(t)
	s.lives(func(minute int) {
		if minute == -1 {
			s.hold("shop-1", bypass("before", -time.Minute, time.Second))
			s.hold("shop-1", bypass("reaches", -time.Minute, 2*time.Minute))
		}
	}).sealed()
	r := make1(t, s)
	if len(r.Records) != 1 || r.Records[0].ID != "reaches" || r.Total.Bypassed != 0 {
		t.Errorf("records %+v, total %+v", r.Records, r.Total)
	}
}

func TestRecordsBeyondTheMostAreCountedAndMakeItIncomplete(t *testing.T) {
	s := newStream(t)
	s.lives(func(minute int) {
		if minute == 6 {
			for _, id := range []string{"a", "b", "c", "a"} {
				s.hold("shop-1", bypass(id, 6*time.Minute, time.Millisecond))
			}
		}
	}).sealed()
	r := make1(t, s, func(c *Config) { c.MaxRecords = 1 })
	if len(r.Records) != 1 || r.Certificate.Unlisted != 2 || r.Total.Records != 3 || r.Certificate.Complete || !r.Certificate.Bypass {
		t.Errorf("%d listed, certificate %+v", len(r.Records), r.Certificate)
	}
}

func TestRefusedRequestsAreThoseOfThePeriod(t *testing.T) {
	s := newStream(t)
	beat := func(minute int, n uint64) {
		s.put("shop-3", audit.Event{
			Type: audit.TypeHeartbeat, At: at(time.Duration(minute) * time.Minute), Refused: audit.Refused{"coupon": {"system_error down": n}},
		}, false)
	}
	s.hello("shop-3", at(-20*time.Minute))
	beat(-10, 2)
	beat(-1, 3)
	beat(10, 7)
	beat(31, 9)
	beat(40, 50)
	s.lives(nil).sealed()
	r := make1(t, s)
	if want := []Refused{{"coupon", "system_error down", 6}}; !reflect.DeepEqual(r.Refused, want) || r.Total.Refused != 6 {
		t.Errorf("refused %+v, want %+v", r.Refused, want)
	}
}

func TestChangesOfHealthAreThoseOfThePeriod(t *testing.T) {
	s := newStream(t)
	s.hello("shop-3", at(-20*time.Minute))
	step := func(minute int, from, to string, reason tierlock.Reason) audit.Step {
		return audit.Step{At: at(time.Duration(minute) * time.Minute), Chain: "coupon", From: from, To: to, Reason: reason, Epoch: 1}
	}
	for _, x := range [][]audit.Step{{step(-2, "normal", "slow", tierlock.ReasonSlow)}, {step(3, "slow", "down", tierlock.ReasonDown), step(4, "down", "recovering", "")}, {step(31, "recovering", "normal", "")}} {
		s.put("shop-3", audit.Event{Type: audit.TypeHeartbeat, At: x[len(x)-1].At, Steps: x}, false)
	}
	s.lives(nil).sealed()
	want := []Health{
		{At: at(3 * time.Minute), Chain: "coupon", Producer: "shop-3", From: "slow", To: "down", Reason: tierlock.ReasonDown},
		{At: at(4 * time.Minute), Chain: "coupon", Producer: "shop-3", From: "down", To: "recovering"},
	}
	if r := make1(t, s); !reflect.DeepEqual(r.Health, want) {
		t.Errorf("health %+v", r.Health)
	}
}

func TestBadInputIsRefusedAtOnce(t *testing.T) {
	_, err := Make(t.Context(), Config{From: at(time.Hour), To: begin, Author: " x", MaxRecords: -1, Longest: -1, Owners: map[string]string{"": "a"}, Expect: []string{""}})
	fields := map[string]bool{}
	for _, f := range tierlock.Invalids(err) {
		fields[f.Field] = true
	}
	for _, want := range []string{"incident", "by", "source", "max_records", "longest", "owner", "expect"} {
		if !fields[want] {
			t.Errorf("%s is not refused: %v", want, err)
		}
	}
	for _, text := range []string{"", "x", "2026-11-29T10:00:00Z", "2026-11-29T10:00:00Z..2026-11-29T10:00:00Z", "2026-11-29T10:00:00Z..2026-11-29", "2026-01-01T00:00:00Z..2026-03-01T00:00:00Z"} {
		if _, _, err := ParsePeriod(text); len(tierlock.Invalids(err)) != 1 {
			t.Errorf("%q: %v", text, err)
		}
	}
	from, to, err := ParsePeriod("2026-11-29T12:00:00.5+02:00..2026-11-29T10:30:00Z")
	if err != nil || !from.Equal(at(500*time.Millisecond)) || !to.Equal(at(30*time.Minute)) {
		t.Errorf("%s, %s, %v", from, to, err)
	}
}
