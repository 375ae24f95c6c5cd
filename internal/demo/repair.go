//go:build !nodemo

package demo

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/reconcile"
)

// A claim too many is withdrawn; the first one of the user stays. Both hooks look again
// inside the transaction that repairs and change only what is wrong then, so running one
// twice, or for each of three holds, withdraws nothing twice.
const (
	checkClaims    = `SELECT COUNT(*) - 1 FROM claims WHERE user_id || '-' || coupon = {id} AND kind = {type} AND withdrawn = 0`
	withdrawClaims = `UPDATE claims SET withdrawn = 1 WHERE user_id || '-' || coupon = {id} AND kind = {type} AND withdrawn = 0
 AND id <> (SELECT MIN(id) FROM claims WHERE user_id || '-' || coupon = {id} AND kind = {type} AND withdrawn = 0)`
)

// hooks are the repairs by business type: coupons by SQL alone, gifts by a Go function.
func (s *shop) hooks(d reconcile.Dialect) (map[string]reconcile.Hook, error) {
	bySQL, err := reconcile.NewSQLHook(reconcile.SQLHookConfig{
		DB: s.db, Dialect: d, Action: "withdraw", Check: checkClaims, Repair: []string{withdrawClaims},
	})
	if err != nil {
		return nil, err
	}
	byGo := reconcile.Hook{Action: "withdraw", Check: reconcile.CheckFunc(s.checkGift), Repair: reconcile.RepairFunc(s.withdrawGift)}
	return map[string]reconcile.Hook{"coupon": bySQL, gift: byGo}, nil
}

const giftClaims = ` FROM claims WHERE user_id || '-' || coupon = $1 AND kind = 'gift' AND withdrawn = 0`

func (s *shop) checkGift(ctx context.Context, c reconcile.Case) (int64, error) {
	return giftsTooMany(s.db.QueryRowContext(ctx, `SELECT COUNT(*)`+giftClaims, c.Business.ID))
}

func giftsTooMany(row *sql.Row) (int64, error) {
	var n int64
	if err := row.Scan(&n); err != nil {
		return 0, fmt.Errorf("check gifts: %w", err)
	}
	return max(n-1, 0), nil
}

func (s *shop) withdrawGift(ctx context.Context, c reconcile.Case) (reconcile.Result, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return reconcile.ResultFailed, err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	wrong, err := giftsTooMany(tx.QueryRowContext(ctx, `SELECT COUNT(*)`+giftClaims, c.Business.ID))
	if err != nil {
		return reconcile.ResultFailed, err
	}
	if wrong == 0 {
		return reconcile.ResultClean, nil
	}
	_, err = tx.ExecContext(ctx, `UPDATE claims SET withdrawn = 1 WHERE id IN (SELECT id`+giftClaims+`) AND id <> (SELECT MIN(id)`+giftClaims+`)`, c.Business.ID)
	if err != nil {
		return reconcile.ResultFailed, err
	}
	return reconcile.ResultApplied, tx.Commit()
}

// locker gives repairs the real lock and lets the oracle see who holds it.
type locker struct {
	reconcile.Locker
	oracle   *oracle
	requests func()
}

// DoShared implements [reconcile.Locker].
func (l locker) DoShared(ctx context.Context, key tierlock.Key, fn func(context.Context, tierlock.Grant) error) error {
	l.requests()
	ctx, c := l.oracle.begin(ctx)
	defer c.end()
	return l.Locker.DoShared(ctx, key, func(ctx context.Context, g tierlock.Grant) error {
		defer l.oracle.watch(ctx, g)()
		return fn(ctx, g)
	})
}
