//go:build !nodemo

package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/tierlock/tierlock/examples/coupon"
	"github.com/tierlock/tierlock/examples/order"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/reconcile"
)

// shop is the business database as its owner sees it: what was in stock at first, and what
// is wrong now.
type shop struct {
	db *sql.DB

	mu     sync.Mutex
	pieces map[string]int64 // put in stock at first
}

// openShop creates the tables of both services and of the reconciliation.
func openShop(ctx context.Context, db *sql.DB, d guard.Dialect, tables reconcile.Dialect) (*shop, error) {
	statements := append(order.Schema(d), coupon.Schema()...)
	// The repairs look claims up by the business id of their events.
	statements = append(statements, `CREATE INDEX IF NOT EXISTS claims_by_business_id ON claims ((user_id || '-' || coupon))`)
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return nil, fmt.Errorf("create the shop's tables: %w", err)
		}
	}
	if err := reconcile.CreateRepairs(ctx, db, tables); err != nil {
		return nil, err
	}
	return &shop{db: db, pieces: map[string]int64{}}, nil
}

// offer puts a sku on sale, once.
func (s *shop) offer(ctx context.Context, sku string, pieces int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.pieces[sku]; known {
		return nil
	}
	_, err := s.db.ExecContext(ctx, `INSERT INTO stock (sku, pieces) VALUES ($1, $2)`, sku, pieces)
	if err != nil {
		return fmt.Errorf("offer %s: %w", sku, err)
	}
	s.pieces[sku] = pieces
	return nil
}

// overLimit counts the claims beyond one per user and coupon.
func (s *shop) overLimit(ctx context.Context) (int64, error) {
	return s.count(ctx, `SELECT COALESCE(SUM(n - 1), 0) FROM (SELECT COUNT(*) AS n FROM claims WHERE withdrawn = 0 GROUP BY user_id, coupon) AS per_user`)
}

// negative counts the skus of which more was sold than there was.
func (s *shop) negative(ctx context.Context) (int64, error) {
	return s.count(ctx, `SELECT COUNT(*) FROM stock WHERE pieces < 0`)
}

// unaccounted counts, over all skus, the pieces that left the stock without an order, and
// the orders that took none: an order sold twice shows as either.
func (s *shop) unaccounted(ctx context.Context) (int64, error) {
	rows, err := s.db.QueryContext(ctx,
		`SELECT stock.sku, stock.pieces, COUNT(orders.id) FROM stock LEFT JOIN orders ON orders.sku = stock.sku GROUP BY stock.sku, stock.pieces`)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	var wrong int64
	for rows.Next() {
		var sku string
		var left, orders int64
		if err := rows.Scan(&sku, &left, &orders); err != nil {
			return 0, err
		}
		wrong += abs(s.pieces[sku] - left - orders)
	}
	return wrong, rows.Err()
}

func (s *shop) count(ctx context.Context, query string) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

// audit fills in what an accountant would find now.
func (s *shop) audit(ctx context.Context, r *BusinessReport) error {
	var errs [3]error
	r.OverLimitAfter, errs[0] = s.overLimit(ctx)
	r.StockNegative, errs[1] = s.negative(ctx)
	r.DuplicateOrders, errs[2] = s.unaccounted(ctx)
	return errors.Join(errs[:]...)
}

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}
