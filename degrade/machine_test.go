package degrade_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
)

// script runs a machine over phases and returns the states it entered.
func script(p *degrade.Policy, phases ...[]degrade.Signals) []degrade.State {
	var states []degrade.State
	m, at := degrade.Start(epoch), epoch
	for _, s := range slices.Concat(phases...) {
		at = at.Add(200 * time.Millisecond)
		s.At = at
		var edge degrade.Transition
		var moved bool
		if m, edge, moved = m.Step(p, s); moved {
			states = append(states, edge.To)
		}
	}
	return states
}

func TestMachineEdges(t *testing.T) {
	type phases = [][]degrade.Signals
	well := func(n, probes int) []degrade.Signals {
		return looks(n, degrade.Signals{Probes: probes, FastProbes: probes})
	}
	busy, free := looks(26, degrade.Signals{Occupancy: 1}), looks(11, degrade.Signals{})
	slow := looks(1, degrade.Signals{Timeouts: 5, Probes: 7, FastProbes: 7})
	down := looks(1, degrade.Signals{Refused: true})

	for name, c := range map[string]struct {
		run  phases
		want []degrade.State
	}{
		"one sample under the mark starts the five seconds again": {
			phases{looks(25, degrade.Signals{Occupancy: .96}), looks(1, degrade.Signals{Occupancy: .94}), looks(25, degrade.Signals{Occupancy: .96})}, nil,
		},
		"saturated is left after two seconds under 80 %": {
			phases{busy, looks(10, degrade.Signals{Occupancy: .79}), looks(1, degrade.Signals{Occupancy: .79})}, states(degrade.Saturated, degrade.Normal),
		},
		"95 % is full": {
			phases{looks(26, degrade.Signals{Occupancy: .95})}, states(degrade.Saturated),
		},
		"a relapse within a minute of the last lasts for one": {
			phases{busy, free, busy, looks(299, degrade.Signals{})}, states(degrade.Saturated, degrade.Normal, degrade.Saturated),
		},
		"and no longer": {
			phases{busy, free, busy, looks(300, degrade.Signals{})}, states(degrade.Saturated, degrade.Normal, degrade.Saturated, degrade.Normal),
		},
		"a minute later it is none": {
			phases{busy, free, looks(275, degrade.Signals{}), busy, free}, states(degrade.Saturated, degrade.Normal, degrade.Saturated, degrade.Normal),
		},
		"one sample over 80 % starts the two seconds again": {
			phases{busy, looks(10, degrade.Signals{Occupancy: .79}), looks(1, degrade.Signals{Occupancy: .80}), looks(10, degrade.Signals{Occupancy: .79})}, states(degrade.Saturated),
		},
		"slow wins over saturated": {
			phases{busy, slow}, states(degrade.Saturated, degrade.Slow),
		},
		"slow is left after three fast probes since": {
			phases{slow, well(1, 8), well(1, 9), well(1, 10)}, states(degrade.Slow, degrade.Normal),
		},
		"fast probes from before do not count": {
			phases{slow, well(9, 9)}, states(degrade.Slow),
		},
		"a slow probe starts the three again": {
			phases{slow, well(1, 9), looks(1, degrade.Signals{Probes: 10}), looks(1, degrade.Signals{Probes: 12, FastProbes: 2})}, states(degrade.Slow),
		},
		"and three after it are enough": {
			phases{slow, well(1, 9), looks(1, degrade.Signals{Probes: 10}), looks(1, degrade.Signals{Probes: 13, FastProbes: 3})}, states(degrade.Slow, degrade.Normal),
		},
		"slow goes down when probes fall silent": {
			phases{slow, looks(1, degrade.Signals{Unanswered: time.Second})}, states(degrade.Slow, degrade.Down),
		},
		"silence just short of a second is not down": {
			phases{looks(9, degrade.Signals{Unanswered: time.Second - 1})}, nil,
		},
		"down is left by the first probe answered since": {
			phases{down, well(1, 0), well(1, 1)}, states(degrade.Down, degrade.Recovering),
		},
		"a probe answered before does not count": {
			phases{looks(1, degrade.Signals{Open: true, Probes: 3}), well(1, 3)}, states(degrade.Down),
		},
		"nor does one while the breaker is still open": {
			phases{down, looks(1, degrade.Signals{Open: true, Probes: 1})}, states(degrade.Down),
		},
		"timeouts do not lead out of down": {
			phases{down, looks(3, degrade.Signals{Timeouts: 9})}, states(degrade.Down),
		},
		"recovering ends with the ramp, four seconds later": {
			phases{down, well(1, 1), well(20, 2)}, states(degrade.Down, degrade.Recovering, degrade.Normal),
		},
		"and not before": {
			phases{down, well(1, 1), well(19, 2)}, states(degrade.Down, degrade.Recovering),
		},
		"recovering goes down again on a definite fault": {
			phases{down, well(3, 1), down, well(1, 1)}, states(degrade.Down, degrade.Recovering, degrade.Down, degrade.Recovering),
		},
		"a reset left over from the outage does not": {
			phases{down, well(3, 1), looks(1, degrade.Signals{Failures: 4, Probes: 0})}, states(degrade.Down, degrade.Recovering),
		},
		"recovering into a slow store": {
			phases{down, well(1, 1), slow}, states(degrade.Down, degrade.Recovering, degrade.Slow),
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := degrade.Weak()
			if got := script(&p, c.run...); !slices.Equal(got, c.want) {
				t.Errorf("entered %v, want %v", got, c.want)
			}
		})
	}
}

func states(s ...degrade.State) []degrade.State { return s }

func TestWeakChainIsSaturatedByItsPartOfTheWire(t *testing.T) {
	strong, weak := degrade.Strong(), degrade.Weak()
	run := looks(26, degrade.Signals{Occupancy: .75, WeakOccupancy: 1})
	if m, _ := follow(&strong, run); m.State != degrade.Normal {
		t.Errorf("strong: %v", m.State)
	}
	if m, _ := follow(&weak, run); m.State != degrade.Saturated {
		t.Errorf("weak: %v", m.State)
	}
}

// After a relapse the wire is left for a minute. Who has another way takes it; who would refuse
// all that time is served again once the wire has been free for as long as it must.
func TestWhoWouldRefuseIsServedWhileItWaitsOutARelapse(t *testing.T) {
	guarded, failing := degrade.Strong(), degrade.Weak()
	guarded.VersionGuard, failing.OnSaturated = true, degrade.FallbackFail
	busy, free := looks(26, degrade.Signals{Occupancy: 1}), looks(11, degrade.Signals{})
	relapsed := slices.Concat(busy, free, busy)
	for name, c := range map[string]struct {
		policy degrade.Policy
		tier   tierlock.Tier // during the minute
		served bool
	}{
		"strong": {degrade.Strong(), 0, true}, "weak that fails": {failing, 0, true},
		"strong with version guard": {guarded, tierlock.Optimistic, false}, "weak": {degrade.Weak(), tierlock.Local, false},
	} {
		t.Run(name, func(t *testing.T) {
			route := func(since ...[]degrade.Signals) degrade.Route {
				m, at := follow(&c.policy, slices.Concat(append([][]degrade.Signals{relapsed}, since...)...))
				if m.State != degrade.Saturated {
					t.Fatalf("%v", m.State)
				}
				return degrade.Decide(&c.policy, nil, &m, at, 0)
			}
			for _, since := range [][]degrade.Signals{nil, free[:10], slices.Concat(free[:10], busy[:1], free[:10])} {
				if r := route(since); r.Tier != c.tier {
					t.Errorf("before the wire was free for long enough: %+v", r)
				}
			}
			for _, then := range [][]degrade.Signals{nil, looks(30, degrade.Signals{Occupancy: .9}), busy} {
				r := route(free, then)
				switch {
				case !c.served && r.Tier != c.tier:
					t.Errorf("left its other way: %+v", r)
				case c.served && (r.Tier != tierlock.Shared || r.Admit != degrade.AdmitUnder || r.Share != c.policy.Relaxed || r.Reason != tierlock.ReasonSaturated):
					t.Errorf("not served up to where the wire counts as free: %+v", r)
				}
			}
		})
	}
}

func TestRampDoublesEverySecond(t *testing.T) {
	p := degrade.Strong()
	m, at := follow(&p, append(looks(1, degrade.Signals{Refused: true}), looks(1, degrade.Signals{Probes: 1})...))
	for after, want := range map[time.Duration]float64{
		0: .1, 999 * time.Millisecond: .1, time.Second: .2, 2 * time.Second: .4, 3 * time.Second: .8, 4 * time.Second: 1, time.Hour: 1,
	} {
		if got := m.Ramp(&p, at.Add(after)); got != want {
			t.Errorf("after %v: %v, want %v", after, got, want)
		}
		if r := degrade.Decide(&p, nil, &m, at.Add(after), 0); r.Share != want || r.Admit != degrade.AdmitRamp {
			t.Errorf("after %v: route %+v", after, r)
		}
	}
	if m := degrade.Start(epoch); m.Ramp(&p, epoch) != 1 {
		t.Error("a healthy machine holds back")
	}
}

func TestOrderEndsByItselfAndCoversAShareOfKeys(t *testing.T) {
	p, m := degrade.Weak(), degrade.Start(epoch)
	o := &degrade.Order{Mode: tierlock.ModeBypass, Until: epoch.Add(time.Minute), Percent: 30}
	covered := 0
	for hash := range uint64(1000) {
		if degrade.Decide(&p, o, &m, epoch, hash).Tier == tierlock.Bypass {
			covered++
		}
		if degrade.Decide(&p, o, &m, o.Until, hash).Tier != tierlock.Shared {
			t.Fatal("covers a key at its very end")
		}
	}
	if covered != 300 {
		t.Errorf("30 %% of 1000 hashes are %d", covered)
	}
	if !o.Covers(o.Until.Add(-1), 0) {
		t.Error("over before its end")
	}
	auto := &degrade.Order{Mode: tierlock.ModeAuto, Until: o.Until}
	if auto.Covers(epoch, 0) || (&degrade.Order{}).Covers(epoch, 0) || (*degrade.Order)(nil).Covers(epoch, 0) {
		t.Error("no order covers something")
	}
}

func BenchmarkDecide(b *testing.B) {
	p := degrade.Weak()
	healthy := degrade.Start(epoch)
	down, at := follow(&p, looks(1, degrade.Signals{Refused: true}))
	back, _ := follow(&p, append(looks(1, degrade.Signals{Refused: true}), looks(1, degrade.Signals{Probes: 1})...))
	order := &degrade.Order{Mode: tierlock.ModeBypass, Until: at.Add(time.Hour), Percent: 50}
	for _, c := range []struct {
		name string
		o    *degrade.Order
		m    *degrade.Machine
	}{{"normal", nil, &healthy}, {"down", nil, &down}, {"recovering", nil, &back}, {"ordered", order, &healthy}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var r degrade.Route
			for i := range uint64(b.N) {
				r = degrade.Decide(&p, c.o, c.m, at, i)
			}
			if r.Tier == tierlock.Optimistic {
				b.Fatal("weak on local went optimistic")
			}
		})
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	p := degrade.Strong()
	m, at := follow(&p, looks(1, degrade.Signals{Refused: true}))
	o := &degrade.Order{Mode: tierlock.ModeReject, Until: at.Add(time.Hour), Percent: 50}
	hash := uint64(0)
	if n := testing.AllocsPerRun(1000, func() { hash++; degrade.Decide(&p, o, &m, at, hash) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
