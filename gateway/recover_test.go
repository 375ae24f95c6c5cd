package gateway_test

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
)

// The timetable of an outage: what a hang, a refused connection and their ends cost.
func TestOutageTimetable(t *testing.T) {
	outages := map[string]struct{ begin, end func(k one) }{
		"refuses": {func(k one) { k.Store.Down(true) }, func(k one) { k.Store.Down(false) }},
		"hangs":   {func(k one) { k.Store.Hang(true) }, func(k one) { k.Store.Hang(false) }},
	}
	for name, outage := range outages {
		t.Run(name+", weak", func(t *testing.T) {
			bubble(t, weak(), func(t *testing.T, k one) {
				outage.begin(k)
				eventually(t, 2500*time.Millisecond, "local", func() bool { tier, _ := k.ask("a"); return tier == tierlock.Local })
				time.Sleep(20 * time.Second)
				outage.end(k)
				back := time.Now()
				eventually(t, 5*time.Second, "shared again", func() bool { tier, _ := k.ask("a"); return tier == tierlock.Shared })
				t.Logf("shared %v after the store was back", time.Since(back))
				for range 100 { // once it is back, nothing is granted locally any more
					if tier, _ := k.ask("b"); tier == tierlock.Local {
						t.Fatal("a local grant after recovery began")
					}
					time.Sleep(50 * time.Millisecond)
				}
			})
		})
		t.Run(name+", strong", func(t *testing.T) {
			bubble(t, strong(), func(t *testing.T, k one) {
				outage.begin(k)
				k.ask("a")
				time.Sleep(20 * time.Second)
				outage.end(k)
				eventually(t, 5*time.Second, "served", func() bool { tier, _ := k.ask("a"); return tier == tierlock.Shared })
				eventually(t, 6*time.Second, "normal", func() bool { return k.Status().Chains[0].Targets[0].State == degrade.Normal })
			})
		})
	}
}

func TestASlowStoreIsNeverLeftForTheLocalLock(t *testing.T) {
	var steps heard[gateway.StepInfo]
	bubble(t, weak(), func(t *testing.T, k one) {
		k.slowDown()
		for range 300 {
			if tier, _ := k.ask("a"); tier == tierlock.Local {
				t.Fatal("a local grant while the store was merely slow")
			}
			time.Sleep(100 * time.Millisecond)
		}
		k.Store.Slow(0)
		eventually(t, 5*time.Second, "shared", func() bool { tier, _ := k.ask("a"); return tier == tierlock.Shared })
		for _, s := range steps.told() {
			if s.To == degrade.Down || s.To == degrade.Saturated {
				t.Errorf("stepped %v to %v", s.From, s.To)
			}
		}
	}, gateway.Hooks{Stepped: steps.hear})
}

func TestSaturationIsLeftUnderTheLowerMark(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		k.Store.Saturate(true)
		time.Sleep(6 * time.Second)
		if tier, _ := k.ask("a"); tier != tierlock.Local {
			t.Fatalf("tier %v, want local", tier)
		}
		k.Store.Saturate(false)
		eventually(t, 3*time.Second, "shared", func() bool { tier, _ := k.ask("b"); return tier == tierlock.Shared })
	})
}

// Five broken connections in a row open the breaker; the request that is turned away by it
// is served below at once.
func TestBrokenConnectionsOpenTheBreaker(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		k.Store.DropReplies(1000)
		tiers := map[tierlock.Tier]int{}
		for range 8 {
			tier, _ := k.ask("a")
			tiers[tier]++
		}
		if tiers[tierlock.Local] == 0 {
			t.Errorf("answers by tier: %v, want local after five broken ones", tiers)
		}
	})
}

// TestASlowStoreThatNobodyAsksIsFoundWell: the probes go on for as long as the chain is not
// normal, whether calls come or not, and however late they are answered.
func TestASlowStoreThatNobodyAsksIsFoundWell(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		k.slowDown()
		state := func() degrade.State { return k.Status().Chains[0].Targets[0].State }
		time.Sleep(time.Minute)
		if s := state(); s != degrade.Slow {
			t.Errorf("after a minute without calls: %v", s)
		}
		k.Store.Mend()
		eventually(t, 5*time.Second, "normal", func() bool { return state() == degrade.Normal })
	})
}

// TestTheCallThatFindsTheStoreGoneIsServedLocally: its fault has stepped the ladder before it
// asks there once more.
func TestTheCallThatFindsTheStoreGoneIsServedLocally(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		k.Store.Down(true)
		if tier, v := k.ask("a"); tier != tierlock.Local {
			t.Errorf("the first call: tier %v, %+v", tier, v)
		}
	})
}

// A relapse keeps the ladder where it is for a minute. A strong chain, which would refuse all
// that time, is served as soon as the wire has been free for two seconds, and told what a full
// wire tells when it is full again.
func TestAStrongChainIsServedWhileItWaitsOutARelapse(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		full := func() {
			k.Store.Saturate(true)
			time.Sleep(6 * time.Second)
			if _, v := k.ask("a"); v.Outcome != tierlock.SystemError {
				t.Fatalf("told %v, want to be refused", v)
			}
			k.Store.Saturate(false)
			eventually(t, 2500*time.Millisecond, "served", func() bool { tier, _ := k.ask("a"); return tier == tierlock.Shared })
		}
		full()
		full()
		if state := k.Status().Chains[0].Targets[0].State; state != degrade.Saturated {
			t.Fatalf("%v, want a ladder that waits out its relapse", state)
		}
		if next := k.explain("a").Next; next.Tier != tierlock.Shared || next.Admits != "under" || next.Share != .8 || next.Reason != tierlock.ReasonSaturated {
			t.Errorf("explained as %+v", next)
		}
		k.Store.Saturate(true)
		if _, v := k.ask("a"); v.Outcome != tierlock.Timeout || v.Reason != tierlock.ReasonSaturated {
			t.Errorf("told %v, want what a full wire tells", v)
		}
		k.Store.Saturate(false)
		eventually(t, time.Minute, "normal", func() bool { return k.Status().Chains[0].Targets[0].State == degrade.Normal })
	})
}
