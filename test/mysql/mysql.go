// Package mysql hands tests a MySQL that somebody else runs. The other databases are
// started by the tests themselves; Debian's stable release has no MySQL to start.
package mysql

import (
	"database/sql"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/tierlock/tierlock"
)

// Variable names the environment variable with the server's DSN, as go-sql-driver/mysql
// reads it: root@tcp(127.0.0.1:3306)/. Its user must be allowed to create databases.
const Variable = "TIERLOCK_MYSQL_DSN"

// DSN is that of a new and empty database, which is dropped when tb has ended. A run whose
// environment names no server leaves the test out, saying so.
func DSN(tb testing.TB) string {
	tb.Helper()
	text := os.Getenv(Variable)
	if text == "" {
		tb.Skipf("left out: needs a MySQL of its own; name it in %s", Variable)
	}
	cfg, err := mysql.ParseDSN(text)
	if err != nil {
		tb.Fatalf("%s: %v", Variable, err)
	}
	db, err := sql.Open("mysql", text)
	if err != nil {
		tb.Fatal(err)
	}
	cfg.DBName = "tierlock_" + tierlock.NewRequestID().Secret()
	run := func(query string) {
		if _, err := db.Exec(query); err != nil { //nolint:noctx // the test's own context has ended when the database is dropped
			tb.Errorf("%s: %v", query, err)
		}
	}
	var version string
	if err := db.QueryRowContext(tb.Context(), "SELECT CONCAT(@@version, ' ', @@version_comment)").Scan(&version); err != nil {
		tb.Fatal(err)
	}
	tb.Logf("MySQL %s", version)
	run("CREATE DATABASE " + cfg.DBName)
	tb.Cleanup(func() {
		run("DROP DATABASE " + cfg.DBName)
		_ = db.Close()
	})
	return cfg.FormatDSN()
}
