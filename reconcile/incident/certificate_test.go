package incident

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
)

func TestALostEventIsNamed(t *testing.T) {
	for _, tt := range []struct {
		minute  int
		touches bool
	}{{-5, false}, {6, true}, {33, false}} {
		var seq uint64
		s := newStream(t)
		s.lives(func(minute int) {
			if minute == tt.minute {
				x := bypass("u1", time.Duration(minute)*time.Minute, time.Second)
				x.lost = true
				seq = s.hold("shop-1", x)
			}
		}).sealed()
		c := make1(t, s).Certificate
		if !tt.touches {
			if !c.Complete || len(c.Gaps) != 0 {
				t.Errorf("minute %d: %+v", tt.minute, c.Gaps)
			}
			continue
		}
		if c.Bypass || c.Complete || len(c.Gaps) != 1 {
			t.Fatalf("minute %d: bypass %t, gaps %+v", tt.minute, c.Bypass, c.Gaps)
		}
		g := c.Gaps[0]
		if g.Producer != "shop-1" || g.From != seq || g.To != seq || g.Cause != "sequence" || !g.Bypass ||
			g.Earliest != at(6*time.Minute) || g.Latest != at(7*time.Minute) {
			t.Errorf("gap %+v, want seq %d of shop-1 between minutes 6 and 7", g, seq)
		}
	}
}

// TestAGapThatHasFilledSinceIsNone: the job had named it, and the event came later.
func TestAGapThatHasFilledSinceIsNone(t *testing.T) {
	var came, lost uint64
	s := newStream(t)
	s.lives(func(minute int) {
		if minute == 6 {
			came = s.hold("shop-1", bypass("u1", 6*time.Minute, time.Second))
			x := bypass("u2", 6*time.Minute, time.Second)
			x.lost = true
			lost = s.hold("shop-1", x)
		}
	}).sealed()
	gap := func(from uint64) reconcile.Finding {
		return reconcile.Finding{
			ID: fmt.Sprint("gap", from), Kind: reconcile.KindGap, State: reconcile.StateOpen, From: at(7 * time.Minute), To: at(7 * time.Minute),
			Gap: &reconcile.Gap{Producer: "shop-1", Epoch: 1, Cause: "sequence", From: from, To: from, At: at(7 * time.Minute)},
		}
	}
	c := make1(t, s, func(c *Config) { c.Store = &table{findings: []reconcile.Finding{gap(came), gap(lost)}} }).Certificate
	for _, g := range c.Gaps {
		if g.From != lost {
			t.Errorf("gap %+v", g)
		}
	}
	if len(c.Gaps) != 2 { // as found now, and as stored
		t.Errorf("%d gaps", len(c.Gaps))
	}
}

// TestEveryLostEventOfThePeriodIsNamed drops each hold's acquire in turn.
func TestEveryLostEventOfThePeriodIsNamed(t *testing.T) {
	for lost := range 6 {
		n := 0
		var seq uint64
		s := newStream(t)
		s.lives(func(minute int) {
			if minute < 6 || minute >= 9 {
				return
			}
			for _, p := range []string{"shop-1", "shop-2"} {
				x := bypass(p+string(rune('a'+minute)), time.Duration(minute)*time.Minute, time.Second)
				x.lost = n == lost
				if at := s.hold(p, x); x.lost {
					seq = at
				}
				n++
			}
		}).sealed()
		c := make1(t, s).Certificate
		if c.Bypass || len(c.Gaps) != 1 || c.Gaps[0].From != seq {
			t.Errorf("hold %d, seq %d: bypass %t, gaps %+v", lost, seq, c.Bypass, c.Gaps)
		}
	}
}

func TestACrashIsAGapButNotOfBypass(t *testing.T) {
	s := newStream(t)
	s.lives(nil)
	s.seal("shop-1", at(36*time.Minute))
	// shop-3 dies in the period and comes back after it, with a new epoch in one folder.
	s.hello("shop-3", at(-5*time.Minute))
	s.beat("shop-3", at(10*time.Minute), "bypass", 7)
	back := func(ev audit.Event) {
		ev.Epoch, ev.At = 2, at(40*time.Minute)
		s.put("shop-3", ev, false)
	}
	last := s.seqs["shop-3"]
	back(audit.Event{Type: audit.TypeHello})
	back(audit.Event{Type: audit.TypeSeal, Sealed: 1, First: 1, Last: last})
	back(audit.Event{Type: audit.TypeGap, Cause: audit.CauseCrash, From: last + 1})
	c := make1(t, s).Certificate
	if !c.Bypass || c.Complete || len(c.Gaps) != 1 || c.Gaps[0].Cause != "crash" || c.Gaps[0].Bypass || len(c.Tails) != 0 {
		t.Errorf("bypass %t, gaps %+v, tails %+v", c.Bypass, c.Gaps, c.Tails)
	}
	if g := c.Gaps[0]; g.Earliest != at(10*time.Minute) || g.Latest != at(40*time.Minute) {
		t.Errorf("gap between %s and %s", g.Earliest, g.Latest)
	}
}

func TestATailThatNobodySealedIsNamed(t *testing.T) {
	s := newStream(t).lives(nil)
	s.hello("shop-3", at(-5*time.Minute))
	s.put("shop-3", audit.Event{Type: audit.TypeHeartbeat, At: at(12 * time.Minute), Oldest: at(11 * time.Minute)}, false)
	s.hello("late", at(32*time.Minute)) // it began after the period
	s.hello("over", at(-9*time.Minute)) // it was over before
	s.seal("over", at(-8*time.Minute))
	c := make1(t, s).Certificate
	if c.Bypass || c.Complete || len(c.Tails) != 1 {
		t.Fatalf("tails %+v", c.Tails)
	}
	if x := c.Tails[0]; x.Producer != "shop-3" || x.Told != at(12*time.Minute) || x.Oldest != at(11*time.Minute) ||
		!reflect.DeepEqual(x.Partitions, []int{0, 1, 2}) || !strings.Contains(x.Note, "not drained") {
		t.Errorf("tail %+v", x)
	}
}

func TestWhatElseMakesItIncomplete(t *testing.T) {
	full := func() *stream { return newStream(t).lives(nil).sealed() }
	for name, tt := range map[string]struct {
		s      *stream
		change func(*Config)
		bypass bool
		tells  func(Certificate) bool
	}{
		"an expected producer": {full(), func(c *Config) { c.Expect = []string{"shop-9", "shop-1"} }, false, func(c Certificate) bool {
			return slices.Equal(c.Unknown, []string{"shop-9"})
		}},
		"an ignored tier": {full(), func(c *Config) { c.Rule.Ignore = append(c.Rule.Ignore, 2) }, true, func(c Certificate) bool { return len(c.Blind) == 1 }},
		"a blind chain":   {full(), func(c *Config) { c.Blind = []string{"chain x"} }, true, func(c Certificate) bool { return len(c.Blind) == 1 }},
		"nothing at all":  {newStream(t), func(*Config) {}, false, func(c Certificate) bool { return len(c.Producers) == 0 }},
		"retention": {full(), func(c *Config) {
			c.Partitions = func() []Partition {
				return []Partition{{Partition: 0, Oldest: 40, From: 40, To: 50, Begins: at(time.Minute)}}
			}
		}, false, func(c Certificate) bool { return len(c.Gaps) == 1 && c.Gaps[0].Cause == "retention" }},
		"a record that is no event": {func() *stream {
			s := full()
			s.append(1, "k", begin, []byte("{"))
			return s
		}(), func(*Config) {}, false, func(c Certificate) bool { return c.Unreadable == 1 && c.Malformed[0].Partition == 1 }},
	} {
		c := make1(t, tt.s, tt.change).Certificate
		if c.Complete || c.Bypass != tt.bypass || !tt.tells(c) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestALateSpoolIsReadWithTheRest: what a host that was cut off sends hours later counts.
func TestALateSpoolIsReadWithTheRest(t *testing.T) {
	s := newStream(t)
	s.lives(func(minute int) {
		if minute == 6 {
			s.hold("shop-1", bypass("u1", 6*time.Minute, time.Second))
		}
	}).sealed()
	s.hello("cut-off", at(-5*time.Minute))
	s.hold("cut-off", bypass("u1", 6*time.Minute+100*time.Millisecond, time.Second))
	s.beat("cut-off", at(6*time.Hour), "shared", 0)
	r := make1(t, s)
	if r.Total.Certain != 1 || r.Total.Bypassed != 2 || !r.Certificate.Complete {
		t.Errorf("total %+v, certificate %+v", r.Total, r.Certificate)
	}
	if n := r.Conflicts[0].Holds; n != 2 {
		t.Errorf("%d holds", n)
	}
	for _, p := range r.Certificate.Partitions { // a rewind must not count twice
		if p.Records != int64(len(s.records[p.Partition])) {
			t.Errorf("partition %d: %d records of %d", p.Partition, p.Records, len(s.records[p.Partition]))
		}
	}
}

// A period that is not over is not complete, also where every producer is sealed by now.
func TestAPeriodThatIsNotOverIsNotComplete(t *testing.T) {
	r := make1(t, newStream(t).lives(nil).sealed(), func(c *Config) { c.To = time.Now().Add(time.Hour); c.From = c.To.Add(-mostPeriod) })
	if r.Certificate.Bypass || r.Certificate.Complete || r.Exit() || len(r.Certificate.Blind) != 1 {
		t.Errorf("%+v", r.Certificate)
	}
}

// A record that is in every conflict costs no more than others: with the whole list looked
// through for each hold this took minutes.
func TestARecordInManyConflicts(t *testing.T) {
	const many = 200_000
	hold := reconcile.Interval{Business: audit.Business{Type: "coupon", ID: "hot"}}
	m := &maker{ledger: &ledger{records: records{by: map[recordKey]*touched{{"coupon", "hot"}: {}}}}}
	for i := range many {
		id := strconv.Itoa(i)
		for range 3 {
			m.involve(&hold, id)
		}
	}
	if got := m.ledger.records.by[recordKey{"coupon", "hot"}].Conflicts; len(got) != many {
		t.Errorf("%d conflicts, want %d", len(got), many)
	}
}
