package guard

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierlock/tierlock"
)

// Row names rows that guard themselves, by a column for the version, one for the token, or
// both.
//
// A version is for the optimistic path: read it, think, then compare and bump it in the
// transaction that writes. The bump locks the row, so what the same transaction writes to
// it afterwards is guarded too. Optimistic work is as strong as the lock only if every
// writer of the row bumps, lock holders included.
//
// A token column is a [Fence] for rows that are there already: one statement and no second
// table, but no place for the record of a holder without a token, and none for a row that
// has yet to be made.
//
// The names go into SQL text as they stand: each must be letters, digits and _ (one dot for
// a schema in Table), which every method checks.
type Row struct {
	Table   string // "stock", "shop.stock"
	ID      string // its key column; default "id"
	Version string // an integer column that starts at any value; default "version"
	Token   string // a BIGINT NOT NULL DEFAULT 0; default "fence"
}

// Enter raises the token column of the row whose ID column is id to g's token, and keeps
// the row locked until tx ends. It is a [*StaleError] when the row has seen a higher one,
// [ErrUnfenced] for token zero, [ErrRetry] as in [Fence.Enter], and sql.ErrNoRows where
// there is no such row.
//
// Like [Fence.Enter] it must be the first statement of every transaction that touches the
// row. On InnoDB nothing tells when it is not: a transaction that has read before goes on
// reading what it saw then.
func (r Row) Enter(ctx context.Context, tx Tx, d Dialect, id any, g tierlock.Grant) error {
	r, err := r.checked(d)
	switch {
	case err != nil:
		return err
	case g.Token == 0:
		return ErrUnfenced
	}
	if err := checkTx(tx); err != nil {
		return err
	}
	token := SQL(g.Token)
	update := fmt.Sprintf("UPDATE %s SET %s = ? WHERE %s = ? AND %s <= ?", r.Table, r.Token, r.ID, r.Token)
	n, err := affected(tx.ExecContext(ctx, d.bind(update), token, id, token))
	if err != nil {
		return failed("enter row", err)
	}
	if n > 0 {
		return nil
	}
	// Refused, or gone, or on MySQL the same token again, which changes nothing.
	var mark int64
	read := fmt.Sprintf("SELECT %s FROM %s WHERE %s = ?%s", r.Token, r.Table, r.ID, d.forUpdate())
	if err := tx.QueryRowContext(ctx, d.bind(read), id).Scan(&mark); err != nil {
		return failed("enter row", err)
	}
	if mark > token {
		return &StaleError{g.Key, g.Token, tierlock.Token(mark)}
	}
	if mark < token {
		return failed("enter row", errRowMoved)
	}
	return nil
}

// errRowMoved is a row that came to be, or was put back, between two statements.
var errRowMoved = fmt.Errorf("%w: the row was made meanwhile", ErrRetry)

// Read returns the version of the row whose ID column is id. A missing row is
// sql.ErrNoRows.
func (r Row) Read(ctx context.Context, db Queryer, d Dialect, id any) (int64, error) {
	r, err := r.checked(d)
	if err != nil {
		return 0, err
	}
	if nothing(db) {
		return 0, errNoDB
	}
	var version int64
	query := fmt.Sprintf("SELECT %s FROM %s WHERE %s = ?", r.Version, r.Table, r.ID)
	if err := db.QueryRowContext(ctx, d.bind(query), id).Scan(&version); err != nil {
		return 0, failed("read version", err)
	}
	return version, nil
}

// Bump raises the row's version from version to version + 1. It is [ErrStale] when the row
// has another version by now, or is gone.
func (r Row) Bump(ctx context.Context, db Execer, d Dialect, id any, version int64) error {
	r, err := r.checked(d)
	if err != nil {
		return err
	}
	query := fmt.Sprintf("UPDATE %s SET %s = %s + 1 WHERE %s = ? AND %s = ?", r.Table, r.Version, r.Version, r.ID, r.Version)
	return Once(ctx, db, d.bind(query), id, version)
}

// checked fills in the defaults and reports every fault at once.
func (r Row) checked(d Dialect) (Row, error) {
	for _, f := range []struct {
		name *string
		word string
	}{{&r.ID, "id"}, {&r.Version, "version"}, {&r.Token, "fence"}} {
		if *f.name == "" {
			*f.name = f.word
		}
	}
	errs := []error{d.Validate()}
	if !identifier(r.Table, true) {
		errs = append(errs, tierlock.Invalid("row.table", r.Table, "want letters, digits and _, at most 63, with at most one dot"))
	}
	for _, f := range []struct{ field, name string }{{"row.id", r.ID}, {"row.version", r.Version}, {"row.token", r.Token}} {
		if !identifier(f.name, false) {
			errs = append(errs, tierlock.Invalid(f.field, f.name, "want letters, digits and _, at most 63"))
		}
	}
	return r, errors.Join(errs...)
}
