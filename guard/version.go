package guard

import (
	"context"
	"fmt"

	"github.com/tierlock/tierlock"
)

// Row names rows that carry a version, for the optimistic path: read the version, think,
// then compare and bump it in the transaction that writes. The bump locks the row, so what
// the same transaction writes to it afterwards is guarded too. Optimistic work is as
// strong as the lock only if every writer of the row bumps, lock holders included.
//
// The three names go into SQL text: they must be plain identifiers (letters, digits, _,
// one dot for a schema in Table), which every method checks.
type Row struct {
	Table   string // "stock", "shop.stock"
	ID      string // its key column; default "id"
	Version string // an integer column that starts at any value; default "version"
}

// Read returns the version of the row whose ID column is id. A missing row is
// sql.ErrNoRows.
func (r Row) Read(ctx context.Context, db Queryer, d Dialect, id any) (int64, error) {
	r, err := r.checked(db, d)
	if err != nil {
		return 0, err
	}
	var version int64
	query := fmt.Sprintf("SELECT %s FROM %s WHERE %s = ?", r.Version, r.Table, r.ID)
	if err := db.QueryRowContext(ctx, d.bind(query), id).Scan(&version); err != nil {
		return 0, fmt.Errorf("guard: read version: %w", err)
	}
	return version, nil
}

// Bump raises the row's version from version to version + 1. It is [ErrStale] when the row
// has another version by now, or is gone.
func (r Row) Bump(ctx context.Context, db Execer, d Dialect, id any, version int64) error {
	r, err := r.checked(db, d)
	if err != nil {
		return err
	}
	query := fmt.Sprintf("UPDATE %s SET %s = %s + 1 WHERE %s = ? AND %s = ?", r.Table, r.Version, r.Version, r.ID, r.Version)
	return Once(ctx, db, d.bind(query), id, version)
}

func (r Row) checked(db any, d Dialect) (Row, error) {
	if r.ID == "" {
		r.ID = "id"
	}
	if r.Version == "" {
		r.Version = "version"
	}
	switch {
	case nothing(db):
		return r, tierlock.Invalid("db", "nil", "want a transaction or a database")
	case !identifier(r.Table, true):
		return r, tierlock.Invalid("row.table", r.Table, "want an identifier, with at most one dot")
	case !identifier(r.ID, false):
		return r, tierlock.Invalid("row.id", r.ID, "want an identifier")
	case !identifier(r.Version, false):
		return r, tierlock.Invalid("row.version", r.Version, "want an identifier")
	}
	return r, d.Validate()
}

// identifier accepts letters, digits and _, not starting with a digit; and, where dotted
// is true, two of them with a dot between.
func identifier(s string, dotted bool) bool {
	start := true
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', !start && c >= '0' && c <= '9':
			start = false
		case c == '.' && dotted && !start:
			start, dotted = true, false
		default:
			return false
		}
	}
	return !start
}
