package guard

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
)

// How often [Transact] begins, and the pause before it does again: up to 4 ms, doubling to
// 64 ms. Two that met once meet less often with each try; a hot key takes a few.
const (
	tries      = 10
	firstPause = 4 * time.Millisecond
	mostPause  = 64 * time.Millisecond
)

// Transact runs fn in a transaction of db and commits it, or rolls back what fn refuses.
// When the error is [Retryable], from fn, from the commit or inside what fn returns, it
// begins again, up to ten times in all while ctx lives: fn must do nothing that a rollback
// does not undo. opts nil is the database's default. Give it the lock's context and have
// fn Enter first:
//
//	err := guard.Transact(ctx, db, nil, func(tx *sql.Tx) error {
//		if err := fence.Enter(ctx, tx, grant); err != nil {
//			return err
//		}
//		… read, decide, write …
//	})
//
// Its error is fn's own or the database's. One of a commit whose answer was lost says
// nothing of whether it took place, and is not tried again.
func Transact(ctx context.Context, db *sql.DB, opts *sql.TxOptions, fn func(tx *sql.Tx) error) error {
	if nothing(db) {
		return tierlock.Invalid("db", "nil", "want a database")
	}
	if fn == nil {
		return tierlock.Invalid("fn", "nil", "want what to do in the transaction")
	}
	pause := firstPause
	for n := 1; ; n++ {
		err := attempt(ctx, db, opts, fn)
		if err == nil || n == tries || !Retryable(err) {
			return err
		}
		timer := time.NewTimer(rand.N(pause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(err, context.Cause(ctx))
		case <-timer.C:
		}
		pause = min(2*pause, mostPause)
	}
}

func attempt(ctx context.Context, db *sql.DB, opts *sql.TxOptions, fn func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return failed("begin", err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back, and fn's own error tells more
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return failed("commit", err)
	}
	return nil
}

// What each database says when a transaction should begin again.
var (
	// PostgreSQL: serialization failure, deadlock, lock not available (lock_timeout).
	retryStates = []string{"40001", "40P01", "55P03"}
	// MySQL and MariaDB: row changed since the snapshot, lock wait timeout, deadlock, NOWAIT.
	retryNumbers = []uint64{1020, 1205, 1213, 3572}
	// SQLite: BUSY and LOCKED, in the low byte of the extended codes.
	retryCodes = []int64{5, 6}
)

// Retryable tells whether err is [ErrRetry], or a database's own word for the same: what a
// later statement or the commit of a guarded transaction may meet as well as Enter. It
// knows the errors of pgx, lib/pq, go-sql-driver/mysql and both SQLite drivers by their
// shape, so that this package links none of them.
func Retryable(err error) bool {
	if errors.Is(err, ErrRetry) {
		return true
	}
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return slices.Contains(retryStates, e.SQLState())
	}
	return anyOf(err, func(err error) bool {
		v := reflect.Indirect(reflect.ValueOf(err))
		if v.Kind() != reflect.Struct {
			return false
		}
		// *mysql.MySQLError{Number uint16; SQLState [5]byte; …}
		if n := v.FieldByName("Number"); n.Kind() == reflect.Uint16 && v.FieldByName("SQLState").IsValid() {
			return slices.Contains(retryNumbers, n.Uint())
		}
		// sqlite3.Error{Code, ExtendedCode int; …} of mattn/go-sqlite3
		if n := v.FieldByName("Code"); n.Kind() == reflect.Int && v.FieldByName("ExtendedCode").IsValid() {
			return slices.Contains(retryCodes, n.Int())
		}
		// *sqlite.Error of modernc.org/sqlite. Others number their errors, too.
		e, ok := err.(interface{ Code() int })
		return ok && strings.Contains(v.Type().PkgPath(), "sqlite") && slices.Contains(retryCodes, int64(e.Code()&0xff))
	})
}

// anyOf asks every error of err's tree.
func anyOf(err error, yes func(error) bool) bool {
	if err == nil {
		return false
	}
	if yes(err) {
		return true
	}
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case interface{ Unwrap() error }:
		return anyOf(e.Unwrap(), yes)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return anyOf(err, yes) })
	}
	return false
}
