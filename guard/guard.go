// Package guard REFUSES: it is what the protected resource runs, so that a holder whose
// lock has passed on cannot write. [Enter] checks fencing tokens in SQL, [Row] compares
// and bumps a version, [Handler] checks the token of an HTTP request. It takes no lock,
// opens no connection and begins no transaction.
//
// Why the mark must rise before the first read: holder A (token 5) reads 10 and pauses;
// its lock expires; holder B (token 6) reads 10 too; A wakes and writes 11 with token 5,
// which nobody has outbid yet; B writes 11 with token 6, which is higher still. Both
// writes passed a check of tokens at the write alone and one increment is lost. With
// Enter before B's read the mark is 6 when A wakes, and A is refused.
package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/tierlock/tierlock"
)

// ErrStale says that the resource has seen a newer token or another version: the caller's
// lock has passed on, or its read is old. Roll back; do not retry with the same token.
var ErrStale = errors.New("guard: stale")

// ErrUnfenced says that a resource which wants a token was given none.
var ErrUnfenced = errors.New("guard: no fencing token")

// Execer is *sql.Tx, *sql.Conn or *sql.DB.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Queryer reads one row; *sql.Tx, *sql.Conn and *sql.DB do.
type Queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Tx is what [Enter] runs in: *sql.Tx, or a *sql.Conn on which the caller began a
// transaction by hand.
type Tx interface {
	Execer
	Queryer
}

// Once runs a statement that must change exactly one row. No row is [ErrStale]; more than
// one is an error too, and the caller's transaction must be rolled back. Put
// "AND fence <= ?" with the token or "AND version = ?" into its WHERE.
func Once(ctx context.Context, db Execer, query string, args ...any) error {
	if nothing(db) {
		return tierlock.Invalid("db", "nil", "want a transaction or a database")
	}
	n, err := affected(db.ExecContext(ctx, query, args...))
	switch {
	case err != nil:
		return fmt.Errorf("guard: once: %w", err)
	case n == 0:
		return ErrStale
	case n > 1:
		return fmt.Errorf("guard: once: %d rows changed, want one; roll back", n)
	}
	return nil
}

// SQL passes a Token as a decimal that every driver takes. A token beyond int64 becomes
// the largest int64; stores mint none before the year 294246.
func SQL(t tierlock.Token) int64 { return int64(min(uint64(t), math.MaxInt64)) }

func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// nothing tells whether db is nil, or a nil pointer of database/sql inside an interface:
// the driver would panic on it.
func nothing(db any) bool {
	switch d := db.(type) {
	case nil:
		return true
	case *sql.Tx:
		return d == nil
	case *sql.Conn:
		return d == nil
	case *sql.DB:
		return d == nil
	}
	return false
}
