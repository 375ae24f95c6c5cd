package reconcile

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Between hands out every stored finding, of any kind and state, that reaches into
// from ≤ t < to, by first grant. It stops at the first error of do and returns it.
func (t *FindingsTable) Between(ctx context.Context, from, to time.Time, do func(Finding) error) error {
	return t.each(ctx, do, `WHERE from_us < ? AND to_us >= ?`, to.UnixMicro(), from.UnixMicro())
}

// Repaired tells how much was wrong when the repair of that key, see [Case.ID], was
// applied, and when that was; known is false where none was.
func (t *FindingsTable) Repaired(ctx context.Context, key string) (wrong int64, at time.Time, known bool, err error) {
	var us int64
	query := t.d.bind(`SELECT wrong, applied_us FROM tierlock_repairs WHERE repair_key = ?`)
	switch err := t.db.QueryRowContext(ctx, query, key).Scan(&wrong, &us); {
	case errors.Is(err, sql.ErrNoRows):
		return 0, time.Time{}, false, nil
	case err != nil:
		return 0, time.Time{}, false, fmt.Errorf("reconcile: look up repair: %w", err)
	}
	return wrong, time.UnixMicro(us).UTC(), true, nil
}

// each hands out the findings that where picks, by first grant.
func (t *FindingsTable) each(ctx context.Context, do func(Finding) error, where string, args ...any) error {
	query := t.d.bind(`SELECT state, document FROM tierlock_findings ` + where + ` ORDER BY from_us, id`)
	rows, err := t.db.QueryContext(ctx, query, args...)
	if err = absent(err); errors.Is(err, ErrNoTables) {
		return err
	}
	if err != nil {
		return fmt.Errorf("reconcile: list findings: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var f Finding
		var state, document string
		if err := rows.Scan(&state, &document); err != nil {
			return fmt.Errorf("reconcile: list findings: %w", err)
		}
		if err := json.Unmarshal([]byte(document), &f); err != nil {
			return fmt.Errorf("reconcile: decode finding: %w", err)
		}
		f.State = State(state)
		if err := do(f); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Cases lists the losing holds of f as a job with these hooks puts them to a hook: per
// business record every hold but the one that was granted first; where only one hold names
// a record, that one. Business types without a hook have no cases, nor has a hold whose work
// was rolled back, nor a finding that is [StateHarmless].
func (f *Finding) Cases(hooks map[string]Hook) []Case { return casesOf(f, hooks) }
