// Package reconcile runs what reconcile keeps in SQL on a real MariaDB, since a driver of
// MySQL in the library's go.mod would move the version of those who embed it; and the whole
// way from a gateway's lock to a finding, with processes, a Redis and a Kafka.
package reconcile

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		if err := serve(text); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func openDB(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func do(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func hold(t *testing.T, holder string, from int) reconcile.Interval {
	t.Helper()
	key, err := tierlock.ParseKey("biz:coupon:lock:a")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC).Add(time.Duration(from) * time.Millisecond)
	return reconcile.Interval{
		Event: "p/1/" + holder, Chain: "coupon", Key: key, Holder: holder, Tier: tierlock.Bypass, Store: "bypass", Producer: "p" + holder, Epoch: 1,
		GrantedAt: at, EndedAt: at.Add(100 * time.Millisecond), Latest: at.Add(100 * time.Millisecond), How: audit.Released, Error: time.Millisecond,
		Business: audit.Business{Type: "coupon", ID: "u1-c1"},
	}
}

func TestOnMariaDB(t *testing.T) {
	dsn := servers.MariaDB(t).DSN()
	t.Run("a table of an older version", func(t *testing.T) { migrated(t, openDB(t, dsn)) })
	t.Run("findings", func(t *testing.T) { findings(t, openDB(t, dsn)) })
	t.Run("a repair is applied once", func(t *testing.T) { once(t, openDB(t, dsn)) })
	// With this the driver counts rows that a statement found, changed or not.
	t.Run("whatever the driver counts", func(t *testing.T) { once(t, openDB(t, dsn+"?clientFoundRows=true")) })
}

// The tables as they were made before findings were provisional, with a row: several members
// bring them up to date at once, nothing of the row is lost, and both halves can be told apart.
func migrated(t *testing.T, db *sql.DB) {
	for _, statement := range reconcile.Schema(reconcile.MySQL) {
		var old strings.Builder
		for line := range strings.Lines(statement) {
			if !strings.Contains(line, "provisional") {
				old.WriteString(line)
			}
		}
		do(t, db, old.String())
	}
	do(t, db, `INSERT INTO tierlock_findings (id, revision, digest, stage, state, kind, chain, lock_key, certain, from_us, to_us, document)
		VALUES ('old', 1, 'd', 3, 'repaired', 'overlap', 'coupon', 'biz:coupon:lock:old', TRUE, 0, 0, '{"id":"old","kind":"overlap","state":"repaired","certain":true}')`)
	table, err := reconcile.SQLFindings(db, reconcile.MySQL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `SELECT provisional FROM tierlock_findings`); err == nil {
		t.Fatal("the old table has the new column")
	}
	var members sync.WaitGroup
	for range 4 {
		members.Go(func() {
			if err := table.Create(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	members.Wait()
	fresh := reconcile.Overlaps(reconcile.Rule{}, []reconcile.Interval{hold(t, "m", 50), hold(t, "n", 60)})[0]
	fresh.Provisional, fresh.Awaited = true, []string{"p"}
	if err := table.Put(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	all, err := table.List(t.Context())
	if err != nil || len(all) != 2 || all[0].ID != "old" || all[0].State != reconcile.StateRepaired || all[0].Provisional || !all[1].Provisional {
		t.Errorf("%+v, %v", all, err)
	}
	var n int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM tierlock_findings WHERE provisional`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows are provisional, %v", n, err)
	}
	do(t, db, `DELETE FROM tierlock_findings`)
}

// The rule of reconcile.Findings: what knew less takes no place, what was repaired stays so.
func findings(t *testing.T, db *sql.DB) {
	table, err := reconcile.SQLFindings(db, reconcile.MySQL)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := table.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put := func(f reconcile.Finding) {
		t.Helper()
		if err := table.Put(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	old := reconcile.Overlaps(reconcile.Rule{}, []reconcile.Interval{hold(t, "b", 50), hold(t, "c", 60)})[0]
	old.Revision = 10
	grown := reconcile.Overlaps(reconcile.Rule{}, []reconcile.Interval{hold(t, "a", 0), hold(t, "b", 50), hold(t, "c", 60)})[0]
	grown.Revision = 20
	put(old)
	repaired := old
	repaired.State = reconcile.StateRepaired
	put(repaired)
	put(old)
	ignorant := old
	ignorant.Digest, ignorant.Revision, ignorant.Pairs = "less", 5, 99
	put(ignorant)
	all, err := table.List(t.Context())
	if err != nil || len(all) != 1 || all[0].State != reconcile.StateRepaired || all[0].Pairs == 99 || len(all[0].Members) != 2 || !all[0].Certain {
		t.Fatalf("%+v, %v", all, err)
	}
	put(grown)
	standing, err := table.Standing(t.Context(), old.Key)
	if err != nil || len(standing) != 1 || standing[0].ID != grown.ID || len(standing[0].Members) != 3 {
		t.Fatalf("%+v, %v", standing, err)
	}
}

// Many at once with one case: the effect is there once, and its row beside it; a repair that
// fails leaves neither.
func once(t *testing.T, db *sql.DB) {
	do(t, db, `DROP TABLE IF EXISTS claims`)
	do(t, db, `DROP TABLE IF EXISTS tierlock_repairs`)
	do(t, db, `CREATE TABLE claims (n INTEGER PRIMARY KEY, record VARCHAR(64) NOT NULL) ENGINE=InnoDB`)
	if err := reconcile.CreateRepairs(t.Context(), db, reconcile.MySQL); err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		do(t, db, `INSERT INTO claims VALUES (?, 'u1-c1')`, n)
	}
	hook := func(more ...string) reconcile.Hook {
		h, err := reconcile.NewSQLHook(reconcile.SQLHookConfig{
			DB: db, Dialect: reconcile.MySQL, Check: `SELECT count(*) - 1 FROM claims WHERE record = {id}`,
			Repair: append([]string{`DELETE FROM claims WHERE record = {id} ORDER BY n DESC LIMIT 1`}, more...),
		})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	f := reconcile.Overlaps(reconcile.Rule{}, []reconcile.Interval{hold(t, "b", 50), hold(t, "c", 60)})[0]
	c := reconcile.Case{ID: "0123456789abcdef0123456789abcdef", Action: "repair", Finding: f, Loser: f.Members[1], Business: f.Members[1].Business}
	count := func(table string) (n int) {
		t.Helper()
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if r, err := hook(`DELETE FROM nowhere`).Repair.Repair(t.Context(), c); err == nil || r != reconcile.ResultFailed || count("claims") != 5 || count("tierlock_repairs") != 0 {
		t.Fatalf("a failed repair: %s, %v, %d claims, %d rows", r, err, count("claims"), count("tierlock_repairs"))
	}
	h, results := hook(), make([]string, 8)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			r, err := h.Repair.Repair(context.WithoutCancel(t.Context()), c)
			results[i] = fmt.Sprint(r, " ", err)
		})
	}
	all.Wait()
	applied := 0
	for _, r := range results {
		switch r {
		case "applied <nil>":
			applied++
		case "already <nil>":
		default:
			t.Error(r)
		}
	}
	if applied != 1 || count("claims") != 4 || count("tierlock_repairs") != 1 {
		t.Errorf("applied %d times, %d claims, %d rows: %v", applied, count("claims"), count("tierlock_repairs"), results)
	}
}
