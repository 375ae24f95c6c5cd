package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/examples/order"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/servers"
)

// The whole way on real servers: an order service that takes its locks from a Redis which
// loses them, and sells from a database that refuses who was outbid.
func TestShopOnRedisAndPostgres(t *testing.T) {
	db, err := sql.Open("pgx", servers.Postgres(t).DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	testShop(t, guard.Postgres, db)
}

func TestShopOnRedisAndMariaDB(t *testing.T) {
	testShop(t, guard.MySQL, openDB(t, servers.MariaDB(t).DSN()))
}

type shop struct {
	*order.Service
	orders *gateway.Chain
	db     *sql.DB
	redis  *redis.Client

	mu   sync.Mutex
	lost []gateway.LostInfo // guarded by mu
}

func openShop(t *testing.T, d guard.Dialect, db *sql.DB) *shop {
	t.Helper()
	addr := servers.Redis(t).Addr()
	store, err := redisstore.New(redisstore.Config{Addrs: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s := &shop{db: db, redis: redis.NewClient(&redis.Options{Addr: addr})}
	t.Cleanup(func() { s.redis.Close() })
	gw, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{order.Chain: order.Policy()},
		Stores: map[string]tierlock.Backend{"main": store},
		Audit:  new(gatewaytest.Audit),
		Hooks:  gateway.Hooks{Lost: s.noteLost},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gw.Close(context.Background()) })
	if s.orders, err = gw.Chain(order.Chain); err != nil {
		t.Fatal(err)
	}
	if s.Service, err = order.New(order.Config{Gateway: gw, DB: db, Dialect: d}); err != nil {
		t.Fatal(err)
	}
	for _, q := range append(order.Schema(d), `INSERT INTO stock (sku, pieces) VALUES ('apple', 40)`) {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	return s
}

func (s *shop) noteLost(info gateway.LostInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = append(s.lost, info)
}

// lose has the store forget the lock, as an eviction or a failover does.
func (s *shop) lose(ctx context.Context) error {
	return s.redis.Del(ctx, "biz:order:lock:apple").Err()
}

// want compares the books: pieces left, and orders written.
func (s *shop) want(t *testing.T, pieces, orders int) {
	t.Helper()
	var p, o int
	if err := s.db.QueryRowContext(t.Context(), `SELECT pieces, (SELECT COUNT(*) FROM orders) FROM stock`).Scan(&p, &o); err != nil {
		t.Fatal(err)
	}
	if p != pieces || o != orders {
		t.Fatalf("%d pieces left and %d orders, want %d and %d", p, o, pieces, orders)
	}
}

func testShop(t *testing.T, d guard.Dialect, db *sql.DB) {
	s := openShop(t, d, db)
	ctx := t.Context()

	// One holder has read when the store loses his lock and another one sells.
	err := s.orders.Do(ctx, "apple", func(ctx context.Context, g tierlock.Grant) error {
		version, err := s.Look(ctx, g, "apple")
		if err != nil {
			return err
		}
		if err := errors.Join(s.lose(ctx), s.Place(context.WithoutCancel(t.Context()), order.Order{ID: "second", SKU: "apple"})); err != nil {
			return fmt.Errorf("the second could not sell: %w", err)
		}
		return s.Sell(ctx, g, version, order.Order{ID: "first", SKU: "apple"})
	})
	stale, ok := errors.AsType[*guard.StaleError](err)
	if !ok || stale.Mark <= stale.Token || !errors.Is(err, tierlock.ErrLost) {
		t.Fatalf("the first holder sold: %v", err)
	}
	if len(s.lost) != 1 || !errors.Is(s.lost[0].Cause, guard.ErrStale) || s.lost[0].Grant.Token != stale.Token {
		t.Fatalf("told of lost locks: %v", s.lost)
	}
	s.want(t, 39, 1)

	// Many customers, and the lock lost again and again: who was told that he bought has
	// bought, and nobody else.
	var mu sync.Mutex
	sold := 1
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			for n := range 4 {
				err := s.Place(ctx, order.Order{ID: fmt.Sprintf("o-%d-%d", i, n), SKU: "apple"})
				mu.Lock()
				if err == nil {
					sold++
				}
				mu.Unlock()
				if err := s.lose(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if sold == 1 {
		t.Fatal("nobody bought")
	}
	t.Logf("%d of 49 orders placed, %d locks ended as lost", sold, len(s.lost))
	s.want(t, 40-sold, sold)
}
