package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tierlock/tierlock/reconcile"
)

// shop is one business while its story is told.
type shop struct {
	business
	db     *sql.DB
	d      reconcile.Dialect
	out    io.Writer
	stream *stream
	lock   *alone
	table  *reconcile.FindingsTable
	asked  *reconcile.ApprovalsTable
	told   []step
}

// step is what a run of the job has left behind.
type step struct {
	what            string
	broken, effects int
	results         map[reconcile.Result]int
}

func open(ctx context.Context, db *sql.DB, d reconcile.Dialect, b business, out io.Writer) (*shop, error) {
	key, err := keyOf(b.record)
	if err != nil {
		return nil, err
	}
	s := &shop{business: b, db: db, d: d, out: out, lock: new(alone)}
	s.stream = &stream{key: key, about: b.record, seq: map[string]uint64{}}
	if s.table, err = reconcile.SQLFindings(db, d); err != nil {
		return nil, err
	}
	if s.asked, err = reconcile.SQLApprovals(db, d); err != nil {
		return nil, err
	}
	for _, statement := range append(reconcile.Schema(d), b.schema...) {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
	}
	return s, nil
}

// span is from the earliest grant of a group to its latest end.
type span struct{ from, to time.Time }

// collide has two holders inside at once: both read, and only then both write. Their holds
// are told to the stream as they were.
func (s *shop) collide(ctx context.Context, one, two string) (span, error) {
	var read, both sync.WaitGroup
	read.Add(2)
	holds := []hold{{producer: "shop-1", holder: one}, {producer: "shop-2", holder: two}}
	errs := make([]error, 2)
	for i := range holds {
		both.Go(func() {
			h := &holds[i]
			h.from = time.Now()
			errs[i] = s.write(ctx, s.db, h.holder, func() { read.Done(); read.Wait() })
			h.to = time.Now()
		})
	}
	both.Wait()
	s.stream.tell(holds...)
	s.stream.back()
	all := span{holds[0].from, holds[0].to}
	if holds[1].from.Before(all.from) {
		all.from = holds[1].from
	}
	if holds[1].to.After(all.to) {
		all.to = holds[1].to
	}
	return all, errors.Join(errs...)
}

// late tells of a hold that was, in a process of its own, and of which the job hears only
// now. It wrote nothing.
func (s *shop) late(holder string, from, to time.Time) {
	s.stream.tell(hold{producer: "shop-of-" + holder, holder: holder, from: from, to: to})
	s.stream.back()
}

// between tells of a second group of two, long after the first, and then of one hold that
// reaches from one into the other: what were two groups is one.
func (s *shop) between(first span) {
	later := first.to.Add(50 * time.Millisecond)
	s.late("e", later, later.Add(10*time.Millisecond))
	s.late("f", later.Add(time.Millisecond), later.Add(10*time.Millisecond))
	s.late("g", first.from.Add(time.Microsecond), later.Add(5*time.Millisecond))
}

// reconcile reads the stream to its end, from where it was committed or anew, and says how
// the business stands then.
func (s *shop) reconcile(ctx context.Context, what string, apply, anew bool) error {
	hook, err := s.hook(s.db, s.d)
	if err != nil {
		return err
	}
	job, err := reconcile.New(reconcile.Config{
		Source: s.stream.join(anew), Findings: []reconcile.Findings{s.table}, Hooks: map[string]reconcile.Hook{s.name: hook},
		Apply: apply, Locker: s.lock, Approvals: s.asked, Quiet: quiet,
	})
	if err != nil {
		return err
	}
	if err := job.Run(ctx); err != nil {
		return err
	}
	now := step{what: what, results: job.Report().Repairs}
	var broken sql.NullInt64
	if err := s.db.QueryRowContext(ctx, s.broken).Scan(&broken); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	now.broken = int(max(broken.Int64, 0))
	if err := s.db.QueryRowContext(ctx, s.effects).Scan(&now.effects); err != nil {
		return err
	}
	var stands string
	if err := s.db.QueryRowContext(ctx, s.stands).Scan(&stands); err != nil {
		return err
	}
	s.told = append(s.told, now)
	fmt.Fprintf(s.out, "%-8s %-38s %s; wrong %d, %d repaired, cases %v\n", s.name, what+":", stands, now.broken, now.effects, now.results)
	return nil
}
