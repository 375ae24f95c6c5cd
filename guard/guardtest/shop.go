package guardtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/guard"
)

// shop is a database with a fence table, one register and a table without any index, in
// which a thing can be made twice.
type shop struct {
	*sql.DB
	t     testing.TB
	d     guard.Dialect
	opts  *sql.TxOptions
	fence *guard.Fence
	key   tierlock.Key
}

func open(t testing.TB, d Database, level sql.IsolationLevel) *shop {
	t.Helper()
	s := &shop{DB: d.Open(t), t: t, d: d.Dialect, opts: &sql.TxOptions{Isolation: level}, key: parseKey(t, "biz:order:lock:1")}
	s.fence = s.newFence(guard.Config{Dialect: s.d})
	s.do(s.fence.Schema(), s.fence.Schema(),
		`CREATE TABLE register (id VARCHAR(16) NOT NULL PRIMARY KEY, n BIGINT NOT NULL, version BIGINT NOT NULL, fence BIGINT NOT NULL DEFAULT 0)`,
		`CREATE TABLE made (id VARCHAR(16) NOT NULL)`,
		`INSERT INTO register (id, n, version) VALUES ('r', 0, 7)`)
	return s
}

func parseKey(t testing.TB, s string) tierlock.Key {
	t.Helper()
	k, err := tierlock.ParseKey(s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (s *shop) newFence(cfg guard.Config) *guard.Fence {
	s.t.Helper()
	f, err := guard.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

func (s *shop) do(queries ...string) {
	s.t.Helper()
	for _, q := range queries {
		if _, err := s.ExecContext(s.t.Context(), q); err != nil {
			s.t.Fatalf("%s: %v", q, err)
		}
	}
}

func (s *shop) one(query string) (n int64) {
	s.t.Helper()
	if err := s.QueryRowContext(s.t.Context(), query).Scan(&n); err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// grant is a shared one of the shop's key.
func (s *shop) grant(token tierlock.Token) tierlock.Grant {
	return tierlock.Grant{Key: s.key, Token: token, Tier: tierlock.Shared}
}

// within runs fn once in a transaction at the default level.
func (s *shop) within(fn func(tx *sql.Tx) error) error {
	s.t.Helper()
	tx := s.begin(nil)
	if err := fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (s *shop) begin(opts *sql.TxOptions) *sql.Tx {
	s.t.Helper()
	tx, err := s.BeginTx(s.t.Context(), opts)
	if err != nil {
		s.t.Fatal(err)
	}
	return tx
}

// enter enters with f and commits.
func (s *shop) enter(f *guard.Fence, g tierlock.Grant) error {
	s.t.Helper()
	return s.within(func(tx *sql.Tx) error { return f.Enter(s.t.Context(), tx, g) })
}

// wantStale wants err to be a refusal that tells both tokens, and that the lock is lost.
func (s *shop) wantStale(err error, token, mark tierlock.Token) {
	s.t.Helper()
	stale, ok := errors.AsType[*guard.StaleError](err)
	if !ok || stale.Token != token || stale.Mark != mark || stale.Key != s.key {
		s.t.Fatalf("error %v, want key %s, token %d and mark %d refused", err, s.key, token, mark)
	}
	if !errors.Is(err, guard.ErrStale) || !errors.Is(err, tierlock.ErrLost) {
		s.t.Fatalf("error %v matches not both ErrStale and ErrLost", err)
	}
}

// Three ways to enter; the suite's tests are shown to see a difference.
type entry func(ctx context.Context, tx *sql.Tx, token tierlock.Token) error

func (s *shop) byFence(ctx context.Context, tx *sql.Tx, token tierlock.Token) error {
	return s.fence.Enter(ctx, tx, s.grant(token))
}

func (s *shop) byRow(ctx context.Context, tx *sql.Tx, token tierlock.Token) error {
	return guard.Row{Table: "register"}.Enter(ctx, tx, s.d, "r", s.grant(token))
}

func (s *shop) unguarded(context.Context, *sql.Tx, tierlock.Token) error { return nil }

// read and write are what a holder does with the register: he computes by himself.
func read(ctx context.Context, tx *sql.Tx) (n int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT n FROM register WHERE id = 'r'`).Scan(&n)
	return n, err
}

func write(ctx context.Context, tx *sql.Tx, n int64) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf(`UPDATE register SET n = %d WHERE id = 'r'`, n))
	return err
}

// increment reads, thinks and writes in one transaction, begun again where the database
// asks for it.
func (s *shop) increment(enter entry, token tierlock.Token, think func()) error {
	ctx := s.t.Context()
	return guard.Transact(ctx, s.DB, s.opts, func(tx *sql.Tx) error {
		if err := enter(ctx, tx, token); err != nil {
			return err
		}
		n, err := read(ctx, tx)
		if err != nil {
			return err
		}
		think()
		return write(ctx, tx, n+1)
	})
}

// incrementInTwo reads in one transaction and writes in another, as a service does that
// asks somebody else in between. It enters both of them.
func (s *shop) incrementInTwo(first, second entry, token tierlock.Token, think func()) error {
	ctx := s.t.Context()
	var n int64
	err := guard.Transact(ctx, s.DB, s.opts, func(tx *sql.Tx) (err error) {
		if err := first(ctx, tx, token); err != nil {
			return err
		}
		n, err = read(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	think()
	return guard.Transact(ctx, s.DB, s.opts, func(tx *sql.Tx) error {
		if err := second(ctx, tx, token); err != nil {
			return err
		}
		return write(ctx, tx, n+1)
	})
}
