package guard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/servers"
)

func key(tb testing.TB, s string) tierlock.Key {
	tb.Helper()
	k, err := tierlock.ParseKey(s)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// shop is a database with the fence table and one register.
type shop struct {
	*sql.DB
	d guard.Dialect
	k tierlock.Key
}

// TestOnEachDatabase runs every SQL test on SQLite and on a real PostgreSQL, each in tables
// of its own.
func TestOnEachDatabase(t *testing.T) {
	cases := map[string]func(*testing.T, *shop){
		"enter raises the mark and refuses lower":  testEnterRaisesTheMarkAndRefusesLower,
		"unfenced pass is counted":                 testUnfencedPassIsCounted,
		"rollback gives the mark back":             testRollbackGivesTheMarkBack,
		"paused holder cannot lose an update":      testPausedHolderCannotLoseAnUpdate,
		"tokens at the write alone lose an update": testTokensAtTheWriteAloneLoseAnUpdate,
		"many holders keep the register":           testManyHoldersKeepTheRegister,
		"enter refuses what is no transaction":     testEnterRefusesWhatIsNoTransaction,
		"once":                                     testOnce,
		"row compares and bumps":                   testRowComparesAndBumps,
	}
	t.Run("sqlite", func(t *testing.T) {
		for name, run := range cases {
			t.Run(name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "shop.db")
				run(t, open(t, guard.SQLite, "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate"))
			})
		}
	})
	t.Run("postgres", func(t *testing.T) {
		dsn := servers.Postgres(t).DSN()
		admin, err := sql.Open("pgx", dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer admin.Close()
		n := 0
		for name, run := range cases {
			t.Run(name, func(t *testing.T) {
				n++
				if _, err := admin.ExecContext(t.Context(), fmt.Sprintf("CREATE SCHEMA shop%d", n)); err != nil {
					t.Fatal(err)
				}
				run(t, open(t, guard.Postgres, "pgx", fmt.Sprintf("%s&search_path=shop%d", dsn, n)))
			})
		}
	})
}

// open makes the fence table and a register.
func open(t *testing.T, d guard.Dialect, driver, dsn string) *shop {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s := &shop{DB: db, d: d, k: key(t, "biz:order:lock:1")}
	s.do(t, guard.Schema(d), guard.Schema(d), `CREATE TABLE register (id TEXT PRIMARY KEY, n INTEGER NOT NULL, version INTEGER NOT NULL)`,
		`INSERT INTO register VALUES ('r', 0, 7)`)
	return s
}

func (s *shop) do(tb testing.TB, queries ...string) {
	tb.Helper()
	for _, q := range queries {
		if _, err := s.ExecContext(tb.Context(), q); err != nil {
			tb.Fatalf("%s: %v", q, err)
		}
	}
}

func (s *shop) one(tb testing.TB, query string) (n int64) {
	tb.Helper()
	if err := s.QueryRowContext(tb.Context(), query).Scan(&n); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return n
}

// within runs fn in one transaction.
func (s *shop) within(ctx context.Context, fn func(tx *sql.Tx) error) error {
	tx, err := s.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (s *shop) enter(ctx context.Context, token tierlock.Token) error {
	return s.within(ctx, func(tx *sql.Tx) error { return guard.Enter(ctx, tx, s.d, s.k, token) })
}

func testEnterRaisesTheMarkAndRefusesLower(t *testing.T, s *shop) {
	for _, step := range []struct {
		token tierlock.Token
		want  error
	}{{5, nil}, {5, nil}, {4, guard.ErrStale}, {9, nil}, {5, guard.ErrStale}, {9, nil}, {math.MaxInt64, nil}, {10, guard.ErrStale}} {
		if err := s.enter(t.Context(), step.token); !errors.Is(err, step.want) {
			t.Fatalf("enter %d: %v, want %v", step.token, err, step.want)
		}
	}
}

// Token zero passes, is counted, and never moves a mark.
func testUnfencedPassIsCounted(t *testing.T, s *shop) {
	for _, token := range []tierlock.Token{0, 7, 0} {
		if err := s.enter(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	if n, mark := s.one(t, `SELECT unfenced FROM tierlock_fence`), s.one(t, `SELECT token FROM tierlock_fence`); n != 2 || mark != 7 {
		t.Fatalf("%d unfenced passes, mark %d; want 2 and 7", n, mark)
	}
	if err := s.enter(t.Context(), 6); !errors.Is(err, guard.ErrStale) {
		t.Fatalf("after an unfenced pass: %v", err)
	}
	err := s.within(t.Context(), func(tx *sql.Tx) error { return guard.EnterFenced(t.Context(), tx, s.d, s.k, 0) })
	if !errors.Is(err, guard.ErrUnfenced) {
		t.Fatalf("EnterFenced without a token: %v", err)
	}
}

// A rolled back transaction has not raised the mark: what it read counts for nothing.
func testRollbackGivesTheMarkBack(t *testing.T, s *shop) {
	boom := errors.New("boom")
	err := s.within(t.Context(), func(tx *sql.Tx) error {
		return errors.Join(guard.Enter(t.Context(), tx, s.d, s.k, 9), boom)
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	if err := s.enter(t.Context(), 5); err != nil {
		t.Fatalf("after a rollback: %v", err)
	}
}

// holder increments the register in two transactions, as a service does that reads, thinks
// and writes: read in one, write in another. pause lies between.
func (s *shop) increment(ctx context.Context, token tierlock.Token, guarded bool, pause func()) error {
	enter := func(tx *sql.Tx) error {
		if !guarded {
			return guard.Once(ctx, tx, fmt.Sprintf(`UPDATE tierlock_fence SET token = %d WHERE token <= %d`, token, token))
		}
		return guard.Enter(ctx, tx, s.d, s.k, token)
	}
	var n int64
	err := s.within(ctx, func(tx *sql.Tx) error {
		if guarded { // the mark is raised before the first read; without, only at the write
			if err := enter(tx); err != nil {
				return err
			}
		}
		return tx.QueryRowContext(ctx, `SELECT n FROM register`).Scan(&n)
	})
	if err != nil {
		return err
	}
	pause()
	return s.within(ctx, func(tx *sql.Tx) error {
		if err := enter(tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf(`UPDATE register SET n = %d`, n+1))
		return err
	})
}

// paused has A read, then B read, then A write, then B write, A with the lower token, and
// tells how many increments were accepted.
func (s *shop) paused(t *testing.T, guarded bool) (accepted int64) {
	t.Helper()
	if err := s.enter(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	count := func(err error) {
		switch {
		case err == nil:
			accepted++
		case !errors.Is(err, guard.ErrStale):
			t.Fatal(err)
		}
	}
	aRead, bRead, aWrote := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var aErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(aWrote)
		aErr = s.increment(t.Context(), 5, guarded, func() { close(aRead); <-bRead })
	})
	<-aRead
	bErr := s.increment(t.Context(), 6, guarded, func() { close(bRead); <-aWrote })
	wg.Wait()
	count(aErr)
	count(bErr)
	return accepted
}

func testPausedHolderCannotLoseAnUpdate(t *testing.T, s *shop) {
	accepted := s.paused(t, true)
	if n := s.one(t, `SELECT n FROM register`); n != accepted || accepted != 1 {
		t.Fatalf("%d increments accepted, register at %d; want 1 and 1", accepted, n)
	}
}

// The reason for Enter: a check of tokens at the write alone accepts both, and one is lost.
func testTokensAtTheWriteAloneLoseAnUpdate(t *testing.T, s *shop) {
	accepted := s.paused(t, false)
	if n := s.one(t, `SELECT n FROM register`); accepted != 2 || n != 1 {
		t.Fatalf("%d increments accepted, register at %d; want 2 and 1, which is the loss", accepted, n)
	}
}

// Many holders with rising tokens, each paused in the middle for as long as it takes the
// next one to get in: whatever is accepted is in the register.
func testManyHoldersKeepTheRegister(t *testing.T, s *shop) {
	const holders = 24
	read := make([]chan struct{}, holders+1)
	for i := range read {
		read[i] = make(chan struct{})
	}
	close(read[0])
	var mu sync.Mutex
	var accepted int64
	var wg sync.WaitGroup
	for i := range holders {
		wg.Go(func() {
			<-read[i]
			var once sync.Once
			next := func() { once.Do(func() { close(read[i+1]) }) }
			err := s.increment(t.Context(), tierlock.Token(100+i), true, next)
			next()
			switch {
			case err == nil:
				mu.Lock()
				accepted++
				mu.Unlock()
			case !errors.Is(err, guard.ErrStale):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.one(t, `SELECT n FROM register`); n != accepted || accepted == 0 {
		t.Fatalf("%d increments accepted, register at %d", accepted, n)
	}
}

func testEnterRefusesWhatIsNoTransaction(t *testing.T, s *shop) {
	ctx := t.Context()
	tx, err := s.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"pool":    guard.Enter(ctx, s.DB, s.d, s.k, 1),
		"nil":     guard.Enter(ctx, nil, s.d, s.k, 1),
		"nil tx":  guard.Enter(ctx, (*sql.Tx)(nil), s.d, s.k, 1),
		"no key":  guard.Enter(ctx, tx, s.d, tierlock.Key{}, 1),
		"dialect": guard.Enter(ctx, tx, 0, s.k, 1),
		"once":    guard.Once(ctx, nil, "SELECT 1"),
	} {
		if !errors.Is(err, tierlock.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := guard.Enter(ctx, tx, s.d, s.k, 1); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("after the commit: %v", err)
	}
	if n := s.one(t, `SELECT count(*) FROM tierlock_fence`); n != 0 {
		t.Errorf("%d marks were raised", n)
	}
}

func testOnce(t *testing.T, s *shop) {
	ctx := t.Context()
	if err := guard.Once(ctx, s.DB, `UPDATE register SET n = n + 1 WHERE id = 'r'`); err != nil {
		t.Fatal(err)
	}
	if err := guard.Once(ctx, s.DB, `UPDATE register SET n = n + 1 WHERE id = 'x'`); !errors.Is(err, guard.ErrStale) {
		t.Fatalf("no row: %v", err)
	}
	s.do(t, `INSERT INTO register VALUES ('q', 0, 0)`)
	if err := guard.Once(ctx, s.DB, `UPDATE register SET n = n + 1`); err == nil || errors.Is(err, guard.ErrStale) {
		t.Fatalf("two rows: %v", err)
	}
	if err := guard.Once(ctx, s.DB, `UPDATE nowhere SET n = 1`); err == nil || errors.Is(err, guard.ErrStale) {
		t.Fatalf("no table: %v", err)
	}
}

func testRowComparesAndBumps(t *testing.T, s *shop) {
	ctx, row := t.Context(), guard.Row{Table: "register"}
	version, err := row.Read(ctx, s.DB, s.d, "r")
	if err != nil || version != 7 {
		t.Fatalf("version %d, %v", version, err)
	}
	if err := row.Bump(ctx, s.DB, s.d, "r", version); err != nil {
		t.Fatal(err)
	}
	if err := row.Bump(ctx, s.DB, s.d, "r", version); !errors.Is(err, guard.ErrStale) {
		t.Fatalf("bumped twice from one version: %v", err)
	}
	if err := row.Bump(ctx, s.DB, s.d, "gone", 1); !errors.Is(err, guard.ErrStale) {
		t.Fatalf("a row that is gone: %v", err)
	}
	if _, err := row.Read(ctx, s.DB, s.d, "gone"); !errors.Is(err, sql.ErrNoRows) {
		t.Fatalf("reading a row that is gone: %v", err)
	}
	if n := s.one(t, `SELECT version FROM register`); n != 8 {
		t.Fatalf("version %d, want 8", n)
	}
	for _, bad := range []guard.Row{{}, {Table: "a b"}, {Table: "x; DROP TABLE register"}, {Table: "a.b.c"}, {Table: "t", ID: "1"}, {Table: "t", Version: "v.w"}} {
		if err := bad.Bump(ctx, s.DB, s.d, "r", 1); !errors.Is(err, tierlock.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestSchemaNeedsADialect(t *testing.T) {
	if guard.Schema(0) != "" || !strings.Contains(guard.Schema(guard.Postgres), "tierlock_fence") {
		t.Fatal("schema")
	}
	if err := guard.Dialect(9).Validate(); !errors.Is(err, tierlock.ErrInvalid) {
		t.Fatal(err)
	}
	if guard.SQL(math.MaxUint64) != math.MaxInt64 || guard.SQL(5) != 5 {
		t.Fatal("SQL overflows")
	}
}

func BenchmarkEnterSQLite(b *testing.B) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "shop.db")+"?_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	s := &shop{DB: db, d: guard.SQLite, k: key(b, "biz:order:lock:1")}
	s.do(b, guard.Schema(s.d))
	tx, err := db.BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer tx.Rollback()
	token := tierlock.Token(0)
	for b.Loop() {
		token++
		if err := guard.Enter(b.Context(), tx, s.d, s.k, token); err != nil {
			b.Fatal(err)
		}
	}
}
