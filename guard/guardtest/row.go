package guardtest

import (
	"database/sql"
	"errors"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/guard"
)

func onceChangesOne(s *shop) {
	ctx := s.t.Context()
	if err := guard.Once(ctx, s.DB, `UPDATE register SET n = n + 1 WHERE id = 'r'`); err != nil {
		s.t.Fatal(err)
	}
	if err := guard.Once(ctx, s.DB, `UPDATE register SET n = n + 1 WHERE id = 'x'`); !errors.Is(err, guard.ErrStale) || errors.Is(err, tierlock.ErrLost) {
		s.t.Fatalf("no row: %v", err)
	}
	s.do(`INSERT INTO register (id, n, version) VALUES ('q', 0, 0)`)
	if err := guard.Once(ctx, s.DB, `UPDATE register SET n = n + 1`); err == nil || errors.Is(err, guard.ErrStale) {
		s.t.Fatalf("two rows: %v", err)
	}
	if err := guard.Once(ctx, s.DB, `UPDATE nowhere SET n = 1`); err == nil || errors.Is(err, guard.ErrStale) {
		s.t.Fatalf("no table: %v", err)
	}
}

func rowComparesAndBumps(s *shop) {
	ctx, row := s.t.Context(), guard.Row{Table: "register"}
	version, err := row.Read(ctx, s.DB, s.d, "r")
	if err != nil || version != 7 {
		s.t.Fatalf("version %d, %v", version, err)
	}
	if err := row.Bump(ctx, s.DB, s.d, "r", version); err != nil {
		s.t.Fatal(err)
	}
	if err := row.Bump(ctx, s.DB, s.d, "r", version); !errors.Is(err, guard.ErrStale) || errors.Is(err, tierlock.ErrLost) {
		s.t.Fatalf("bumped twice from one version: %v", err)
	}
	if err := row.Bump(ctx, s.DB, s.d, "gone", 1); !errors.Is(err, guard.ErrStale) {
		s.t.Fatalf("a row that is gone: %v", err)
	}
	if _, err := row.Read(ctx, s.DB, s.d, "gone"); !errors.Is(err, sql.ErrNoRows) {
		s.t.Fatalf("reading a row that is gone: %v", err)
	}
	if n := s.one(`SELECT version FROM register`); n != 8 {
		s.t.Fatalf("version %d, want 8", n)
	}
}

func rowKeepsAToken(s *shop) {
	ctx := s.t.Context()
	enter := func(id string, token tierlock.Token) error {
		return s.within(func(tx *sql.Tx) error {
			return guard.Row{Table: "register"}.Enter(ctx, tx, s.d, id, s.grant(token))
		})
	}
	for _, step := range []struct{ token, mark tierlock.Token }{{5, 0}, {5, 0}, {4, 5}, {9, 0}, {5, 9}} {
		err := enter("r", step.token)
		if step.mark != 0 {
			s.wantStale(err, step.token, step.mark)
		} else if err != nil {
			s.t.Fatalf("enter %d: %v", step.token, err)
		}
	}
	if err := enter("gone", 5); !errors.Is(err, sql.ErrNoRows) {
		s.t.Fatalf("a row that is gone: %v", err)
	}
	if n := s.one(`SELECT fence FROM register`); n != 9 {
		s.t.Fatalf("mark %d, want 9", n)
	}
}
