package reconcile

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
)

// The line of repairs has a bound while an order keeps them all waiting; what had no room is
// found again once there is some, and everything is repaired once.
func TestTheLineOfRepairsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const conflicts, room = 40, 12 // a finding of two holds and one case weighs 3
		led := wrongBy(conflicts, 1)
		order := true
		l := runLive(t, applying(led, &locker{tier: tierlock.Shared}, func(c *Config) {
			c.SwitchOn = func(string) bool { return order }
			c.Caps.PerMinute = 1000
		}), func(j *Job) { j.repairs.most = room })
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, sharedTiers, p, q)
		manyConflicts(t, conflicts, p, q)
		pass(time.Minute, sharedTiers, p, q)
		if st := l.job.Stats(); st.Waiting != room/3 || len(led.repairs) != 0 {
			t.Fatalf("%d findings in line, %d repairs; want %d and none under an order", st.Waiting, len(led.repairs), room/3)
		}
		if m := l.committed(); m.Offset > 2+4*room/3 {
			t.Fatalf("committed %+v: a restart would forget what had no room", m)
		}
		order = false
		pass(5*time.Minute, sharedTiers, p, q)
		if len(led.repairs) != conflicts {
			t.Fatalf("%d of %d repaired", len(led.repairs), conflicts)
		}
		for i := range conflicts {
			if n := led.claims[fmt.Sprintf("u%d", i)]; n != 1 {
				t.Errorf("u%d has %d claims", i, n)
			}
		}
		if st := l.job.Stats(); st.Rereads == 0 || st.Waiting != 0 || l.committed().Offset < 4*conflicts {
			t.Errorf("%+v, committed %+v", st, l.committed())
		}
	})
}

// What has no room pins its own partition, also when all of the line is another's.
func TestWhatHasNoRoomIsPinned(t *testing.T) {
	cfg := Config{Hooks: map[string]Hook{"coupon": newLedger().hook()}}.withDefaults()
	r := newRepairer(&cfg)
	r.most = 4
	finding := func(from int) Finding {
		hold := func(holder string, from int) Interval {
			iv := at(t, holder, tierlock.Bypass, "p"+holder, from, from+100)
			iv.Business.Type, iv.Business.ID = "coupon", "u1"
			return iv
		}
		return Overlaps(Rule{}, []Interval{hold("a", from), hold("b", from+50)})[0]
	}
	if !r.add(finding(0), 0) || r.add(finding(2000), 1) || r.add(finding(1000), 1) || r.add(finding(3000), 1) {
		t.Fatal("room for one finding")
	}
	first := finding(1000)
	if got, want := r.pinned(1), cfg.Rule.start(&first.Members[0]); !got.Equal(want) {
		t.Errorf("partition 1 is pinned at %s, want %s: the earliest that had no room", got, want)
	}
	if r.hungry(1) {
		t.Error("there is no room yet")
	}
	r.drop(0)
	if !r.hungry(1) || r.hungry(1) || !r.pinned(1).IsZero() || r.weight != 0 {
		t.Errorf("weight %d, pinned %s", r.weight, r.pinned(1))
	}
}

// The same at the end of a stream: nothing is left out because nothing more comes.
func TestTheEndOfTheStreamEmptiesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const conflicts = 40
		led := wrongBy(conflicts, 1)
		s, store := newStream(1), newStore()
		p, q := s.producer("p"), s.producer("q")
		manyConflicts(t, conflicts, p, q)
		pass(time.Minute, sharedTiers, p, q)
		cfg := Config{Source: s.join(), Findings: []Findings{store}, Idle: time.Minute}
		applying(led, &locker{tier: tierlock.Shared}, func(c *Config) { c.Caps.PerMinute = 1000 })(&cfg)
		j := mustJob(t, cfg)
		j.repairs.most = 12
		if err := j.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(led.repairs) != conflicts || j.Stats().Rereads == 0 {
			t.Fatalf("%d of %d repaired, %+v", len(led.repairs), conflicts, j.Stats())
		}
	})
}

// What a partition remembers to have told has a bound; the newest stay, and what is in doubt.
func TestWhatWasToldIsForgotten(t *testing.T) {
	rule := Rule{}.withDefaults()
	w := newWindow(&rule, Mark{})
	for i := range 100 {
		f := Finding{ID: fmt.Sprint(i), To: base.Add(time.Duration(i) * time.Second)}
		w.told[f.ID] = told{finding: f, doubt: i < 10}
		if i < 10 {
			w.doubts++
		}
		w.forget(20)
		if n := len(w.told) - w.doubts; n > 20 {
			t.Fatalf("%d remembered after %d", n, i+1)
		}
	}
	for _, id := range []string{"0", "9", "99"} {
		if _, known := w.told[id]; !known {
			t.Errorf("%s is forgotten", id)
		}
	}
}

// The counts of a report are those of all findings, also when there are more than the job
// remembers one by one.
func TestBooksAreFolded(t *testing.T) {
	b := newBooks()
	b.most = 50
	for i := range 500 {
		f := Finding{ID: fmt.Sprint(i), Kind: KindOverlap, State: StateRepaired, Certain: i%2 == 0, Causes: []Cause{CauseBypass}}
		f.Repairs = []Repair{{Key: f.ID, Result: ResultApplied}}
		b.finding(&f)
		if len(b.entries) > 50 || len(b.repairs) > 50 {
			t.Fatalf("%d entries, %d repairs remembered", len(b.entries), len(b.repairs))
		}
	}
	r := b.report(&Config{}, base)
	if r.Findings != 500 || r.Certain != 250 || r.States[StateRepaired] != 500 || r.Causes[CauseBypass] != 500 || r.Repairs[ResultApplied] != 500 {
		t.Errorf("%+v, states %v, causes %v, repairs %v", r.Stats, r.States, r.Causes, r.Repairs)
	}
}
