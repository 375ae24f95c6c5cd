package reconcile

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tierlock/tierlock"
)

// FindingsTable is a [Findings] in a SQL table, see [Schema]. It is safe for concurrent
// use as far as its database is.
type FindingsTable struct {
	db *sql.DB
	d  Dialect
}

// SQLFindings keeps findings in the table tierlock_findings of db. It does no I/O;
// [FindingsTable.Create] makes the table.
func SQLFindings(db *sql.DB, d Dialect) (*FindingsTable, error) {
	if db == nil {
		return nil, tierlock.Invalid("db", "nil", "want a database")
	}
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return &FindingsTable{db: db, d: d}, nil
}

// Create makes the tables of [Schema] where they are missing, and brings those of an older
// version up to it.
func (t *FindingsTable) Create(ctx context.Context) error { return createTables(ctx, t.db, t.d) }

// createTables also takes a user who may create nothing where somebody else has created
// all: databases refuse CREATE … IF NOT EXISTS to it without a look at what there is.
func createTables(ctx context.Context, db *sql.DB, d Dialect) error {
	for _, statement := range Schema(d) {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			if tablesThere(ctx, db) {
				return nil
			}
			return fmt.Errorf("reconcile: create tables: %w", err)
		}
	}
	return addProvisional(ctx, db, d)
}

// addProvisional adds the column to a table that was made without it. Members of an older
// version go on beside it: it has a default. Two that add it at once are told apart by
// another look.
func addProvisional(ctx context.Context, db *sql.DB, d Dialect) error {
	if tablesThere(ctx, db) {
		return nil
	}
	statement := `ALTER TABLE tierlock_findings ADD COLUMN provisional ` + d.flag() + ` NOT NULL DEFAULT ` + d.no()
	if _, err := db.ExecContext(ctx, statement); err != nil && !tablesThere(ctx, db) {
		return fmt.Errorf("reconcile: bring tierlock_findings up to date, with %q: %w", statement, err)
	}
	return nil
}

// tablesThere tells whether every table of [Schema] can be read, with all its columns.
func tablesThere(ctx context.Context, db *sql.DB) bool {
	for _, what := range []string{"provisional) FROM tierlock_findings", "*) FROM tierlock_repairs", "*) FROM tierlock_messages", "*) FROM tierlock_approvals"} {
		var n int
		if err := db.QueryRowContext(ctx, `SELECT count(`+what+` WHERE 1 = 0`).Scan(&n); err != nil {
			return false
		}
	}
	return true
}

// ErrNoTables says that the tables of [Schema] are not in the database, or not where its
// user's search_path looks: the job has not run there yet, or runs elsewhere.
var ErrNoTables = errors.New("reconcile: its tables are not there: run tierlock reconcile once as a user who may create them (without --apply it repairs nothing), " +
	"or execute what reconcile.Schema returns; and see that search_path is that of the job")

// absent makes [ErrNoTables] of what PostgreSQL says of a relation that is not there.
func absent(err error) error {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) && coded.SQLState() == "42P01" {
		return fmt.Errorf("%w (%w)", ErrNoTables, err)
	}
	return err
}

const insertFinding = `INSERT INTO tierlock_findings
  (id, revision, digest, stage, state, kind, chain, lock_key, certain, provisional, from_us, to_us, document)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) `

// keepRow follows an INSERT that leaves a row which is there already as it is, and locks it.
func (d Dialect) keepRow() string {
	if d == MySQL {
		return `ON DUPLICATE KEY UPDATE id = id`
	}
	return `ON CONFLICT (id) DO NOTHING`
}

// updateFinding has [Finding.Replaces] as its WHERE.
const updateFinding = `UPDATE tierlock_findings SET revision = ?, digest = ?, stage = ?, state = ?, kind = ?, chain = ?, lock_key = ?,
  certain = ?, provisional = ?, from_us = ?, to_us = ?, document = ?
WHERE id = ? AND (digest = ? AND stage <= ? OR digest <> ? AND revision <= ?)`

// Put implements [Findings] in one transaction.
func (t *FindingsTable) Put(ctx context.Context, f Finding) error {
	document, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("reconcile: encode finding: %w", err)
	}
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("reconcile: store finding: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	stage := f.State.Stage()
	row := []any{
		f.Revision, f.Digest, stage, string(f.State), string(f.Kind), storable(f.Chain), f.Key.String(), f.Certain, f.Provisional,
		f.From.UnixMicro(), f.To.UnixMicro(), string(document),
	}
	_, err = tx.ExecContext(ctx, t.d.bind(insertFinding+t.d.keepRow()), slices.Concat([]any{f.ID}, row)...)
	if err == nil {
		_, err = tx.ExecContext(ctx, t.d.bind(updateFinding), slices.Concat(row, []any{f.ID, f.Digest, stage, f.Digest, f.Revision})...)
	}
	if err == nil {
		err = t.supersede(ctx, tx, &f)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return fmt.Errorf("reconcile: store finding: %w", err)
	}
	return nil
}

// supersede marks the findings that f has taken in, a few hundred ids a statement: both
// databases bound how many parameters one may have.
func (t *FindingsTable) supersede(ctx context.Context, tx *sql.Tx, f *Finding) error {
	const most = 500
	for ids := f.Supersedes(); len(ids) > 0; ids = ids[min(most, len(ids)):] {
		args := []any{string(StateSuperseded), StateSuperseded.Stage()}
		for _, id := range ids[:min(most, len(ids))] {
			args = append(args, id)
		}
		query := `UPDATE tierlock_findings SET state = ?, stage = ? WHERE id IN (?` + strings.Repeat(", ?", len(args)-3) + `)`
		if _, err := tx.ExecContext(ctx, t.d.bind(query), args...); err != nil {
			return err
		}
	}
	return nil
}

// List returns all findings by first grant, state and revision as stored.
func (t *FindingsTable) List(ctx context.Context) ([]Finding, error) {
	return t.list(ctx, ``)
}

// Find implements [Finder].
func (t *FindingsTable) Find(ctx context.Context, id string) (Finding, bool, error) {
	all, err := t.list(ctx, `WHERE id = ?`, id)
	if err != nil || len(all) == 0 {
		return Finding{}, false, err
	}
	return all[0], true, nil
}

// Standing implements [Recaller].
func (t *FindingsTable) Standing(ctx context.Context, key tierlock.Key) ([]Finding, error) {
	return t.list(ctx, `WHERE lock_key = ? AND kind = ? AND state NOT IN (?, ?)`,
		key.String(), string(KindOverlap), string(StateSuperseded), string(StateWithdrawn))
}

// Missing implements [Absentees].
func (t *FindingsTable) Missing(ctx context.Context, partition int) (out []Finding, err error) {
	err = t.each(ctx, func(f Finding) error {
		if f.Gap != nil && f.Gap.Partition == partition {
			out = append(out, f)
		}
		return nil
	}, `WHERE kind IN (?, ?) AND state = ?`, string(KindGap), string(KindSilent), string(StateOpen))
	return out, err
}

func (t *FindingsTable) list(ctx context.Context, where string, args ...any) (out []Finding, err error) {
	err = t.each(ctx, func(f Finding) error {
		out = append(out, f)
		return nil
	}, where, args...)
	return out, err
}
