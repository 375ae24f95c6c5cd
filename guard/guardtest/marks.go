package guardtest

import (
	"database/sql"
	"errors"
	"math"
	"strings"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/guard"
)

func entersRise(s *shop) {
	for _, step := range []struct{ token, mark tierlock.Token }{{5, 0}, {5, 0}, {4, 5}, {9, 0}, {5, 9}, {9, 0}, {math.MaxInt64, 0}, {10, math.MaxInt64}} {
		err := s.enter(s.fence, s.grant(step.token))
		if step.mark != 0 {
			s.wantStale(err, step.token, step.mark)
		} else if err != nil {
			s.t.Fatalf("enter %d: %v", step.token, err)
		}
	}
}

// Two keys that differ in case, and two that differ in their 256th byte, are two keys.
func keysAreKeptApart(s *shop) {
	long := strings.Repeat("x", 255)
	for i, text := range []string{"biz:a:lock:k", "biz:a:lock:K", long + "y", long + "z"} {
		g := tierlock.Grant{Key: parseKey(s.t, text), Token: tierlock.Token(9 - i)}
		if err := s.enter(s.fence, g); err != nil {
			s.t.Errorf("%s is taken for another key: %v", text, err)
		}
	}
	if n := s.one(`SELECT count(*) FROM tierlock_fence`); n != 4 {
		s.t.Errorf("%d marks, want 4", n)
	}
}

func unfencedIsRefused(s *shop) {
	for _, err := range []error{
		s.enter(s.fence, s.grant(0)),
		s.within(func(tx *sql.Tx) error { return guard.Enter(s.t.Context(), tx, s.d, s.key, 0) }),
		s.within(func(tx *sql.Tx) error { return s.byRow(s.t.Context(), tx, 0) }),
	} {
		if !errors.Is(err, guard.ErrUnfenced) {
			s.t.Errorf("without a token: %v", err)
		}
	}
	if n := s.one(`SELECT count(*) FROM tierlock_fence`); n != 0 {
		s.t.Errorf("%d rows were written", n)
	}
}

// Token zero passes where it may, never moves a mark, and leaves who it was.
func unfencedIsOnRecord(s *shop) {
	open := s.newFence(guard.Config{Dialect: s.d, Unfenced: true})
	local, bypass := s.grant(0), s.grant(0)
	local.Tier, local.RequestID = tierlock.Local, tierlock.NewRequestID()
	bypass.Tier, bypass.RequestID = tierlock.Bypass, tierlock.NewRequestID()
	for i, g := range []tierlock.Grant{local, s.grant(7), bypass} {
		if err := s.enter(open, g); err != nil {
			s.t.Fatalf("step %d: %v", i, err)
		}
	}
	var mark, entries, passed int64
	var tier, by string
	var at any
	err := s.QueryRowContext(s.t.Context(), `SELECT token, entries, unfenced, unfenced_tier, unfenced_by, unfenced_at FROM tierlock_fence`).
		Scan(&mark, &entries, &passed, &tier, &by, &at)
	if err != nil {
		s.t.Fatal(err)
	}
	if mark != 7 || entries != 3 || passed != 2 || tier != "bypass" || by != bypass.RequestID.Fingerprint() || at == nil {
		s.t.Errorf("mark %d, %d entries, %d unfenced, the last %q %q at %v; want 7, 3, 2 and the bypass", mark, entries, passed, tier, by, at)
	}
	s.wantStale(s.enter(open, s.grant(6)), 6, 7)
}

// A rolled back transaction has not raised the mark: what it read counts for nothing.
func rollbackGivesTheMarkBack(s *shop) {
	boom := errors.New("boom")
	for range 2 { // the first makes the row, the second would find it
		err := s.within(func(tx *sql.Tx) error {
			return errors.Join(s.fence.Enter(s.t.Context(), tx, s.grant(9)), boom)
		})
		if !errors.Is(err, boom) || errors.Is(err, guard.ErrStale) {
			s.t.Fatal(err)
		}
		if err := s.enter(s.fence, s.grant(5)); err != nil {
			s.t.Fatalf("after a rollback: %v", err)
		}
	}
}

// crashLeavesTheMark has the server die with one mark committed and a higher one not.
func crashLeavesTheMark(s *shop, crash func()) {
	if err := s.enter(s.fence, s.grant(5)); err != nil {
		s.t.Fatal(err)
	}
	tx := s.begin(nil)
	if err := s.byFence(s.t.Context(), tx, 9); err != nil {
		s.t.Fatal(err)
	}
	crash()
	if err := tx.Commit(); err == nil {
		s.t.Error("a commit that no server answered")
	}
	for range 32 { // each finds one of the pool's connections dead
		if s.PingContext(s.t.Context()) == nil {
			break
		}
	}
	s.wantStale(s.enter(s.fence, s.grant(4)), 4, 5)
	if err := s.enter(s.fence, s.grant(6)); err != nil {
		s.t.Fatalf("over a mark that was never committed: %v", err)
	}
}

func entersInATransactionOnly(s *shop) {
	ctx, g := s.t.Context(), s.grant(1)
	tx := s.begin(nil)
	for name, err := range map[string]error{
		"pool":     s.fence.Enter(ctx, s.DB, g),
		"wrapped":  s.fence.Enter(ctx, struct{ *sql.DB }{s.DB}, g),
		"nil":      s.fence.Enter(ctx, nil, g),
		"nil tx":   s.fence.Enter(ctx, (*sql.Tx)(nil), g),
		"no key":   s.fence.Enter(ctx, tx, tierlock.Grant{Token: 1}),
		"dialect":  guard.Enter(ctx, tx, 0, s.key, 1),
		"once":     guard.Once(ctx, nil, "SELECT 1"),
		"row pool": guard.Row{Table: "register"}.Enter(ctx, s.DB, s.d, "r", g),
	} {
		if !errors.Is(err, tierlock.ErrInvalid) {
			s.t.Errorf("%s: %v", name, err)
		}
	}
	if err := tx.Commit(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.fence.Enter(ctx, tx, g); !errors.Is(err, sql.ErrTxDone) {
		s.t.Errorf("after the commit: %v", err)
	}
	if n := s.one(`SELECT count(*) FROM tierlock_fence`); n != 0 {
		s.t.Errorf("%d marks were raised", n)
	}
}

// The contract's short form means the same row.
func shortForm(s *shop) {
	short := func(token tierlock.Token) error {
		return s.within(func(tx *sql.Tx) error { return guard.Enter(s.t.Context(), tx, s.d, s.key, token) })
	}
	if err := short(5); err != nil {
		s.t.Fatal(err)
	}
	s.wantStale(s.enter(s.fence, s.grant(4)), 4, 5)
	if err := s.enter(s.fence, s.grant(6)); err != nil {
		s.t.Fatal(err)
	}
	s.wantStale(short(5), 5, 6)
	if guard.Schema(s.d) != s.fence.Schema() {
		s.t.Error("two schemas")
	}
}

func tableHasAnotherName(s *shop) {
	other := s.newFence(guard.Config{Dialect: s.d, Table: "order_marks"})
	s.do(other.Schema())
	for _, f := range []*guard.Fence{other, s.fence} {
		if err := s.enter(f, s.grant(5)); err != nil {
			s.t.Fatal(err)
		}
	}
	if n := s.one(`SELECT token FROM order_marks`); n != 5 {
		s.t.Errorf("mark %d, want 5", n)
	}
}
