package guard

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/tierlock/tierlock"
)

// schemas creates the fence table: one row per lock key, with the highest token that has
// entered. unfenced counts the passages without a token, so that a reader of the table
// sees which rows were ever written past the lock.
var schemas = map[Dialect]string{
	SQLite: `CREATE TABLE IF NOT EXISTS tierlock_fence (
  lock_key   TEXT    NOT NULL PRIMARY KEY,
  token      INTEGER NOT NULL,
  unfenced   INTEGER NOT NULL DEFAULT 0,
  updated_at TEXT    NOT NULL
)`,
	Postgres: `CREATE TABLE IF NOT EXISTS tierlock_fence (
  lock_key   TEXT        NOT NULL PRIMARY KEY,
  token      BIGINT      NOT NULL,
  unfenced   BIGINT      NOT NULL DEFAULT 0,
  updated_at TIMESTAMPTZ NOT NULL
)`,
}

// enters raise the mark in one statement, also for a key that has no row yet, and change
// no row when a higher token has entered before. A token of zero never lowers a mark.
var enters = map[Dialect]string{
	SQLite:   enterWith("strftime('%Y-%m-%dT%H:%M:%fZ','now')"),
	Postgres: enterWith("now()"),
}

func enterWith(now string) string {
	return `INSERT INTO tierlock_fence (lock_key, token, unfenced, updated_at) VALUES (?, ?, ?, ` + now + `)
ON CONFLICT (lock_key) DO UPDATE SET
  token = CASE WHEN excluded.token = 0 THEN tierlock_fence.token ELSE excluded.token END,
  unfenced = tierlock_fence.unfenced + excluded.unfenced,
  updated_at = excluded.updated_at
WHERE tierlock_fence.token <= excluded.token OR excluded.token = 0`
}

// Schema is the statement that creates the table tierlock_fence where it is missing. The
// table belongs in the same database as the rows it guards. An unknown dialect has none.
func Schema(d Dialect) string { return schemas[d] }

// Enter lets the holder of token into the resource named key, inside the transaction tx
// that then reads or writes it. It raises the resource's mark to token, keeps the mark's
// row locked until tx ends, and answers [ErrStale] when a higher token has entered before:
// then roll back. The same token may enter any number of times.
//
// Call it in every transaction that touches the resource, as the first statement of it:
// the mark must stand before the holder's first read. A *sql.DB is refused, since the
// check and the access would not be one step.
//
// Token zero (a local or bypass grant, or a chain without fencing) passes, leaves the mark
// as it is, and is counted in the row: such holders are told apart afterwards by
// reconcile, not here. Resources that only fenced holders may touch use [EnterFenced].
//
// On PostgreSQL above READ COMMITTED a race with another holder ends as a serialization
// failure (SQLSTATE 40001) instead of a wait: roll back and begin again.
func Enter(ctx context.Context, tx Tx, d Dialect, key tierlock.Key, token tierlock.Token) error {
	if err := checkEnter(tx, d, key); err != nil {
		return err
	}
	unfenced := 0
	if token == 0 {
		unfenced = 1
	}
	n, err := affected(tx.ExecContext(ctx, d.bind(enters[d]), key.String(), SQL(token), unfenced))
	switch {
	case err != nil:
		return fmt.Errorf("guard: enter: %w", err)
	case n == 0:
		return ErrStale
	}
	return nil
}

// EnterFenced is [Enter] for a resource that only fenced holders may touch: token zero is
// [ErrUnfenced].
func EnterFenced(ctx context.Context, tx Tx, d Dialect, key tierlock.Key, token tierlock.Token) error {
	if token == 0 {
		return ErrUnfenced
	}
	return Enter(ctx, tx, d, key, token)
}

func checkEnter(tx any, d Dialect, key tierlock.Key) error {
	if nothing(tx) {
		return tierlock.Invalid("tx", "nil", "want the transaction that touches the resource")
	}
	if _, pool := tx.(*sql.DB); pool {
		return tierlock.Invalid("tx", "*sql.DB", "want a transaction: check and access must be one step")
	}
	if key.IsZero() {
		return tierlock.Invalid("key", "", "want the key of the lock that is held")
	}
	return d.Validate()
}
