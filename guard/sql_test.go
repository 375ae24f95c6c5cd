package guard_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/guard/guardtest"
	"github.com/tierlock/tierlock/internal/servers"
)

func sqlite() guardtest.Database {
	return guardtest.Database{Dialect: guard.SQLite, Open: func(tb testing.TB) *sql.DB {
		return openSQLite(tb, "busy_timeout(10000)", "&_txlock=immediate")
	}}
}

func TestSuiteOnSQLite(t *testing.T)      { guardtest.Run(t, sqlite()) }
func BenchmarkGuardedSQLite(b *testing.B) { guardtest.Benchmark(b, sqlite()) }

// postgres is a real one, each test in a schema of its own. The suite on a real MariaDB is
// in the module test, since a driver of MySQL in our go.mod would move the version of
// those who embed us.
func postgres(tb testing.TB) guardtest.Database {
	tb.Helper()
	server := servers.Postgres(tb)
	dsn, n := server.DSN(), 0
	return guardtest.Database{Dialect: guard.Postgres, Crash: server.Restart, Open: func(tb testing.TB) *sql.DB {
		tb.Helper()
		n++
		admin := openDB(tb, "pgx", dsn)
		if _, err := admin.ExecContext(tb.Context(), fmt.Sprintf("CREATE SCHEMA shop%d", n)); err != nil {
			tb.Fatal(err)
		}
		return openDB(tb, "pgx", fmt.Sprintf("%s&search_path=shop%d", dsn, n))
	}}
}

func TestSuiteOnPostgres(t *testing.T)      { guardtest.Run(t, postgres(t)) }
func BenchmarkGuardedPostgres(b *testing.B) { guardtest.Benchmark(b, postgres(b)) }

// A schema before the dot.
func TestTableInASchema(t *testing.T) {
	db := openDB(t, "pgx", servers.Postgres(t).DSN())
	fence, err := guard.New(guard.Config{Dialect: guard.Postgres, Table: "marks.of_orders"})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"CREATE SCHEMA marks", fence.Schema()} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	raise := fence.Raise(db)
	if err := raise(t.Context(), key("k"), 5); err != nil {
		t.Fatal(err)
	}
	if err := raise(t.Context(), key("k"), 4); !errors.Is(err, guard.ErrStale) {
		t.Fatal(err)
	}
	if n, err := fence.Sweep(t.Context(), db, guard.MinIdle); n != 0 || err != nil {
		t.Fatal(n, err)
	}
}

// A transaction of SQLite that began by reading cannot write once another has written: it
// is told to begin again, at once, whatever the busy timeout. One that only waited too long
// for the other is told the same.
func TestSQLiteSaysBeginAgain(t *testing.T) {
	db := openSQLite(t, "busy_timeout(50)", "")
	fence, err := guard.New(guard.Config{Dialect: guard.SQLite})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), fence.Schema()); err != nil {
		t.Fatal(err)
	}
	begin := func() *sql.Tx {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tx.Rollback() })
		return tx
	}
	g := tierlock.Grant{Key: key("k"), Token: 5}
	reader := begin()
	var n int
	if err := reader.QueryRowContext(t.Context(), `SELECT count(*) FROM tierlock_fence`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	writer := begin()
	if err := fence.Enter(t.Context(), writer, g); err != nil {
		t.Fatal(err)
	}
	if err := fence.Enter(t.Context(), begin(), g); !errors.Is(err, guard.ErrRetry) {
		t.Errorf("while another writes: %v", err)
	}
	if err := writer.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := fence.Enter(t.Context(), reader, g); !errors.Is(err, guard.ErrRetry) {
		t.Errorf("after a read that is out of date: %v", err)
	}
}

// openSQLite opens a file in WAL mode.
func openSQLite(tb testing.TB, pragma, more string) *sql.DB {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "shop.db")
	return openDB(tb, "sqlite", "file:"+path+"?_pragma="+pragma+"&_pragma=journal_mode(WAL)"+more)
}

func openDB(tb testing.TB, driver, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	return db
}

func key(s string) tierlock.Key {
	k, err := tierlock.ParseKey(s)
	if err != nil {
		panic(err)
	}
	return k
}

func TestBadNamesAreRefused(t *testing.T) {
	long := strings.Repeat("t", 64)
	for _, name := range []string{"a b", "x; DROP TABLE stock", "a.b.c", "1t", "t.1", ".t", "t.", `"t"`, "`t`", "tä", "t-u", long, "s." + long} {
		if _, err := guard.New(guard.Config{Dialect: guard.SQLite, Table: name}); !errors.Is(err, tierlock.ErrInvalid) {
			t.Errorf("table %q: %v", name, err)
		}
	}
	for _, row := range []guard.Row{{}, {Table: "a b"}, {Table: "t", ID: "1"}, {Table: "t", Version: "v.w"}, {Table: "t", Token: "f; DROP"}} {
		if err := row.Bump(t.Context(), nil, guard.SQLite, "r", 1); !errors.Is(err, tierlock.ErrInvalid) {
			t.Errorf("%+v: %v", row, err)
		}
	}
	_, err := guard.New(guard.Config{Table: "a b"})
	if text := fmt.Sprint(err); !strings.Contains(text, "dialect") || !strings.Contains(text, "table") {
		t.Errorf("want every fault at once: %v", err)
	}
}

// The page shows what the package creates.
func TestThePageShowsTheSchemas(t *testing.T) {
	page, err := os.ReadFile("../docs/guard.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []guard.Dialect{guard.SQLite, guard.Postgres, guard.MySQL} {
		if !strings.Contains(string(page), "```sql\n"+guard.Schema(d)+"\n```") {
			t.Errorf("docs/guard.md shows another schema for %s", d)
		}
	}
}

func TestDialects(t *testing.T) {
	for _, d := range []guard.Dialect{0, 9} {
		if err := d.Validate(); !errors.Is(err, tierlock.ErrInvalid) || d.String() != "invalid" || guard.Schema(d) != "" {
			t.Errorf("dialect %d: %v", d, err)
		}
	}
	for d, word := range map[guard.Dialect]string{guard.SQLite: "sqlite", guard.Postgres: "postgres", guard.MySQL: "mysql"} {
		if err := d.Validate(); err != nil || d.String() != word || !strings.Contains(guard.Schema(d), "tierlock_fence") {
			t.Errorf("%s: %v", d, err)
		}
	}
	if guard.SQL(1<<64-1) != 1<<63-1 || guard.SQL(5) != 5 {
		t.Error("SQL overflows")
	}
}
