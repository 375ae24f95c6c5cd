// Package postgres OPENS PostgreSQL: the business database of the reconcile job and of the
// demo. It is the only folder that imports pgx.
package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Check reads dsn without connecting. The error may show parts of dsn.
func Check(dsn string) error {
	_, err := pgx.ParseConfig(dsn)
	return err
}

// Open returns a pool for dsn; its first question connects. The error may show parts of dsn.
func Open(dsn string) (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the dsn: %w", err)
	}
	return stdlib.OpenDB(*cfg), nil
}

// OpenSchema connects to dsn and creates schema, whose tables every statement then means.
// drop removes the schema and closes the pool. The name is quoted; it must be one word.
func OpenSchema(ctx context.Context, dsn, schema string) (db *sql.DB, drop func(context.Context) error, err error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, nil, fmt.Errorf("read the dsn: %w", err)
	}
	name := pgx.Identifier{schema}.Sanitize()
	cfg.RuntimeParams["search_path"] = name
	db = stdlib.OpenDB(*cfg)
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(32)
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA "+name); err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("create schema %s: %w", schema, err)
	}
	drop = func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, "DROP SCHEMA "+name+" CASCADE")
		if e := db.Close(); err == nil {
			err = e
		}
		return err
	}
	return db, drop, nil
}
