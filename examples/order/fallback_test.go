package order_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/examples/order"
	"github.com/tierlock/tierlock/guard"
)

// Whoever embeds the gateway owns a way out for every answer that is no lock, and wants to
// see it taken. The tests below are such a service's own: each makes one thing go wrong,
// sells, and looks at the shop, at the answer, and at what was recorded. They run in a
// testing/synctest bubble (see inShop), so a minute's wait costs nothing.

const (
	appleKey = "biz:order:lock:apple"
	acquired = "acquire shared " + appleKey
)

// Force puts the chain on a tier, through the real switch.
func TestAnOrderedFallbackSellsByVersion(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		s.kit.Force(order.Chain, tierlock.ModeOptimistic)
		if err := s.Place(t.Context(), order.Order{ID: "1", SKU: "apple"}); err != nil {
			t.Fatal(err)
		}
		s.want(9, 1, 1)
		s.kit.Recorded("optimistic (forced) committed " + appleKey)
	})
}

// Answer forces an outcome: here the store refuses, which the policy turns into "go on
// optimistically", and then somebody else has the lock, which a customer is told.
func TestEachAnswerHasItsFallback(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		s.kit.Answer(order.Chain, tierlock.ReasonDenied)
		if err := s.Place(t.Context(), order.Order{ID: "1", SKU: "apple"}); err != nil {
			t.Fatal(err)
		}
		s.kit.Answer(order.Chain, tierlock.ReasonHeld)
		if err := s.Place(t.Context(), order.Order{ID: "2", SKU: "apple"}); !errors.Is(err, order.ErrBusy) {
			t.Fatalf("error %v, want busy", err)
		}
		s.kit.Answer(order.Chain, tierlock.ReasonWrongType)
		if err := s.Place(t.Context(), order.Order{ID: "3", SKU: "apple"}); !errors.Is(err, tierlock.ErrSystem) {
			t.Fatalf("error %v, want a system error", err)
		}
		s.want(9, 1, 1)
		s.kit.Recorded("optimistic (denied) committed " + appleKey)
	})
}

// Occupy is another instance that holds the key: a sale that waits gets its turn.
func TestASaleWaitsForAnotherInstance(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		s.kit.Occupy(appleKey, 150*time.Millisecond)
		if err := s.Place(t.Context(), order.Order{ID: "1", SKU: "apple"}); err != nil {
			t.Fatal(err)
		}
		s.want(9, 1, 1)
		s.kit.Recorded(acquired, "end shared released committed "+appleKey)
	})
}

// Lose takes the lock away in the middle of the work: its context ends, and nothing may be
// sold. The next customer is served.
func TestALostLockSellsNothing(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		svc, err := order.New(order.Config{
			Gateway: s.kit.Gateway, DB: s.db, Dialect: guard.SQLite,
			Watch: func(_ context.Context, g tierlock.Grant) func() {
				s.kit.Lose(g.Key.String())
				return func() {}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := svc.Place(t.Context(), order.Order{ID: "1", SKU: "apple"}); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want the end of the lock's context", err)
		}
		s.want(10, 0, 0)
		if err := s.Place(t.Context(), order.Order{ID: "2", SKU: "apple"}); err != nil {
			t.Fatal(err)
		}
		s.want(9, 1, 1)
		s.kit.Recorded(acquired, "end shared lost unknown "+appleKey, acquired, "end shared released committed "+appleKey)
	})
}

// Slow makes the store late: the sale gives up on it after 200 ms and goes on by version.
func TestASlowStoreCostsOneAttempt(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		s.kit.Store.Slow(time.Second)
		began := time.Now()
		if err := s.Place(t.Context(), order.Order{ID: "1", SKU: "apple"}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 220*time.Millisecond {
			t.Errorf("took %v", took)
		}
		s.want(9, 1, 1)
		s.kit.Recorded("optimistic (attempt_timeout) committed " + appleKey)
	})
}
