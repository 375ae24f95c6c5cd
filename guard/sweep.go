package guard

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
)

// MinIdle is the least time that a mark must have been left alone before [Fence.Sweep] may
// take it. The store forgets a key's last token no sooner either.
const MinIdle = 24 * time.Hour

// sweepPage bounds one statement of a sweep, and so how many rows it keeps locked at once.
const sweepPage = 200

// Sweep removes the marks that nobody has raised or entered for idle, by the database's own
// clock, and returns how many. Run it once a day or so, from one process or several: it
// goes through the table in pages of 200 keys, each removed in a transaction of its own,
// and ends with ctx between two of them. A row that is entered meanwhile stays.
//
// Without its mark a key takes any token again, so idle must be longer than an outbid holder
// can still be about. Less than [MinIdle] is refused; make it ten times the longest
// max_hold of the chains that use the table where that is more. A week is a good value.
// What could then still get through is a process that slept longer than idle and whose
// lock context has not noticed, on a suspended machine. The record of passages without a
// token goes with its row; the audit trail has each of them too.
func (f *Fence) Sweep(ctx context.Context, db *sql.DB, idle time.Duration) (removed int64, err error) {
	if nothing(db) {
		return 0, tierlock.Invalid("db", "nil", "want a database")
	}
	if idle < MinIdle {
		return 0, tierlock.Invalid("idle", idle.String(), "want at least 24h, and ten times the longest max_hold")
	}
	seconds := int64((idle + time.Second - 1) / time.Second)
	for after := ""; ; {
		keys, err := f.idle(ctx, db, after, seconds)
		if err != nil || len(keys) == 0 {
			return removed, err
		}
		n, err := f.remove(ctx, db, keys, seconds)
		removed += n
		if err != nil {
			return removed, err
		}
		after = keys[len(keys)-1]
	}
}

// idle is a page of keys behind after. It locks nothing: a busy key is not disturbed.
func (f *Fence) idle(ctx context.Context, db *sql.DB, after string, seconds int64) (keys []string, err error) {
	rows, err := db.QueryContext(ctx, f.sql.sweep, after, seconds, sweepPage)
	if err != nil {
		return nil, failed("sweep", err)
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			return nil, failed("sweep", err)
		}
		keys = append(keys, key)
	}
	if err := rows.Err(); err != nil {
		return nil, failed("sweep", err)
	}
	return keys, nil
}

// remove looks at each row's time again, under its lock.
func (f *Fence) remove(ctx context.Context, db *sql.DB, keys []string, seconds int64) (int64, error) {
	query := f.d.bind(f.sql.remove + "?" + strings.Repeat(", ?", len(keys)-1) + ")")
	args := []any{seconds}
	for _, key := range keys {
		args = append(args, key)
	}
	n, err := affected(db.ExecContext(ctx, query, args...))
	if err != nil {
		return 0, failed("sweep", err)
	}
	return n, nil
}
