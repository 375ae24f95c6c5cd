// Command shop runs both example services on your own Redis and PostgreSQL: customers buy
// the last pieces of a sku and claim a coupon, all at once, and the books are compared.
//
//	go run ./examples/shop -redis 127.0.0.1:6379 -dsn postgres://user@127.0.0.1/db
//
// It keeps its tables in a schema of its own, and drops that at the end.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/examples/coupon"
	"github.com/tierlock/tierlock/examples/order"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("shop", flag.ContinueOnError)
	flags.SetOutput(out)
	addr := flags.String("redis", "127.0.0.1:6379", "where the locks are, `host:port`")
	dsn := flags.String("dsn", "", "where the stock is, a PostgreSQL `url`")
	pieces := flags.Int("pieces", 20, "how many there are to sell")
	customers := flags.Int("customers", 30, "how many want one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tierlock-shop-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	// What a service opens at its start, and closes in the opposite order.
	db, drop, err := postgres.OpenSchema(ctx, *dsn, fmt.Sprintf("tierlock_shop_%d", time.Now().UnixNano()))
	if err != nil {
		return err
	}
	closing := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, drop(closing)) }()
	store, err := redisstore.New(redisstore.Config{Addrs: []string{*addr}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	trail, err := audit.Open(audit.Config{Dir: dir, Producer: "shop"}) // a sink would forward it to Kafka
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trail.Close(closing)) }()
	gw, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{order.Chain: order.Policy(), coupon.Chain: coupon.Policy()},
		Stores: map[string]tierlock.Backend{"main": store},
		Audit:  trail,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gw.Close(closing)) }()

	for _, statement := range append(order.Schema(guard.Postgres), coupon.Schema()...) {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if _, err := db.ExecContext(ctx, `INSERT INTO stock (sku, pieces) VALUES ('apple', $1)`, *pieces); err != nil {
		return err
	}
	orders, err := order.New(order.Config{Gateway: gw, DB: db, Dialect: guard.Postgres})
	if err != nil {
		return err
	}
	coupons, err := coupon.New(coupon.Config{Gateway: gw, DB: db})
	if err != nil {
		return err
	}
	return open(ctx, orders, coupons, *customers).compare(ctx, db, *pieces, out)
}

// told counts what customers were told.
type told struct {
	mu                         sync.Mutex
	bought, soldOut, claimed   int
	claimedBefore, busy, other int
	last                       error // of the others
}

// open serves all customers at once. Each tries to buy until he is told yes or sold out, and
// claims the same coupon twice.
func open(ctx context.Context, orders *order.Service, coupons *coupon.Service, customers int) *told {
	t := new(told)
	var wg sync.WaitGroup
	for i := range customers {
		wg.Go(func() {
			id := fmt.Sprintf("c%d", i)
			for !t.add(orders.Place(ctx, order.Order{ID: id, SKU: "apple"}), &t.bought) && ctx.Err() == nil {
			}
		})
		for n := range 2 {
			wg.Go(func() {
				claim := coupon.Claim{ID: fmt.Sprintf("c%d-%d", i, n), User: fmt.Sprintf("c%d", i), Coupon: "c7"}
				for !t.add(coupons.Claim(ctx, claim), &t.claimed) && ctx.Err() == nil {
				}
			})
		}
	}
	wg.Wait()
	return t
}

// add counts one answer, and tells whether the customer goes home with it.
func (t *told) add(err error, yes *int) (home bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		*yes++
	case errors.Is(err, order.ErrSoldOut):
		t.soldOut++
	case errors.Is(err, coupon.ErrClaimed):
		t.claimedBefore++
	case errors.Is(err, order.ErrBusy), errors.Is(err, coupon.ErrBusy):
		t.busy++
		return false
	default:
		t.other, t.last = t.other+1, err
	}
	return true
}

// compare prints what was told and what the database says; where they differ, that is the
// error.
func (t *told) compare(ctx context.Context, db *sql.DB, pieces int, out io.Writer) error {
	var left, sold, claims, users int
	err := db.QueryRowContext(ctx, `SELECT (SELECT pieces FROM stock), (SELECT COUNT(*) FROM orders),
  (SELECT COUNT(*) FROM claims), (SELECT COUNT(DISTINCT user_id) FROM claims)`).Scan(&left, &sold, &claims, &users)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "told:  %d bought, %d sold out, %d claimed, %d had claimed before, %d times busy, %d other\n",
		t.bought, t.soldOut, t.claimed, t.claimedBefore, t.busy, t.other)
	fmt.Fprintf(out, "books: %d pieces left of %d, %d orders, %d claims of %d users\n", left, pieces, sold, claims, users)
	switch {
	case left+sold != pieces, sold < t.bought, claims < t.claimed:
		return errors.New("the books do not agree")
	case t.last != nil:
		return fmt.Errorf("%d answers were none of the above, the last: %w", t.other, t.last)
	}
	return nil
}
