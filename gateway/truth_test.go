package gateway_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/switchcfg"
)

// answer is what a caller gets: a tier, or a verdict in short.
type answer struct {
	tier    tierlock.Tier
	outcome tierlock.Outcome
	reason  tierlock.Reason
	advice  tierlock.Advice
}

func granted(t tierlock.Tier) answer { return answer{tier: t, outcome: tierlock.Success} }

func optimistic(r tierlock.Reason) answer {
	return answer{outcome: tierlock.Timeout, reason: r, advice: tierlock.AdviseOptimistic}
}

func timeout(r tierlock.Reason) answer {
	return answer{outcome: tierlock.Timeout, reason: r, advice: tierlock.AdviseFail}
}

func system(r tierlock.Reason) answer {
	return answer{outcome: tierlock.SystemError, reason: r, advice: tierlock.AdviseFail}
}

var failure = answer{outcome: tierlock.Failure, reason: tierlock.ReasonHeld, advice: tierlock.AdviseRetry}

// TestTruthTable holds the gateway to the whole table, end to end at the caller: what the
// target is like, and what each class of chain gets for it, how soon.
func TestTruthTable(t *testing.T) {
	const atOnce = time.Millisecond
	const attempt = 220 * time.Millisecond
	rows := []struct {
		name                    string
		make                    func(k one)
		key                     string
		within                  time.Duration
		strong, guarded, weakly answer
		coalesce                bool // of the weak chain, where its wire is full
	}{
		{
			name: "well", make: func(one) {}, key: "a", within: atOnce,
			strong: granted(tierlock.Shared), guarded: granted(tierlock.Shared), weakly: granted(tierlock.Shared),
		},
		{
			name: "answers held", make: func(k one) { k.must("a") }, key: "a", within: atOnce,
			strong: failure, guarded: failure, weakly: failure,
		},
		{
			name: "no answer in the attempt, probes fine", make: func(k one) { k.Store.Slow(300 * time.Millisecond) }, key: "a", within: attempt,
			strong: timeout(tierlock.ReasonAttempt), guarded: optimistic(tierlock.ReasonAttempt), weakly: optimistic(tierlock.ReasonAttempt),
		},
		{
			name: "hangs", make: func(k one) { k.Store.Hang(true) }, key: "a", within: attempt,
			strong: timeout(tierlock.ReasonAttempt), guarded: optimistic(tierlock.ReasonAttempt), weakly: optimistic(tierlock.ReasonAttempt),
		},
		{
			name: "slow", make: func(k one) { k.slowDown(); k.useTrickle() }, key: "a", within: atOnce,
			strong: timeout(tierlock.ReasonSlow), guarded: optimistic(tierlock.ReasonSlow), weakly: optimistic(tierlock.ReasonSlow),
		},
		{
			name: "full wire for less than 5 s", make: func(k one) { k.Store.Saturate(true); time.Sleep(time.Second) }, key: "a", within: attempt,
			strong: timeout(tierlock.ReasonSaturated), guarded: optimistic(tierlock.ReasonSaturated), weakly: optimistic(tierlock.ReasonSaturated),
		},
		{
			name: "saturated", make: func(k one) { k.Store.Saturate(true); time.Sleep(5300 * time.Millisecond) }, key: "a", within: atOnce,
			strong: system(tierlock.ReasonSaturated), guarded: optimistic(tierlock.ReasonSaturated), weakly: granted(tierlock.Local),
		},
		{
			name: "saturated, coalescing, no place", make: func(k one) { k.Store.Saturate(true); time.Sleep(5300 * time.Millisecond) }, key: "a", within: attempt, coalesce: true,
			strong: system(tierlock.ReasonSaturated), guarded: optimistic(tierlock.ReasonSaturated), weakly: optimistic(tierlock.ReasonSaturated),
		},
		{
			name: "down, found out by this request", make: func(k one) { k.Store.Down(true) }, key: "a", within: atOnce,
			strong: system(tierlock.ReasonDown), guarded: optimistic(tierlock.ReasonDown), weakly: granted(tierlock.Local),
		},
		{
			name: "down, known", make: func(k one) { k.takeDown() }, key: "a", within: atOnce,
			strong: system(tierlock.ReasonDown), guarded: optimistic(tierlock.ReasonDown), weakly: granted(tierlock.Local),
		},
		{
			name: "silent to probes for a second", make: func(k one) { k.Store.Hang(true); k.ask("x"); time.Sleep(3 * time.Second) }, key: "a", within: atOnce,
			strong: system(tierlock.ReasonDown), guarded: optimistic(tierlock.ReasonDown), weakly: granted(tierlock.Local),
		},
		{
			name: "recovering, not admitted", make: func(k one) { k.takeDown(); k.recover() }, key: "a", within: atOnce,
			strong: timeout(tierlock.ReasonRecovering), guarded: optimistic(tierlock.ReasonRecovering), weakly: optimistic(tierlock.ReasonRecovering),
		},
	}
	classes := []struct {
		name   string
		policy func() gateway.Policy
	}{{"strong", strong}, {"guarded", guarded}, {"weak", weak}}
	for _, row := range rows {
		for i, class := range classes {
			t.Run(row.name+"/"+class.name, func(t *testing.T) {
				policy := class.policy()
				if row.coalesce && class.name == "weak" {
					policy.Ladder.OnSaturated = degrade.FallbackCoalesce
				}
				bubble(t, policy, func(t *testing.T, k one) {
					row.make(k)
					began := time.Now()
					tier, v := k.ask(row.key)
					took := time.Since(began)
					got := answer{tier, v.Outcome, v.Reason, v.Advice}
					if want := []answer{row.strong, row.guarded, row.weakly}[i]; got != want {
						t.Errorf("got %+v, want %+v", got, want)
					}
					if took > row.within {
						t.Errorf("answered after %v, want within %v", took, row.within)
					}
				})
			})
		}
	}
}

// useTrickle uses up what a slow store lets through, so that the next request meets the
// answer at once.
func (k one) useTrickle() {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { k.ask("trickle" + tierlock.NewRequestID().Fingerprint()) })
	}
	time.Sleep(time.Millisecond)
}

// recover mends the store, waits for the probe that finds it, and fills what the ramp
// admits of the wire.
func (k one) recover() {
	k.Store.Down(false)
	eventually(k.t, 3*time.Second, "recovering", func() bool { return k.Status().Chains[0].Targets[0].State.String() == "recovering" })
	k.Store.Slow(150 * time.Millisecond)
	for range 16 {
		go k.ask("ramp" + tierlock.NewRequestID().Fingerprint())
	}
	time.Sleep(time.Millisecond)
}

func TestOwnLocalHolderBlocksItsKeyAfterRecovery(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		k.Store.Down(true)
		local := k.must("a")
		if tier := local.Grant().Tier; tier != tierlock.Local {
			t.Fatalf("tier %v, want local", tier)
		}
		k.Store.Down(false)
		eventually(t, 5*time.Second, "another key on shared", func() bool { tier, _ := k.ask("b"); return tier == tierlock.Shared })
		if _, v := k.ask("a"); v.Outcome != tierlock.Failure || v.Remaining == 0 {
			t.Errorf("got %+v, want failure that tells what the local holder has left", v)
		}
		if err := local.Unlock(t.Context()); err != nil {
			t.Errorf("unlock: %v", err)
		}
		if tier, v := k.ask("a"); tier != tierlock.Shared {
			t.Errorf("after the local holder's end: tier %v, %+v", tier, v)
		}
	})
}

func TestOwnSharedHolderBlocksItsKeyLocally(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		shared := k.must("a", gateway.WithoutRenew(), gateway.WithTTL(5*time.Second))
		k.takeDown()
		if _, v := k.ask("a"); v.Outcome != tierlock.Failure {
			t.Errorf("got %+v while the shared hold is valid, want failure", v)
		}
		if tier, _ := k.ask("b"); tier != tierlock.Local {
			t.Errorf("another key: tier %v, want local", tier)
		}
		time.Sleep(time.Until(shared.Grant().ExpiresAt) + 100*time.Millisecond)
		if tier, v := k.ask("a"); tier != tierlock.Local {
			t.Errorf("after its end: tier %v, %+v", tier, v)
		}
	})
}

func TestBypass(t *testing.T) {
	order := func(class string, glass bool) switchcfg.Document {
		return switchcfg.Document{Version: 1, Chains: map[string]switchcfg.Directive{class: {
			Mode: tierlock.ModeBypass, Until: time.Now().Add(time.Hour), Reason: "store under attack", By: "oncall", BreakGlass: glass,
		}}}
	}
	for name, p := range map[string]gateway.Policy{"strong": strong(), "guarded": guarded()} {
		t.Run(name+" is refused", func(t *testing.T) {
			bubble(t, p, func(t *testing.T, k one) {
				if err := k.Apply(order("c", false)); !errors.Is(err, tierlock.ErrInvalid) {
					t.Errorf("got %v, want ErrInvalid", err)
				}
				if tier, _ := k.ask("a"); tier != tierlock.Shared || k.AppliedVersion() != 0 {
					t.Errorf("tier %v, version %d: the document had an effect", tier, k.AppliedVersion())
				}
				if err := k.Apply(order("c", true)); err != nil {
					t.Errorf("break glass: %v", err)
				}
				if tier, _ := k.ask("a"); tier != tierlock.Bypass {
					t.Errorf("break glass: tier %v", tier)
				}
			})
		})
	}
	t.Run("weak", func(t *testing.T) {
		bubble(t, weak(), func(t *testing.T, k one) {
			if err := k.Apply(order("c", false)); err != nil {
				t.Fatal(err)
			}
			a, b := k.must("a"), k.must("a")
			if g := b.Grant(); g.Tier != tierlock.Bypass || g.Exclusive || g.Scope != tierlock.ScopeNone || g.Token != 0 {
				t.Errorf("grant %+v", g)
			}
			if n := k.Store.Counts().Acquire; n != 0 {
				t.Errorf("the store was asked %d times", n)
			}
			for _, l := range []*gateway.Lock{a, b} {
				evs := k.Audit.Of(l.Grant().RequestID)
				if len(evs) != 1 || evs[0].Switch.Version != 1 || evs[0].Switch.Reason != "store under attack" {
					t.Errorf("events %+v", evs)
				}
				if err := l.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
			k.Audit.Fail(errors.New("disk full"))
			if _, v := k.ask("a"); v.Outcome != tierlock.SystemError || v.Reason != tierlock.ReasonUnrecorded {
				t.Errorf("disk full: %+v, want system_error, unrecorded", v)
			}
			if live := k.Status().Chains[0].Live; live != 0 {
				t.Errorf("%d locks left", live)
			}
		})
	})
}

func TestAStrongChainNeverGoesLocal(t *testing.T) {
	bubble(t, guarded(), func(t *testing.T, k one) {
		for _, mode := range []tierlock.Mode{tierlock.ModeLocal, tierlock.ModeBypass} {
			d := switchcfg.Document{Version: 9, Chains: map[string]switchcfg.Directive{"c": {Mode: mode, Until: time.Now().Add(time.Hour), Reason: "r", By: "b"}}}
			if err := k.Apply(d); err == nil {
				t.Errorf("%v was accepted", mode)
			}
		}
		k.takeDown()
		if l, err := k.Lock(context.Background(), "a"); l != nil || !errors.Is(err, tierlock.ErrOptimistic) {
			t.Errorf("got %v, %v, want ErrOptimistic", l, err)
		}
	})
}
