package gateway_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/switchcfg"
)

// partly is a store whose wire others fill as far as a test says.
type partly struct {
	*gatewaytest.Store
	out atomic.Int64
}

func (p *partly) Loose(string) int { return int(p.out.Load()) }

func (p *partly) Traits() tierlock.Traits {
	t := p.Store.Traits()
	t.Wired = p
	return t
}

// patron is a chain that such a store serves.
type patron struct {
	one
	store *partly
}

// serve runs f on the first of the chains.
func serve(t *testing.T, chains map[string]gateway.Policy, f func(t *testing.T, s patron)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &partly{Store: gatewaytest.NewStore()}
		g, err := gateway.New(gateway.Config{Chains: chains, Stores: map[string]tierlock.Backend{"memory": store}, Audit: new(gatewaytest.Audit)})
		if err != nil {
			t.Fatal(err)
		}
		c, err := g.Chain("c")
		if err != nil {
			t.Fatal(err)
		}
		f(t, patron{one{&gatewaytest.Kit{Gateway: g, Store: store.Store}, c, t}, store})
		store.Mend()
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// state is where the chain of that name stands.
func (s patron) state(chain string) degrade.State {
	for _, c := range s.Status().Chains {
		if c.Chain == chain {
			return c.Targets[0].State
		}
	}
	return 0
}

// until tells how many seconds it takes till the chain stands there, 30 at most.
func (s patron) until(state degrade.State) float64 {
	began := time.Now()
	for s.state("c") != state && time.Since(began) < 30*time.Second {
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began).Seconds()
}

// breaks lets connections break, one after another, until the chain is down, and tells how many.
func (s patron) breaks() float64 {
	s.Store.DropReplies(1000)
	before := s.Store.Counts()
	for n := 0; s.state("c") != degrade.Down && n < 100; n++ {
		s.ask("b")
	}
	after := s.Store.Counts()
	s.Store.DropReplies(0)
	return float64(after.Acquire - before.Acquire + after.Release - before.Release)
}

// yes is 1 for true.
func yes(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// span is from the least to the most that a measure may be.
type span [2]float64

func (s span) has(v float64) bool { return s[0] <= v && v <= s[1] }

// TestEveryLivePolicyValueTakesEffect: what a value does to a chain that serves, as it is
// configured and with the value in force.
func TestEveryLivePolicyValueTakesEffect(t *testing.T) {
	const local = float64(tierlock.Local)
	tier := func(s patron) float64 { got, _ := s.ask("t"); return float64(got) }
	for field, c := range map[string]struct {
		value      any
		was, is    span
		whatItDoes func(patron) float64
	}{
		"wait": {"1s", span{.3, .31}, span{1, 1.01}, func(s patron) float64 {
			s.must("a")
			began := time.Now()
			_, _ = s.Lock(context.Background(), "a")
			return time.Since(began).Seconds()
		}},
		"wait_schedule": {"exp(200ms, 2, cap 2s)", span{4, 5}, span{2, 2}, func(s patron) float64 {
			elsewhere := tierlock.Request{Hold: tierlock.Hold{TTL: time.Minute}}
			elsewhere.Key, _ = tierlock.ParseKey("biz:c:lock:a")
			elsewhere.ID = tierlock.NewRequestID()
			if _, err := s.Store.Acquire(context.Background(), elsewhere); err != nil {
				s.t.Fatal(err)
			}
			before := s.Store.Counts().Acquire
			_, _ = s.Lock(context.Background(), "a")
			return float64(s.Store.Counts().Acquire - before)
		}},
		"on_saturated": {"fail", span{local, local}, span{0, 0}, func(s patron) float64 {
			s.store.out.Store(64)
			time.Sleep(6 * time.Second)
			return tier(s)
		}},
		"on_down": {"fail", span{local, local}, span{0, 0}, func(s patron) float64 {
			s.takeDown()
			return tier(s)
		}},
		"saturated_at": {0.9, span{0, 0}, span{1, 1}, func(s patron) float64 {
			s.store.out.Store(59) // 0.92
			time.Sleep(6 * time.Second)
			return yes(s.state("c") == degrade.Saturated)
		}},
		"relaxed_at": {0.6, span{1, 1}, span{0, 0}, func(s patron) float64 {
			s.store.out.Store(64)
			s.until(degrade.Saturated)
			s.store.out.Store(45) // 0.70
			time.Sleep(3 * time.Second)
			return yes(s.state("c") == degrade.Normal)
		}},
		"saturate_in": {"1s", span{4.9, 5.2}, span{.9, 1.2}, func(s patron) float64 {
			s.store.out.Store(64)
			return s.until(degrade.Saturated)
		}},
		"relax_in": {"4s", span{1.9, 2.2}, span{3.9, 4.2}, func(s patron) float64 {
			s.store.out.Store(64)
			s.until(degrade.Saturated)
			s.store.out.Store(0)
			return s.until(degrade.Normal)
		}},
		"slow_timeouts": {20, span{1, 1}, span{0, 0}, func(s patron) float64 {
			s.slowDown()
			return yes(s.state("c") == degrade.Slow)
		}},
		"fast_probes": {9, span{.5, 2.5}, span{3, 6}, func(s patron) float64 {
			s.slowDown()
			s.Store.Mend()
			return s.until(degrade.Normal)
		}},
		"down_failures": {20, span{5, 5}, span{20, 20}, patron.breaks},
		"probe_lost": {"10s", span{.9, 1.6}, span{9.9, 10.6}, func(s patron) float64 {
			began := time.Now()
			s.Store.Hang(true)
			for s.state("c") != degrade.Down && time.Since(began) < 30*time.Second {
				s.ask("h")
				time.Sleep(10 * time.Millisecond)
			}
			return time.Since(began).Seconds()
		}},
		"ramp_from": {1.0, span{4, 5}, span{0, 1.5}, func(s patron) float64 {
			s.takeDown()
			s.Store.Mend()
			return s.until(degrade.Normal)
		}},
		"ramp_every": {"100ms", span{4, 5}, span{.4, 1.5}, func(s patron) float64 {
			s.takeDown()
			s.Store.Mend()
			return s.until(degrade.Normal)
		}},
		"local.ttl": {"2s", span{9.9, 10}, span{1.9, 2}, func(s patron) float64 {
			s.takeDown()
			return time.Until(s.must("a").Grant().ExpiresAt).Seconds()
		}},
		"local.permits": {1, span{3, 3}, span{1, 1}, func(s patron) (holders float64) {
			s.takeDown()
			for range 5 {
				if _, err := s.TryLock(context.Background(), "a"); err == nil {
					holders++
				}
			}
			return holders
		}},
	} {
		t.Run(field, func(t *testing.T) {
			for version, want := range []span{c.was, c.is} {
				serve(t, map[string]gateway.Policy{"c": weak()}, func(t *testing.T, s patron) {
					s.ask("before")
					if version > 0 {
						values := switchcfg.Values{}.With(field, c.value)
						if err := s.Apply(policiesOf(1, map[string]switchcfg.Values{"c": values})); err != nil {
							t.Fatal(err)
						}
					}
					if got := c.whatItDoes(s); !want.has(got) {
						t.Errorf("version %d: %v, want %v to %v", version, got, want[0], want[1])
					}
				})
			}
			if !slices.Contains(gateway.Amendable, field) {
				t.Error("is no live field")
			}
		})
	}
	if len(gateway.Amendable) != 16 {
		t.Errorf("%d live fields, and 16 are shown here", len(gateway.Amendable))
	}
}

// TestEachChainBearsWithWhatItsOwnPolicySays: the breaker of a store waits for the most patient
// chain on it, and the others have stepped down before.
func TestEachChainBearsWithWhatItsOwnPolicySays(t *testing.T) {
	patient := weak()
	patient.Ladder.Failures = 12
	serve(t, map[string]gateway.Policy{"c": patient, "other": weak()}, func(t *testing.T, s patron) {
		s.Store.DropReplies(1000)
		for s.state("other") != degrade.Down {
			s.ask("a")
		}
		if got := s.state("c"); got != degrade.Normal {
			t.Errorf("patient chain is %v when the other is down", got)
		}
		s.Store.DropReplies(0)
		time.Sleep(time.Second) // a probe is answered
		if got := s.breaks(); got != 12 {
			t.Errorf("down after %v broken connections, want 12", got)
		}
		s.Store.Mend()
		s.until(degrade.Normal)
		for version, limit := range []float64{30, 12, 3} {
			values := map[string]switchcfg.Values{"c": {"down_failures": int(limit)}}
			if limit == 12 {
				values = nil // as configured
			}
			if err := s.Apply(policiesOf(uint64(version)+1, values)); err != nil {
				t.Fatal(err)
			}
			if got := s.breaks(); got != limit {
				t.Errorf("down after %v broken connections, want %v", got, limit)
			}
			s.Store.Mend()
			s.until(degrade.Normal)
		}
	})
}
