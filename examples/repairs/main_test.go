package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/tierlock/tierlock/internal/postgres"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wrong is by how much each record is wrong after two writers were inside at once.
var wrong = map[string]int{"stock": 1, "coupon": 1, "payment": 4200, "balance": 1000}

// tell has the story of b told and holds it to what the README says.
func tell(t *testing.T, db *sql.DB, d reconcile.Dialect, b business) {
	t.Helper()
	var out bytes.Buffer
	steps, err := story(t.Context(), db, d, b, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Log("\n" + out.String())
	if len(steps) != 6 {
		t.Fatalf("%d steps", len(steps))
	}
	for i, s := range steps {
		broken, effects, result := 0, 1, reconcile.ResultAlready
		switch i {
		case 0:
			broken, effects, result = wrong[b.name], 0, reconcile.ResultWould
		case 1:
			result = reconcile.ResultApplied
		}
		if s.broken != broken || s.effects != effects || s.results[result] == 0 || i > 1 && s.results[reconcile.ResultApplied] != 0 {
			t.Errorf("step %d, %s: wrong %d, %d effects, cases %v; want wrong %d, %d effects and one case %s", i+1, s.what, s.broken, s.effects, s.results, broken, effects, result)
		}
	}
	if last := steps[5].results; last[reconcile.ResultClean] < 2 {
		t.Errorf("cases %v in the end: the holds that came late are no cases, so nothing was proved", last)
	}
	var keys, rows int
	if err := db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM tierlock_repairs), (SELECT count(*) FROM tierlock_findings WHERE state = 'repaired')`).Scan(&keys, &rows); err != nil || keys != 1 || rows != 1 {
		t.Errorf("%d keys of repairs, %d findings repaired, %v; want one of each", keys, rows, err)
	}
}

func TestEachIsMendedOnce(t *testing.T) {
	for _, b := range businesses() {
		t.Run(b.name, func(t *testing.T) {
			db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "b.db")+"?_pragma=busy_timeout(10000)&_txlock=immediate")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			tell(t, db, reconcile.SQLite, b)
		})
	}
}

func TestEachIsMendedOnceOnPostgreSQL(t *testing.T) {
	dsn := servers.Postgres(t).DSN()
	for i, b := range businesses() {
		t.Run(b.name, func(t *testing.T) {
			db, drop, err := postgres.OpenSchema(t.Context(), dsn, fmt.Sprintf("story_%d", i))
			if err != nil {
				t.Fatal(err)
			}
			tell(t, db, reconcile.Postgres, b)
			if err := drop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// The command itself, as the README has it; and it leaves nothing behind.
func TestTheCommand(t *testing.T) {
	dsn := servers.Postgres(t).DSN()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-dsn", dsn, "-only", "coupon"}, &out); err != nil || strings.Count(out.String(), "\n") != 6 {
		t.Errorf("%v\n%s", err, &out)
	}
	db, err := postgres.Open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var schemas int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM information_schema.schemata WHERE schema_name LIKE 'tierlock%'`).Scan(&schemas); err != nil || schemas != 0 {
		t.Errorf("%d schemas left, %v", schemas, err)
	}
}

func TestWrongArguments(t *testing.T) {
	for _, args := range [][]string{{"-only", "nothing"}, {"-dsn", "no url"}, {"-what"}} {
		if err := run(t.Context(), args, new(bytes.Buffer)); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
