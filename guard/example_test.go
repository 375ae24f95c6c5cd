package guard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/guard"
)

// A service writes a row under a lock. Enter is the first statement of the transaction, so
// a holder whose lock has passed on is refused before it can read.
func ExampleEnter() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file::memory:?cache=shared&_txlock=immediate")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, guard.Schema(guard.SQLite)); err != nil {
		panic(err)
	}
	key, _ := tierlock.ParseKey("biz:order:lock:10086")

	sell := func(token tierlock.Token) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := guard.Enter(ctx, tx, guard.SQLite, key, token); err != nil {
			return err
		}
		// ... read and write the row ...
		return tx.Commit()
	}
	fmt.Println(sell(41), sell(42), errors.Is(sell(41), guard.ErrStale))
	// Output: <nil> <nil> true
}
