package gateway_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

// A chain on observe is served by the store whatever its health, behind an open breaker too,
// and tells what its ladder would have done; an order of the switch is obeyed all the same.
func TestAChainOnObserveStaysWithItsStore(t *testing.T) {
	var calls heard[gateway.AcquireInfo]
	var steps heard[gateway.StepInfo]
	p := weak()
	p.Ladder.Observe = true
	bubble(t, p, func(t *testing.T, k one) {
		k.Store.DropReplies(8) // five of them open the breaker
		for range 8 {
			if tier, v := k.ask("a"); tier != 0 || v.Reason != tierlock.ReasonBroken {
				t.Fatalf("tier %v, %+v; want the store's own failure", tier, v)
			}
		}
		if s := k.Status().Chains[0].Targets[0]; s.State != degrade.Down || s.Tier != tierlock.Shared {
			t.Errorf("%v on %v, want down and shared", s.State, s.Tier)
		}
		if tier, v := k.ask("b"); tier != tierlock.Shared {
			t.Errorf("tier %v, %+v: the breaker turned it away", tier, v)
		}
		told := calls.told()
		if last := told[len(told)-1]; last.Observed != tierlock.ReasonOpen || last.Instead != tierlock.Local {
			t.Errorf("observed %q, would have been %v", last.Observed, last.Instead)
		}
		k.Force("c", tierlock.ModeLocal)
		if tier, _ := k.ask("c"); tier != tierlock.Local {
			t.Errorf("ordered to local: %v", tier)
		}
		k.Force("c", tierlock.ModeAuto)
		eventually(t, 10*time.Second, "normal", func() bool { return k.Status().Chains[0].Targets[0].State == degrade.Normal })
		k.ask("d")
		told = calls.told()
		if last := told[len(told)-1]; last.Observed != "" {
			t.Errorf("observed %q of a healthy store", last.Observed)
		}
		synctest.Wait() // who found it normal has told it
		var states []degrade.State
		for _, s := range steps.told() {
			states = append(states, s.To)
		}
		if !slices.Equal(states, []degrade.State{degrade.Down, degrade.Recovering, degrade.Normal}) {
			t.Errorf("stepped to %v", states)
		}
	}, gateway.Hooks{Acquired: calls.hear, Stepped: steps.hear})
}

// An order to the store is one to ask it: neither the open breaker nor the ramp of a store that
// comes back turns the call away.
func TestAnOrderToTheStorePassesTheBreaker(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		k.Store.DropReplies(5)
		for range 5 {
			k.ask("a")
		}
		if _, v := k.ask("a"); v.Reason != tierlock.ReasonBroken && v.Reason != tierlock.ReasonOpen && v.Reason != tierlock.ReasonDown {
			t.Fatalf("%+v: five broken ones did not open the breaker", v)
		}
		asked := k.Store.Counts().Acquire
		k.ask("a")
		if n := k.Store.Counts().Acquire; n != asked {
			t.Fatal("the store was asked behind an open breaker")
		}
		k.Force("c", tierlock.ModeShared)
		if tier, v := k.ask("b"); tier != tierlock.Shared {
			t.Errorf("tier %v, %+v", tier, v)
		}
		k.Force("c", tierlock.ModeAuto)
		if tier, _ := k.ask("b"); tier == tierlock.Shared {
			t.Error("served without the order before any probe")
		}
	})
}

// The line of a wire that is full names the chain that fills it, and the status says how much
// of it is whose.
func TestAFullWireNamesItsChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := gatewaytest.NewStore()
		chains := map[string]gateway.Policy{"payment": strong(), "coupon": weak(), "claim": weak()}
		g, err := gateway.New(gateway.Config{
			Chains: chains, Stores: map[string]tierlock.Backend{"main": store}, Audit: new(gatewaytest.Audit),
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		store.Slow(90 * time.Millisecond) // under half an attempt
		stop := make(chan struct{})
		for name, callers := range map[string]int{"payment": 1, "claim": 8, "coupon": 56} {
			c, _ := g.Chain(name)
			for n := range callers {
				go func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						l, _ := c.TryLock(context.Background(), name+string(rune('A'+n)))
						_ = l.Unlock(context.Background())
						time.Sleep(time.Millisecond)
					}
				}()
			}
		}
		time.Sleep(4 * time.Second)
		for _, c := range g.Status().Chains {
			own := c.Targets[0].Own
			if least := map[string]int{"coupon": 30, "claim": 1, "payment": 0}[c.Chain]; own < least || own > 2*len(chains)*56 || c.Chain == "payment" && own > 1 {
				t.Errorf("%s has %d of %d out", c.Chain, own, c.Targets[0].Out)
			}
		}
		full := func() bool {
			return slices.ContainsFunc(g.Status().Chains, func(c gateway.ChainStatus) bool { return c.Targets[0].State == degrade.Saturated })
		}
		eventually(t, 20*time.Second, "the wire is full for long enough", full)
		time.Sleep(time.Second)
		close(stop)
		time.Sleep(time.Second)
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
		saturated := 0
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "to=saturated") {
				saturated++
				if !strings.Contains(line, " busiest=coupon busiest_out=") || !strings.Contains(line, " limit=64") || !strings.Contains(line, " after=") {
					t.Errorf("the line does not name who fills the wire: %s", line)
				}
			}
		}
		if saturated == 0 {
			t.Errorf("the wire was never full:\n%s", log.String())
		}
		if strings.Contains(log.String(), "chain=payment") {
			t.Errorf("the strong chain stepped for it:\n%s", log.String())
		}
	})
}
