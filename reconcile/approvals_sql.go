package reconcile

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// ApprovalsTable is an [Approvals] in a SQL table, see [Schema]; people's yes and no are
// written there too. Each round of a request is a row that stays. It is safe for concurrent
// use as far as its database is, also by several processes.
type ApprovalsTable struct {
	db *sql.DB
	d  Dialect
}

// SQLApprovals keeps approvals in the table tierlock_approvals of db. It does no I/O;
// [FindingsTable.Create] and [CreateRepairs] make the table.
func SQLApprovals(db *sql.DB, d Dialect) (*ApprovalsTable, error) {
	if db == nil {
		return nil, tierlock.Invalid("db", "nil", "want a database")
	}
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return &ApprovalsTable{db: db, d: d}, nil
}

// Ask implements [Approvals].
func (t *ApprovalsTable) Ask(ctx context.Context, r Request) (Approval, error) {
	rounds, err := t.Rounds(ctx, r.Case.ID)
	if err != nil {
		return Approval{}, err
	}
	if len(rounds) == 0 {
		return t.begin(ctx, r, 1)
	}
	a := rounds[len(rounds)-1]
	if a.Amount < r.Amount || a.Status(time.Now()) == StatusDone {
		return t.begin(ctx, r, a.Round+1)
	}
	if a.Approvers == r.Approvers && a.Valid == r.Valid && a.Case.Finding.ID == r.Case.Finding.ID && a.Partition == r.Partition {
		return a, nil
	}
	// The rule has changed since, or the hold is in a larger group now.
	document, err := documentOf(&r.Case)
	if err != nil {
		return Approval{}, err
	}
	_, err = t.exec(ctx, t.db, `UPDATE tierlock_approvals SET approvers = ?, valid_us = ?, finding_id = ?, partition_no = ?, document = ?
WHERE repair_key = ? AND round = ?`, r.Approvers, r.Valid.Microseconds(), r.Case.Finding.ID, r.Partition, document, r.Case.ID, a.Round)
	a.Approvers, a.Valid, a.Partition, a.Case.Finding = r.Approvers, r.Valid, r.Partition, r.Case.Finding.shell()
	return a, err
}

// replaced is the result of a round that another one has taken the place of.
const replaced Result = "replaced"

// begin makes a round and ends the one before. Of two that begin the same round one gets an
// error, and finds the other's when it asks again.
func (t *ApprovalsTable) begin(ctx context.Context, r Request, round int) (Approval, error) {
	a, _, err := t.round(ctx, r, round, ``)
	return a, err
}

// renew begins a round for the same amount, since a yes to a has expired. It is false when a
// does not stand any more: somebody has said no meanwhile, or it is settled.
func (t *ApprovalsTable) renew(ctx context.Context, a *Approval) (bool, error) {
	_, begun, err := t.round(ctx, a.Request, a.Round+1, ` AND rejected_us = 0`)
	return begun, err
}

// round makes a round in place of the one that stands; where only says more of that one,
// there must be one.
func (t *ApprovalsTable) round(ctx context.Context, r Request, round int, only string) (a Approval, begun bool, err error) {
	document, err := documentOf(&r.Case)
	if err != nil {
		return Approval{}, false, err
	}
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return Approval{}, false, fmt.Errorf("reconcile: ask for approval: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	now := time.Now().Truncate(time.Microsecond)
	n, err := t.exec(ctx, tx, `UPDATE tierlock_approvals SET result = ?, done_us = ? WHERE repair_key = ? AND done_us = 0`+only,
		string(replaced), now.UnixMicro(), r.Case.ID)
	if err != nil || n == 0 && only != "" {
		return Approval{}, false, err
	}
	_, err = t.exec(ctx, tx, `INSERT INTO tierlock_approvals
  (repair_key, round, finding_id, partition_no, action, business_type, business_id, lock_key, amount, approvers, valid_us,
   asked_by, asked_us, first_by, first_us, second_by, second_us, rejected_by, rejected_us, reason, result, done_us, document)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 0, '', 0, '', 0, '', '', 0, ?)`,
		r.Case.ID, round, r.Case.Finding.ID, r.Partition, r.Case.Action, r.Case.Business.Type, r.Case.Business.ID, r.Case.Loser.Key.String(),
		r.Amount, r.Approvers, r.Valid.Microseconds(), r.AskedBy, now.UnixMicro(), document)
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return Approval{}, false, fmt.Errorf("reconcile: ask for approval: %w", err)
	}
	return Approval{Request: r, Round: round, AskedAt: now}, true, nil
}

// Approve writes a yes of by down, for the amount that is asked for, or only if that is
// amount where amount is not zero. The same yes again changes nothing. Where an earlier yes
// has expired a new round begins with this one.
func (t *ApprovalsTable) Approve(ctx context.Context, repairKey, by string, amount int64) (Approval, error) {
	for range 5 { // somebody else may be writing to the same row
		a, err := t.open(ctx, repairKey, amount)
		if err != nil {
			return a, err
		}
		if a.AskedBy == by {
			return a, ErrOwnRequest
		}
		now := time.Now()
		yes := a.Yes(now)
		switch {
		case a.RejectedBy != "":
			return a, ErrDecided
		case slices.Contains(yes, by) || len(yes) >= a.Approvers:
			return a, nil
		case len(yes) < len(a.Votes):
			if _, err := t.renew(ctx, &a); err != nil {
				return a, err
			}
			continue
		}
		slot := "first"
		if len(a.Votes) > 0 {
			slot = "second" // the first one is somebody else's, and stays
		}
		n, err := t.exec(ctx, t.db, `UPDATE tierlock_approvals SET `+slot+`_by = ?, `+slot+`_us = ?
WHERE repair_key = ? AND round = ? AND done_us = 0 AND rejected_us = 0 AND `+slot+`_by = ''`, by, now.UnixMicro(), repairKey, a.Round)
		if err != nil {
			return a, err
		}
		if n == 1 {
			return t.open(ctx, repairKey, 0)
		}
	}
	return Approval{}, fmt.Errorf("reconcile: approve %s: others change it all the time", repairKey)
}

// Reject writes a no of by down. It stands until more is wrong than was asked for.
func (t *ApprovalsTable) Reject(ctx context.Context, repairKey, by, reason string) (Approval, error) {
	n, err := t.exec(ctx, t.db, `UPDATE tierlock_approvals SET rejected_by = ?, rejected_us = ?, reason = ?
WHERE repair_key = ? AND done_us = 0 AND rejected_us = 0`, by, time.Now().UnixMicro(), reason, repairKey)
	if err != nil {
		return Approval{}, err
	}
	a, err := t.open(ctx, repairKey, 0)
	if err == nil && n == 0 && a.RejectedBy != by {
		return a, ErrDecided
	}
	return a, err
}

// open is the round that is not settled.
func (t *ApprovalsTable) open(ctx context.Context, repairKey string, amount int64) (Approval, error) {
	rounds, err := t.Rounds(ctx, repairKey)
	if err != nil {
		return Approval{}, err
	}
	if len(rounds) == 0 {
		return Approval{}, ErrNoRequest
	}
	a := rounds[len(rounds)-1]
	switch {
	case !a.DoneAt.IsZero():
		return a, ErrDecided
	case amount != 0 && amount != a.Amount:
		return a, ErrAmount
	}
	return a, nil
}

// Settle implements [Approvals].
func (t *ApprovalsTable) Settle(ctx context.Context, repairKey string, result Result) error {
	_, err := t.exec(ctx, t.db, `UPDATE tierlock_approvals SET result = ?, done_us = ? WHERE repair_key = ? AND done_us = 0`,
		string(result), time.Now().UnixMicro(), repairKey)
	return err
}

// answered is where people have said no, or as many yes as are wanted and count still.
const answered = `rejected_us > 0 OR first_us + valid_us > ? AND second_us + valid_us > ?
  OR approvers = 1 AND (first_us + valid_us > ? OR second_us + valid_us > ?)`

// Decided implements [Approvals].
func (t *ApprovalsTable) Decided(ctx context.Context, now time.Time, most int) ([]Approval, error) {
	us := now.UnixMicro()
	return t.list(ctx, `WHERE done_us = 0 AND (`+answered+`) ORDER BY asked_us, repair_key LIMIT ?`, us, us, us, us, most)
}

// Pending implements [Pender].
func (t *ApprovalsTable) Pending(ctx context.Context, now time.Time) (n int, err error) {
	us := now.UnixMicro()
	query := t.d.bind(`SELECT count(*) FROM tierlock_approvals WHERE done_us = 0 AND NOT (` + answered + `)`)
	if err := t.db.QueryRowContext(ctx, query, us, us, us, us).Scan(&n); err != nil {
		return 0, fmt.Errorf("reconcile: count approvals: %w", err)
	}
	return n, nil
}

// Rounds are all rounds of one repair's key, the last one last.
func (t *ApprovalsTable) Rounds(ctx context.Context, repairKey string) ([]Approval, error) {
	return t.list(ctx, `WHERE repair_key = ? ORDER BY round`, repairKey)
}

// Last implements [Approvals].
func (t *ApprovalsTable) Last(ctx context.Context, repairKey string) (a Approval, known bool, err error) {
	rounds, err := t.list(ctx, `WHERE repair_key = ? ORDER BY round DESC LIMIT 1`, repairKey)
	if err != nil || len(rounds) == 0 {
		return Approval{}, false, err
	}
	return rounds[0], true, nil
}

// List returns what is asked for now, the oldest first, at most so many; with all also what
// is settled.
func (t *ApprovalsTable) List(ctx context.Context, all bool, most int) ([]Approval, error) {
	if all {
		return t.list(ctx, `ORDER BY asked_us, repair_key, round LIMIT ?`, most)
	}
	return t.list(ctx, `WHERE done_us = 0 ORDER BY asked_us, repair_key LIMIT ?`, most)
}

// execer is *sql.DB or *sql.Tx.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (t *ApprovalsTable) exec(ctx context.Context, db execer, query string, args ...any) (int64, error) {
	res, err := db.ExecContext(ctx, t.d.bind(query), args...)
	if err != nil {
		return 0, fmt.Errorf("reconcile: write approval: %w", err)
	}
	return res.RowsAffected()
}

// caseDocument is what a row keeps of a case beside its columns.
type caseDocument struct {
	Finding  Finding      `json:"finding"` // without members
	Loser    Interval     `json:"loser"`
	Business wireBusiness `json:"business"`
}

func documentOf(c *Case) (string, error) {
	text, err := json.Marshal(caseDocument{Finding: c.Finding.shell(), Loser: c.Loser, Business: wireBusiness(c.Business)})
	if err != nil {
		return "", fmt.Errorf("reconcile: encode case: %w", err)
	}
	return string(text), nil
}

func (t *ApprovalsTable) list(ctx context.Context, where string, args ...any) ([]Approval, error) {
	rows, err := t.db.QueryContext(ctx, t.d.bind(`SELECT repair_key, round, partition_no, action, amount, approvers, valid_us, asked_by, asked_us,
  first_by, first_us, second_by, second_us, rejected_by, rejected_us, reason, result, done_us, document
FROM tierlock_approvals `+where), args...)
	if err = absent(err); errors.Is(err, ErrNoTables) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("reconcile: read approvals: %w", err)
	}
	defer rows.Close()
	var out []Approval
	for rows.Next() {
		a, err := scanApproval(rows)
		if err != nil {
			return nil, fmt.Errorf("reconcile: read approvals: %w", err)
		}
		out = append(out, a)
	}
	return out, rows.Err()
}

func scanApproval(rows *sql.Rows) (a Approval, err error) {
	var validUS, askedUS, rejectedUS, doneUS int64
	var votes [2]struct {
		by string
		us int64
	}
	var result, document string
	err = rows.Scan(&a.Case.ID, &a.Round, &a.Partition, &a.Case.Action, &a.Amount, &a.Approvers, &validUS, &a.AskedBy, &askedUS,
		&votes[0].by, &votes[0].us, &votes[1].by, &votes[1].us, &a.RejectedBy, &rejectedUS, &a.Reason, &result, &doneUS, &document)
	if err != nil {
		return a, err
	}
	var d caseDocument
	if err := json.Unmarshal([]byte(document), &d); err != nil {
		return a, err
	}
	a.Case.Finding, a.Case.Loser, a.Case.Business = d.Finding, d.Loser, audit.Business(d.Business)
	a.Valid, a.Result = time.Duration(validUS)*time.Microsecond, Result(result)
	a.AskedAt, a.RejectedAt, a.DoneAt = fromMicro(askedUS), fromMicro(rejectedUS), fromMicro(doneUS)
	for _, v := range votes {
		if v.by != "" {
			a.Votes = append(a.Votes, Vote{By: v.by, At: fromMicro(v.us)})
		}
	}
	return a, nil
}

// fromMicro is the zero time for zero.
func fromMicro(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
