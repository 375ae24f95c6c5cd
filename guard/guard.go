// Package guard REFUSES: it is what the protected resource runs, so that a holder whose
// lock has passed on cannot write. A [Fence] keeps the highest token of each key in a table
// of its own, also for things that do not exist yet; [Row] keeps a token or a version in
// the row itself; [Handler] checks the token of an HTTP request. It takes no lock and keeps
// no connection; what it remembers is in the database of the resource.
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
	"fmt"
	"math"

	"github.com/tierlock/tierlock"
)

// Execer is *sql.Tx, *sql.Conn or *sql.DB.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Queryer reads one row; *sql.Tx, *sql.Conn and *sql.DB do.
type Queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Tx is what [Fence.Enter] runs in: *sql.Tx, or a *sql.Conn on which the caller began a
// transaction by hand.
type Tx interface {
	Execer
	Queryer
}

// Once runs a statement that must change exactly one row. No row is [ErrStale]; more than
// one is an error too, and the caller's transaction must be rolled back. Put
// "AND version = ?" into its WHERE, and "version = version + 1" into its SET: MySQL's driver
// counts only rows that the statement made different.
func Once(ctx context.Context, db Execer, query string, args ...any) error {
	if nothing(db) {
		return errNoDB
	}
	n, err := affected(db.ExecContext(ctx, query, args...))
	switch {
	case err != nil:
		return failed("once", err)
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

var errNoDB = tierlock.Invalid("db", "nil", "want a transaction or a database")

func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// pool is what *sql.DB has, and what embeds one, and no transaction has.
type pool interface{ SetMaxOpenConns(n int) }

// checkTx refuses what is no transaction.
func checkTx(tx any) error {
	if nothing(tx) {
		return tierlock.Invalid("tx", "nil", "want the transaction that touches the resource")
	}
	if _, is := tx.(pool); is {
		return tierlock.Invalid("tx", fmt.Sprintf("%T", tx), "want a transaction: check and access must be one step")
	}
	return nil
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
