package order_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the shop's database

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/examples/order"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type shop struct {
	*order.Service
	kit *gatewaytest.Kit
	db  *sql.DB
	t   *testing.T
}

// inShop runs test in a bubble with a shop that has 10 apples.
func inShop(t *testing.T, test func(t *testing.T, s *shop)) {
	path := filepath.Join(t.TempDir(), "shop.db")
	synctest.Test(t, func(t *testing.T) {
		s := &shop{t: t, kit: gatewaytest.New(t, map[string]gateway.Policy{order.Chain: order.Policy()})}
		defer s.kit.End()
		var err error
		if s.db, err = sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)"); err != nil {
			t.Fatal(err)
		}
		defer s.db.Close()
		s.db.SetMaxOpenConns(1)
		for _, statement := range append(order.Schema(guard.SQLite), `INSERT INTO stock (sku, pieces) VALUES ('apple', 10)`) {
			s.exec(statement)
		}
		if s.Service, err = order.New(order.Config{Gateway: s.kit.Gateway, DB: s.db, Dialect: guard.SQLite}); err != nil {
			t.Fatal(err)
		}
		test(t, s)
	})
}

func (s *shop) exec(statement string, args ...any) {
	s.t.Helper()
	if _, err := s.db.ExecContext(s.t.Context(), statement, args...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) row() (pieces, version, orders int) {
	s.t.Helper()
	err := s.db.QueryRowContext(s.t.Context(), `SELECT pieces, version, (SELECT COUNT(*) FROM orders) FROM stock`).Scan(&pieces, &version, &orders)
	if err != nil {
		s.t.Fatal(err)
	}
	return pieces, version, orders
}

func (s *shop) want(pieces, version, orders int) {
	s.t.Helper()
	if p, v, o := s.row(); p != pieces || v != version || o != orders {
		s.t.Fatalf("%d pieces, version %d, %d orders; want %d, %d, %d", p, v, o, pieces, version, orders)
	}
}

func TestASaleUnderTheLockBumpsTheVersionToo(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		if err := s.Place(t.Context(), order.Order{ID: "1", SKU: "apple"}); err != nil {
			t.Fatal(err)
		}
		s.want(9, 1, 1)
	})
}

func TestTheSameOrderIsNeverSoldTwice(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i := range errs {
			wg.Go(func() { errs[i] = s.Place(t.Context(), order.Order{ID: "1", SKU: "apple"}) })
		}
		wg.Wait()
		if err := errors.Join(errs...); !errors.Is(err, order.ErrPlaced) {
			t.Fatalf("errors %v", errs)
		}
		s.want(9, 1, 1)
	})
}

func TestWhatIsSoldOutIsNotSold(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		s.exec(`UPDATE stock SET pieces = 0`)
		if err := s.Place(t.Context(), order.Order{ID: "1", SKU: "apple"}); !errors.Is(err, order.ErrSoldOut) {
			t.Fatalf("error %v", err)
		}
		s.want(0, 0, 0)
	})
}

func TestASilentStoreSellsByVersion(t *testing.T) {
	for name, hurt := range map[string]func(*gatewaytest.Store){
		"slow": func(st *gatewaytest.Store) { st.Slow(time.Second) },
		"down": func(st *gatewaytest.Store) { st.Down(true) },
	} {
		t.Run(name, func(t *testing.T) {
			inShop(t, func(t *testing.T, s *shop) {
				hurt(s.kit.Store)
				began := time.Now()
				if err := s.Place(t.Context(), order.Order{ID: "1", SKU: "apple"}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > 220*time.Millisecond {
					t.Errorf("took %v", took)
				}
				s.want(9, 1, 1)
				if ev := s.kit.Audit.Events(); len(ev) != 1 || ev[0].Type != audit.TypeOptimistic || ev[0].Outcome != audit.Committed {
					t.Errorf("events %+v", ev)
				}
			})
		})
	}
}

// The version is what keeps a locked and an optimistic sale apart: the locked one reads,
// an optimistic one sells, and the locked one's write must not go through on what it read.
func TestAnOptimisticSaleOutdatesWhatALockedOneHasRead(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		g, version := s.look("apple")
		s.kit.Store.Down(true)
		if err := s.Place(t.Context(), order.Order{ID: "2", SKU: "apple"}); err != nil {
			t.Fatal(err)
		}
		if err := s.Sell(t.Context(), g, version, order.Order{ID: "1", SKU: "apple"}); !errors.Is(err, guard.ErrStale) {
			t.Fatalf("error %v, want stale", err)
		}
		s.want(9, 1, 1)
	})
}

// And the token is what keeps out a holder who would even read again.
func TestALaterHolderShutsAnEarlierOneOut(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		g, _ := s.look("apple")
		s.kit.Store.Lose(g.Key.String())
		if err := s.Place(t.Context(), order.Order{ID: "2", SKU: "apple"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Look(t.Context(), g, "apple"); !errors.Is(err, guard.ErrStale) {
			t.Fatalf("error %v, want stale", err)
		}
		s.want(9, 1, 1)
	})
}

// look takes the lock for good and reads.
func (s *shop) look(sku string) (g tierlock.Grant, version int64) {
	s.t.Helper()
	c, err := s.kit.Chain(order.Chain)
	if err != nil {
		s.t.Fatal(err)
	}
	lock, err := c.TryLock(s.t.Context(), sku, gateway.WithoutRenew())
	if err != nil {
		s.t.Fatal(err)
	}
	if version, err = s.Look(s.t.Context(), lock.Grant(), sku); err != nil {
		s.t.Fatal(err)
	}
	return lock.Grant(), version
}

func TestABusySkuSaysSo(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		s.look("apple")
		if err := s.Place(t.Context(), order.Order{ID: "2", SKU: "apple"}); !errors.Is(err, order.ErrBusy) {
			t.Fatalf("error %v, want busy", err)
		}
	})
}

func TestNothingIsLostWhenEverybodyBuysAtOnce(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		var wg sync.WaitGroup
		sold := make([]bool, 25)
		for i := range sold {
			wg.Go(func() {
				for n := 0; n < 20 && !sold[i]; n++ {
					err := s.Place(t.Context(), order.Order{ID: fmt.Sprint(i), SKU: "apple"})
					sold[i] = err == nil
					if errors.Is(err, order.ErrSoldOut) {
						return
					}
				}
			})
		}
		wg.Wait()
		n := 0
		for _, yes := range sold {
			if yes {
				n++
			}
		}
		if n != 10 {
			t.Fatalf("%d customers were told that they bought one of 10", n)
		}
		s.want(0, 10, 10)
	})
}

func TestAWatcherSeesEveryLock(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		var seen []string
		svc, err := order.New(order.Config{Gateway: s.kit.Gateway, DB: s.db, Dialect: guard.SQLite, Watch: func(_ context.Context, g tierlock.Grant) func() {
			seen = append(seen, "in "+g.Tier.String())
			return func() { seen = append(seen, "out") }
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := svc.Place(t.Context(), order.Order{ID: "1", SKU: "apple"}); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(seen) != "[in shared out]" {
			t.Fatalf("seen %v", seen)
		}
	})
}
