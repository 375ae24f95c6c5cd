package guard_test

import (
	"context"
	"database/sql"
	"fmt"

	_ "modernc.org/sqlite"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/guard"
)

// A service sells under a lock. Enter is the first statement of the transaction, so a
// holder whose lock has passed on is refused before it can read; Transact begins again
// where the database could not let two transactions through together.
func ExampleFence() {
	db, fence := shop()
	defer db.Close()
	sell := func(ctx context.Context, g tierlock.Grant) error {
		return guard.Transact(ctx, db, nil, func(tx *sql.Tx) error {
			if err := fence.Enter(ctx, tx, g); err != nil {
				return err
			}
			// ... read, decide and write ...
			return nil
		})
	}
	// In a service grant and context are those of the lock: see gateway.Chain.Do.
	ctx, grant := context.Background(), tierlock.Grant{Key: key("biz:order:lock:10086"), Tier: tierlock.Shared}
	for _, grant.Token = range []tierlock.Token{41, 42, 41} {
		fmt.Println(sell(ctx, grant))
	}
	// Output:
	// <nil>
	// <nil>
	// guard: stale: biz:order:lock:10086: token 41, mark 42
}

// A holder without a token, in by a local or bypass grant, is refused unless the fence says
// otherwise; then it is on record.
func ExampleConfig_unfenced() {
	db, fence := shop()
	defer db.Close()
	ctx, grant := context.Background(), tierlock.Grant{Key: key("biz:coupon:lock:u42-c7"), Tier: tierlock.Bypass}
	enter := func(f *guard.Fence) error {
		return guard.Transact(ctx, db, nil, func(tx *sql.Tx) error { return f.Enter(ctx, tx, grant) })
	}
	open, err := guard.New(guard.Config{Dialect: guard.SQLite, Unfenced: true})
	fmt.Println(err, enter(fence), enter(open))

	var tier string
	var n int
	err = db.QueryRowContext(ctx, `SELECT unfenced, unfenced_tier FROM tierlock_fence`).Scan(&n, &tier)
	fmt.Println(n, tier, err)
	// Output:
	// <nil> guard: no fencing token <nil>
	// 1 bypass <nil>
}

// shop is a database in memory with a fence.
func shop() (*sql.DB, *guard.Fence) {
	db, err := sql.Open("sqlite", "file::memory:?_txlock=immediate")
	if err != nil {
		panic(err)
	}
	db.SetMaxOpenConns(1) // each connection would have a memory of its own
	fence, err := guard.New(guard.Config{Dialect: guard.SQLite})
	if err != nil {
		panic(err)
	}
	if _, err := db.ExecContext(context.Background(), fence.Schema()); err != nil {
		panic(err)
	}
	return db, fence
}
