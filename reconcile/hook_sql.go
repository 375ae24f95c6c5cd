package reconcile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
)

// SQLHook checks and repairs in the business database. Use it as both fields of a [Hook]:
// [NewSQLHook] makes that hook.
//
// Check, Repair and the row of tierlock_repairs that remembers the repair's key run in one
// transaction, so a repair is applied once even when the process dies in the middle or its
// answer is lost.
type SQLHook struct{ cfg SQLHookConfig }

// SQLHookConfig of a [SQLHook]. In Check and Repair these words stand for values, which
// are always passed as parameters and never written into the text:
//
//	{id} {type} {op} {delta}    of the loser's business
//	{key} {holder} {tier}       of the losing hold: lock key, fingerprint, tier
//	{granted_us} {ended_us}     its times in Unix microseconds; {ended_us} is 0 when unknown
//	{token} {repair}            fencing token of the repair's own lock, key of the repair
type SQLHookConfig struct {
	DB      *sql.DB // required
	Dialect Dialect // required
	Action  string  // default "repair"
	// Check is one query with one row of one integer: how much is wrong now, zero or less
	// for nothing. Required.
	Check string
	// Repair are the statements that make right what Check found, in order. None: the hook
	// only checks.
	Repair []string
}

// NewSQLHook returns the [Hook] that cfg describes. It does no I/O; [CreateRepairs] makes
// the table it needs.
func NewSQLHook(cfg SQLHookConfig) (Hook, error) {
	var errs []error
	if cfg.DB == nil {
		errs = append(errs, tierlock.Invalid("db", "nil", "want a database"))
	}
	errs = append(errs, cfg.Dialect.Validate())
	if strings.TrimSpace(cfg.Check) == "" {
		errs = append(errs, tierlock.Invalid("check", "", "want a query that returns how much is wrong"))
	}
	for _, text := range append([]string{cfg.Check}, cfg.Repair...) {
		_, _, err := expand(text, cfg.Dialect, func(string) any { return nil })
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return Hook{}, err
	}
	h := &SQLHook{cfg: cfg}
	hook := Hook{Action: cfg.Action, Check: h}
	if len(cfg.Repair) > 0 {
		hook.Repair = h
	}
	return hook, nil
}

// CreateRepairs makes the tables of [Schema] in the business database where they are missing.
func CreateRepairs(ctx context.Context, db *sql.DB, d Dialect) error { return createTables(ctx, db, d) }

// queryer is *sql.DB or *sql.Tx.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Check implements [Checker].
func (h *SQLHook) Check(ctx context.Context, c Case) (int64, error) { return h.check(ctx, h.cfg.DB, c) }

func (h *SQLHook) check(ctx context.Context, db queryer, c Case) (int64, error) {
	query, args, err := expand(h.cfg.Check, h.cfg.Dialect, c.value)
	if err != nil {
		return 0, err
	}
	var wrong sql.NullInt64
	if err := db.QueryRowContext(ctx, query, args...).Scan(&wrong); err != nil {
		return 0, fmt.Errorf("reconcile: check: %w", err)
	}
	return max(wrong.Int64, 0), nil
}

// Applied implements [Rememberer].
func (h *SQLHook) Applied(ctx context.Context, c Case) (bool, error) {
	var n int
	err := h.cfg.DB.QueryRowContext(ctx, h.cfg.Dialect.bind(`SELECT count(*) FROM tierlock_repairs WHERE repair_key = ?`), c.ID).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("reconcile: look up repair: %w", err)
	}
	return n > 0, nil
}

const rememberRepair = `INSERT INTO tierlock_repairs
  (repair_key, finding_id, action, business_type, business_id, loser, wrong, applied_us)
VALUES (?, ?, ?, ?, ?, ?, 0, ?)`

// Repair implements [Repairer]. The key is written first: two processes with the same case
// wait for each other on that row, and the second one then finds it taken. Only then is the
// invariant looked at, in the same transaction; where nothing is wrong, or the statements
// change nothing about it, everything is rolled back and the key stays free.
func (h *SQLHook) Repair(ctx context.Context, c Case) (Result, error) {
	tx, err := h.cfg.DB.BeginTx(ctx, nil)
	if err != nil {
		return ResultFailed, fmt.Errorf("reconcile: repair: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	if fresh, err := h.remember(ctx, tx, c); err != nil || !fresh {
		_ = tx.Rollback() // what it holds may be what the question waits for
		return h.alreadyOr(ctx, c, err)
	}
	wrong, err := h.check(ctx, tx, c)
	if err != nil {
		return ResultFailed, err
	}
	if wrong == 0 {
		return ResultClean, nil
	}
	if c.Most > 0 && wrong > c.Most {
		return ResultFailed, ErrMore
	}
	rows, err := h.apply(ctx, tx, c, wrong)
	if err != nil {
		return ResultFailed, err
	}
	if rows == 0 { // which proves nothing of a procedure: what is wrong now does
		if left, err := h.check(ctx, tx, c); err != nil || left >= wrong {
			return ResultUnchanged, err
		}
	}
	if err := tx.Commit(); err != nil {
		return ResultFailed, fmt.Errorf("reconcile: commit repair: %w", err)
	}
	return ResultApplied, nil
}

// remember takes the key. MySQL's count of rows depends on how its driver was told to count,
// so there a key that is taken is an error, which alreadyOr looks into.
func (h *SQLHook) remember(ctx context.Context, tx *sql.Tx, c Case) (fresh bool, err error) {
	query := rememberRepair
	if h.cfg.Dialect != MySQL {
		query += ` ON CONFLICT (repair_key) DO NOTHING`
	}
	res, err := tx.ExecContext(ctx, h.cfg.Dialect.bind(query),
		c.ID, c.Finding.ID, c.Action, c.Business.Type, c.Business.ID, storable(c.Loser.Event), time.Now().UnixMicro())
	if err != nil {
		return false, fmt.Errorf("reconcile: remember repair: %w", err)
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// alreadyOr is for a key that could not be taken: it was taken before, or err says why not.
func (h *SQLHook) alreadyOr(ctx context.Context, c Case, err error) (Result, error) {
	if err == nil {
		return ResultAlready, nil
	}
	if applied, asked := h.Applied(ctx, c); asked == nil && applied {
		return ResultAlready, nil
	}
	return ResultFailed, err
}

// apply runs the statements and tells how many rows they have changed, as far as the driver
// says.
func (h *SQLHook) apply(ctx context.Context, tx *sql.Tx, c Case, wrong int64) (rows int64, err error) {
	for _, text := range h.cfg.Repair {
		query, args, err := expand(text, h.cfg.Dialect, c.value)
		if err != nil {
			return 0, err
		}
		res, err := tx.ExecContext(ctx, query, args...)
		if err != nil {
			return 0, fmt.Errorf("reconcile: repair: %w", err)
		}
		if n, err := res.RowsAffected(); err == nil {
			rows += n
		}
	}
	_, err = tx.ExecContext(ctx, h.cfg.Dialect.bind(`UPDATE tierlock_repairs SET wrong = ? WHERE repair_key = ?`), wrong, c.ID)
	if err != nil {
		return 0, fmt.Errorf("reconcile: remember repair: %w", err)
	}
	return rows, nil
}

// caseWords are the words of a hook's SQL, in [SQLHookConfig].
var caseWords = []string{"id", "type", "op", "delta", "key", "holder", "tier", "granted_us", "ended_us", "token", "repair"}

// value is what a word of a hook's SQL stands for.
func (c *Case) value(word string) any {
	switch word {
	case "id":
		return c.Business.ID
	case "type":
		return c.Business.Type
	case "op":
		return c.Business.Op
	case "delta":
		return c.Business.Delta
	case "key":
		return c.Loser.Key.String()
	case "holder":
		return c.Loser.Holder
	case "tier":
		return c.Loser.Tier.String()
	case "granted_us":
		return c.Loser.GrantedAt.UnixMicro()
	case "ended_us":
		if c.Loser.EndedAt.IsZero() {
			return int64(0)
		}
		return c.Loser.EndedAt.UnixMicro()
	case "token":
		return int64(c.Grant.Token)
	case "repair":
		return c.ID
	}
	return nil
}
