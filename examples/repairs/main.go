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
	"time"

	"github.com/tierlock/tierlock/internal/postgres"
	"github.com/tierlock/tierlock/reconcile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "repairs:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("repairs", flag.ContinueOnError)
	flags.SetOutput(out)
	dsn := flags.String("dsn", "", "where the business is, a PostgreSQL `url`")
	only := flags.String("only", "", "one of stock, coupon, payment, balance; default all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ran := false
	for _, b := range businesses() {
		if *only != "" && *only != b.name {
			continue
		}
		ran = true
		if err := inSchema(ctx, *dsn, b, out); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	if !ran {
		return fmt.Errorf("no example %q: want stock, coupon, payment or balance", *only)
	}
	return nil
}

func inSchema(ctx context.Context, dsn string, b business, out io.Writer) error {
	db, drop, err := postgres.OpenSchema(ctx, dsn, fmt.Sprintf("tierlock_repairs_%d", time.Now().UnixNano()))
	if err != nil {
		return err
	}
	_, err = story(ctx, db, reconcile.Postgres, b, out)
	return errors.Join(err, drop(context.WithoutCancel(ctx)))
}

// story breaks the record, looks, mends it, and then brings what comes late: nothing of it
// may mend anything twice.
func story(ctx context.Context, db *sql.DB, d reconcile.Dialect, b business, out io.Writer) ([]step, error) {
	s, err := open(ctx, db, d, b, out)
	if err != nil {
		return nil, err
	}
	first, err := s.collide(ctx, "a", "b")
	if err != nil {
		return nil, err
	}
	for _, step := range []struct {
		what  string
		do    func()
		apply bool
		anew  bool
	}{
		{"a dry run", nil, false, true},
		{"repaired", nil, true, true},
		{"all read again", nil, true, true},
		{"an earlier hold comes late", func() { s.late("c", first.from.Add(-time.Millisecond), first.from.Add(time.Millisecond)) }, true, false},
		{"one that joins both groups comes late", func() { s.between(first) }, true, false},
		{"all read again", nil, true, true},
	} {
		if step.do != nil {
			step.do()
		}
		if err := s.reconcile(ctx, step.what, step.apply, step.anew); err != nil {
			return s.told, err
		}
	}
	return s.told, nil
}
