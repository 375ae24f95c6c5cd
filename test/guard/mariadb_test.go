// Package guard runs the suite of package guard on a real MariaDB. It is here and not
// beside the code, since a driver of MySQL in the library's go.mod would move the version
// of those who embed it.
package guard

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/guard/guardtest"
	"github.com/tierlock/tierlock/internal/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuiteOnMariaDB(t *testing.T)      { guardtest.Run(t, mariadb(t)) }
func BenchmarkGuardedMariaDB(b *testing.B) { guardtest.Benchmark(b, mariadb(b)) }

// TestSuiteOnMariaDBWithSnapshotIsolation is on a server that refuses to lock a row which
// has changed since the snapshot: what MariaDB 11.6 and later do by default.
func TestSuiteOnMariaDBWithSnapshotIsolation(t *testing.T) {
	guardtest.Run(t, mariadb(t, "--innodb-snapshot-isolation=ON"))
}

// mariadb is a real one, each test in a database of its own.
func mariadb(tb testing.TB, args ...string) guardtest.Database {
	tb.Helper()
	server := servers.MariaDB(tb, args...)
	dsn, n := server.DSN(), 0
	return guardtest.Database{Dialect: guard.MySQL, Crash: server.Restart, Open: func(tb testing.TB) *sql.DB {
		tb.Helper()
		n++
		name := fmt.Sprintf("shop%d", n)
		if _, err := openDB(tb, dsn).ExecContext(tb.Context(), "CREATE DATABASE "+name); err != nil {
			tb.Fatal(err)
		}
		return openDB(tb, strings.TrimSuffix(dsn, "test")+name)
	}}
}

func openDB(tb testing.TB, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	return db
}
