package drills

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
)

// narrow makes the wire narrow enough for a test to fill.
func narrow(wire int) func(*redisstore.Config) {
	return func(c *redisstore.Config) { c.PoolSize, c.Wire = wire, wire }
}

const (
	sluggish = 200 * time.Millisecond
	patience = time.Second // an attempt, so that a busy machine is not taken for a slow store
)

// A flood of coupons on a sluggish store fills the part of the wire that weak chains may use.
// Payments, three at a time in a reserve of six, do not notice.
func TestFloodOfCouponsLeavesPaymentsAlone(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	i := newInstance(t, server, setup{store: narrow(24), policy: func(name string, p *gateway.Policy) {
		p.Attempt, p.Ladder.Timeouts = patience, 64
		p.Ladder.SaturateIn = 700 * time.Millisecond // payments must not take the flood for their own
		switch name {
		case "coupon":
			p.Ladder.SaturateIn = time.Hour // the flood goes on
		case "payment":
			p.Attempt = 2 * patience // it is about places on the wire, and not about a machine that is busy
		}
	}})
	i.way.Delay(sluggish)
	var flooded, crowdedOut atomic.Int64
	stop := crowd(128, func(caller, turn int) {
		_, err := once(i.coupons, own(caller, turn))
		flooded.Add(1)
		if reasonOf(err) == tierlock.ReasonSaturated {
			crowdedOut.Add(1)
		}
	})
	defer stop()
	wait(300 * time.Millisecond)
	const payers = 3
	var paid, unpaid, at, most atomic.Int64
	stopPaying := crowd(payers, func(payer, turn int) {
		most.Store(max(most.Load(), at.Add(1)))
		_, err := once(i.payments, own(payer, turn))
		at.Add(-1)
		if err != nil {
			unpaid.Add(1)
			t.Logf("payment: %v", err)
		} else {
			paid.Add(1)
		}
		wait(50 * time.Millisecond)
	})
	wait(lasts(2500*time.Millisecond, time.Minute))
	stopPaying()
	stop()
	t.Logf("%d payments, %d at a time, %d failed; %d coupons, %d found no place", paid.Load(), most.Load(), unpaid.Load(), flooded.Load(), crowdedOut.Load())
	if paid.Load() < 3 || unpaid.Load() > 0 || most.Load() < 2 {
		t.Errorf("%d payments failed beside %d, %d at a time", unpaid.Load(), paid.Load(), most.Load())
	}
	if crowdedOut.Load() < 10 {
		t.Errorf("%d of %d coupons found no place: there was no flood", crowdedOut.Load(), flooded.Load())
	}
	if steps := i.heard.of("payment"); len(steps) > 0 {
		t.Errorf("payments stepped for the flood: %v", steps)
	}
	i.way.Become(way.None)
	i.leavesNothing(t, server)
}

// Ten times the load on a store that has become slow, or whose wire is full: orders with a
// version guard commit at nine tenths of the healthy rate at least, and nobody waits long.
func TestOverload(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]time.Duration{"a slow store": 300 * time.Millisecond, "a full wire": 90 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := servers.Redis(t)
			i, s := newInstance(t, server, setup{store: narrow(8)}), newShop(t)
			const customers, pause = 8, 100 * time.Millisecond
			span := lasts(1500*time.Millisecond, time.Minute)
			healthy, _ := s.rate(customers, pause, span, i.orders)
			i.way.Delay(delay)
			i.heard.p99("order")
			overloaded, share := s.rate(10*customers, pause, span, i.orders)
			whole, p99 := i.heard.p99("order")
			i.way.Become(way.None)
			t.Logf("%.0f orders/s committed when healthy, %.0f at ten times the load (%.2f %% of those asked for); answers p99 %v, %v with the wait for another holder; %d by version, %d busy, %d refused",
				healthy, overloaded, 100*share, p99, whole, s.byVersion.Load(), s.busy.Load(), s.refused.Load())
			if overloaded < .9*healthy {
				t.Errorf("%.0f orders/s committed, were %.0f when healthy", overloaded, healthy)
			}
			// Healthy is what few customers with a pause ask for, far below what the shop can take.
			if share < .9 {
				t.Errorf("%.1f %% of the orders asked for at ten times the load committed", 100*share)
			}
			if soak() && p99 > 250*time.Millisecond {
				t.Errorf("p99 of the answers is %v", p99)
			}
			if s.byVersion.Load() == 0 {
				t.Error("nothing went by version: there was no overload")
			}
			s.balances(t)
			i.leavesNothing(t, server)
		})
	}
}

// The wire is full for as long as the load lasts: left after five seconds and not by a spike.
func TestSoakSaturated(t *testing.T) {
	if !soak() {
		t.Skip("left out: its small version is row C11 of the fault matrix; run make soak")
	}
	// Not beside the other drills: a probe here passes through five goroutines of this process,
	// and where a hundred others want to run, it takes the second after which silence means down.
	i := newInstance(t, servers.Redis(t), setup{
		store: narrow(8), policy: func(_ string, p *gateway.Policy) {
			p.Attempt, p.Ladder.Timeouts = patience, 64 // a busy machine is no slow store
		},
		gateway: func(c *gateway.Config) {
			c.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})) // tells which probes were not answered
			// Twenty thousand local locks a second: their trail in memory makes 8.8 GB of this process,
			// and with it probes went unanswered.
			c.Audit = audit.Discard
		},
	})
	i.way.Delay(90 * time.Millisecond)
	began := time.Now()
	stop := crowd(32, func(caller, turn int) { _, _ = once(i.coupons, own(caller, turn)); wait(time.Millisecond) })
	defer stop()
	eventually(t, 7*time.Second, "coupons are local", func() bool { return i.state("coupon") == degrade.Saturated })
	at, _ := i.heard.reached("coupon", degrade.Saturated, began)
	t.Logf("saturated after %v", at.Sub(began))
	if took := at.Sub(began); took < 5*time.Second || took > 6*time.Second {
		t.Errorf("saturated after %v, want 5 to 6 s", took)
	}
	// Its own load is gone with it, so the wire looks free. After the first relapse it stays.
	wait(3 * time.Minute)
	for _, s := range i.heard.of("coupon") {
		t.Logf("%v to %v after %v: %s", s.From, s.To, s.Dwell, s.Reason)
	}
	if most := i.heard.most("coupon", time.Minute, began.Add(10*time.Second)); most > 2 {
		t.Errorf("%d changes within a minute", most)
	}
}

// The same on a real wire of a hundred places: payments fill 97 and 94 of them by turns, so that
// with those between two questions it is full by a hair or not quite, for as long as the load
// lasts. Coupons step down, and change at most twice a minute.
func TestSoakFlapping(t *testing.T) {
	if !soak() {
		t.Skip("left out: its small version is in virtual time, TestFlappingAtTheEdge; run make soak")
	}
	const above, below = 97, 94
	i := newInstance(t, servers.Redis(t), setup{
		store: narrow(100), policy: func(name string, p *gateway.Policy) {
			p.Attempt, p.Ladder.Timeouts = patience, 64 // a busy machine is no slow store
			if name == "payment" {
				p.Ladder.SaturateIn = time.Hour // they are the load, and stay
			}
		},
		gateway: func(c *gateway.Config) { c.Audit = audit.Discard },
	})
	i.way.Delay(90 * time.Millisecond)
	began := time.Now()
	stop := crowd(above, func(caller, turn int) {
		if since := time.Since(began) % (11 * time.Second); caller >= below && since > 7*time.Second {
			wait(11*time.Second - since)
		}
		_, _ = once(i.payments, own(caller, turn))
	})
	defer stop()
	var asked, local atomic.Int64
	stopAsking := crowd(1, func(caller, turn int) {
		tier, _ := once(i.coupons, own(above+caller, turn))
		if asked.Add(1); tier == tierlock.Local {
			local.Add(1)
		}
		wait(250 * time.Millisecond)
	})
	wait(5 * time.Minute)
	stopAsking()
	for _, s := range i.heard.of("coupon") {
		t.Logf("%v to %v after %v: %s", s.From, s.To, s.Dwell, s.Reason)
	}
	most := i.heard.most("coupon", time.Minute, began)
	t.Logf("%d of %d coupons local, at most %d changes within a minute", local.Load(), asked.Load(), most)
	if most > 2 || local.Load() == 0 {
		t.Errorf("%d changes within a minute, %d coupons local", most, local.Load())
	}
	if steps := i.heard.of("payment"); len(steps) > 0 {
		t.Errorf("payments stepped: %v", steps)
	}
}

// edge is a store whose wire is as full as its test says.
type edge struct {
	*gatewaytest.Store
	full atomic.Int64 // of a hundred
}

func (e *edge) Traits() tierlock.Traits {
	traits := e.Store.Traits()
	traits.Wire, traits.Wired = 100, e
	return traits
}

func (e *edge) Loose(string) int { return int(e.full.Load()) }

// A load that is a saw-tooth between 96 and 94 %, and one that is the chain's own and goes away
// with it as soon as it steps down: the chain does step down, and changes at most twice a minute
// once the first relapse told. Payments, which have no other way, are served while the wire is
// free, though their ladder waits out the relapse. Virtual time.
func TestFlappingAtTheEdge(t *testing.T) {
	t.Parallel()
	const above, below = 7 * time.Second, 4 * time.Second // longer than saturated_in, and than relaxed_in
	for name, c := range map[string]struct {
		load func(e *edge, since time.Duration, weak degrade.State)
		free time.Duration // of the rule, since the beginning
		met  int           // changes at least
		paid float64       // share of the payments that are served, at least
	}{
		"a saw-tooth between 96 and 94 %": {func(e *edge, since time.Duration, _ degrade.State) {
			if e.full.Store(94); since%(above+below) < above {
				e.full.Store(96)
			}
		}, 0, 1, 0},
		"a load that leaves with its chain": {func(e *edge, _ time.Duration, weak degrade.State) {
			if e.full.Store(96); weak != degrade.Normal {
				e.full.Store(10)
			}
		}, 10 * time.Second, 7, .9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := &edge{Store: gatewaytest.NewStore()}
				var h heard
				policies := map[string]gateway.Policy{
					"coupon": gateway.Weak("one claim at a time", gateway.Reconcile), "payment": gateway.Strong("one payment at a time", gateway.Fence),
				}
				gw, err := gateway.New(gateway.Config{
					Chains: policies, Stores: map[string]tierlock.Backend{"main": e}, Audit: new(gatewaytest.Audit), Hooks: gateway.Hooks{Stepped: h.stepped},
				})
				if err != nil {
					t.Fatal(err)
				}
				i := &instance{t: t, gw: gw}
				coupons, _ := gw.Chain("coupon")
				payments, _ := gw.Chain("payment")
				began := time.Now()
				var paid, asked float64
				for time.Since(began) < lasts(4*time.Minute, time.Hour) {
					c.load(e, time.Since(began), i.state("coupon"))
					_, _ = once(coupons, "a")
					tier, err := once(payments, "a")
					if tier > tierlock.Shared {
						t.Fatalf("a payment on %v", tier)
					}
					if asked++; err == nil {
						paid++
					}
					time.Sleep(250 * time.Millisecond)
				}
				if err := gw.Close(t.Context()); err != nil {
					t.Error(err)
				}
				h.whole(t)
				if most := h.most("coupon", time.Minute, began.Add(c.free)); most > 2 {
					t.Errorf("%d changes within a minute: %v", most, h.of("coupon"))
				}
				if n := len(h.of("coupon")); n < c.met {
					t.Errorf("%d changes in all: it never came to it", n)
				}
				if paid < c.paid*asked {
					t.Errorf("%.0f of %.0f payments were served", paid, asked)
				}
				t.Logf("%d changes in %v; %.0f of %.0f payments were served", len(h.of("coupon")), time.Since(began).Round(time.Second), paid, asked)
			})
		})
	}
}
