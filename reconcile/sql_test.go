package reconcile

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/servers"
)

// database is one of the databases every SQL test runs on.
type database struct {
	d           Dialect
	driver, dsn string
}

func (b database) open(tb testing.TB) *sql.DB {
	tb.Helper()
	db, err := sql.Open(b.driver, b.dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	return db
}

func onEachDatabase(t *testing.T, run func(t *testing.T, b database)) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "shop.db")
		run(t, database{SQLite, "sqlite", "file:" + path + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate"})
	})
	t.Run("postgres", func(t *testing.T) {
		run(t, database{Postgres, "pgx", servers.Postgres(t).DSN()})
	})
}

func do(tb testing.TB, db *sql.DB, queries ...string) {
	tb.Helper()
	for _, q := range queries {
		if _, err := db.ExecContext(tb.Context(), q); err != nil {
			tb.Fatalf("%s: %v", q, err)
		}
	}
}

func one(tb testing.TB, db *sql.DB, query string) (n int64) {
	tb.Helper()
	if err := db.QueryRowContext(tb.Context(), query).Scan(&n); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return n
}

func caseFor(id string) Case {
	return Case{
		ID: idOf("case", id), Action: "repair", Finding: Finding{ID: "f" + id},
		Loser:    Interval{Event: "p/1/" + id, Holder: "h" + id, Tier: tierlock.Bypass},
		Business: audit.Business{Type: "coupon", ID: id, Op: "claim", Delta: 1},
	}
}

// claims is the business of the demo: one claim per record, the first stays.
func claims(tb testing.TB, b database) (*sql.DB, Hook) {
	tb.Helper()
	db := b.open(tb)
	do(tb, db, `CREATE TABLE claims (n INTEGER PRIMARY KEY, record TEXT NOT NULL, holder TEXT NOT NULL)`)
	if err := CreateRepairs(tb.Context(), db, b.d); err != nil {
		tb.Fatal(err)
	}
	hook, err := NewSQLHook(SQLHookConfig{
		DB: db, Dialect: b.d, Action: "repair",
		Check:  `SELECT count(*) - 1 FROM claims WHERE record = {id}`,
		Repair: []string{`DELETE FROM claims WHERE record = {id} AND n = (SELECT max(n) FROM claims WHERE record = {id})`},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return db, hook
}

func TestSQLHook(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, b database) {
		db, hook := claims(t, b)
		do(t, db, `INSERT INTO claims VALUES (1, 'u1', 'a'), (2, 'u1', 'b'), (3, 'u2', 'c'), (4, 'it''s {odd}', 'd')`)
		check := func(id string, want int64) {
			t.Helper()
			if got, err := hook.Check.Check(t.Context(), caseFor(id)); err != nil || got != want {
				t.Fatalf("check %s = %d, %v; want %d", id, got, err, want)
			}
		}
		repair := func(id string, want Result) {
			t.Helper()
			if got, err := hook.Repair.Repair(t.Context(), caseFor(id)); err != nil || got != want {
				t.Fatalf("repair %s = %s, %v; want %s", id, got, err, want)
			}
		}
		check("u1", 1)
		check("u2", 0)
		check("it's {odd}", 0)
		check("nobody", 0)
		repair("u2", ResultClean)
		repair("u1", ResultApplied)
		check("u1", 0)
		repair("u1", ResultAlready)
		if n := one(t, db, `SELECT count(*) FROM claims WHERE record = 'u1' AND n = 1`); n != 1 {
			t.Fatal("the first claim did not stay")
		}
		do(t, db, `INSERT INTO claims VALUES (5, 'u2', 'e')`) // what was clean may go wrong later
		repair("u2", ResultApplied)
		if n := one(t, db, `SELECT count(*) FROM tierlock_repairs`); n != 2 {
			t.Fatalf("%d keys remembered, want 2", n)
		}
		if applied, err := hook.Repair.(Rememberer).Applied(t.Context(), caseFor("u1")); !applied || err != nil {
			t.Fatalf("applied = %v, %v", applied, err)
		}
	})
}

// A repair whose statement fails leaves neither its effect nor its key behind.
func TestFailedSQLRepairLeavesNothing(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, b database) {
		db, _ := claims(t, b)
		do(t, db, `INSERT INTO claims VALUES (1, 'u1', 'a'), (2, 'u1', 'b')`)
		hook, err := NewSQLHook(SQLHookConfig{
			DB: db, Dialect: b.d, Check: `SELECT count(*) - 1 FROM claims WHERE record = {id}`,
			Repair: []string{`DELETE FROM claims WHERE record = {id}`, `DELETE FROM no_such_table WHERE id = {id}`},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := hook.Repair.Repair(t.Context(), caseFor("u1")); err == nil {
			t.Fatal("a missing table is no error")
		}
		if n, keys := one(t, db, `SELECT count(*) FROM claims`), one(t, db, `SELECT count(*) FROM tierlock_repairs`); n != 2 || keys != 0 {
			t.Fatalf("%d claims, %d keys after a failed repair", n, keys)
		}
	})
}

// A key that cannot be remembered keeps its repair from happening, whichever of the two is
// written first: they are one transaction. With [TestFailedSQLRepairLeavesNothing] this is
// the whole promise, since a crash is no more than one of the two missing.
func TestSQLRepairThatCannotBeRememberedHasNoEffect(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, b database) {
		db, hook := claims(t, b)
		do(t, db, `INSERT INTO claims VALUES (1, 'u1', 'a'), (2, 'u1', 'b')`, `DROP TABLE tierlock_repairs`)
		if got, err := hook.Repair.Repair(t.Context(), caseFor("u1")); err == nil {
			t.Fatalf("repaired (%s) without a key", got)
		}
		if n := one(t, db, `SELECT count(*) FROM claims`); n != 2 {
			t.Fatalf("%d claims are left of 2: the effect was written outside the key's transaction", n)
		}
		if err := CreateRepairs(t.Context(), db, b.d); err != nil {
			t.Fatal(err)
		}
		if got, err := hook.Repair.Repair(t.Context(), caseFor("u1")); err != nil || got != ResultApplied {
			t.Fatalf("repair %s, %v once the key can be remembered", got, err)
		}
	})
}

// counter is a business whose repair would show every time it is applied: its check always
// finds something wrong, so only the remembered key keeps a repair from happening twice.
func counter(tb testing.TB, db *sql.DB, d Dialect) Hook {
	tb.Helper()
	hook, err := NewSQLHook(SQLHookConfig{
		DB: db, Dialect: d, Check: `SELECT 1`, Repair: []string{`UPDATE counters SET n = n + 1 WHERE id = {id}`},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return hook
}

func makeCounters(tb testing.TB, b database, n int) *sql.DB {
	tb.Helper()
	db := b.open(tb)
	do(tb, db, `CREATE TABLE counters (id TEXT PRIMARY KEY, n INTEGER NOT NULL)`)
	if err := CreateRepairs(tb.Context(), db, b.d); err != nil {
		tb.Fatal(err)
	}
	for i := range n {
		do(tb, db, fmt.Sprintf(`INSERT INTO counters VALUES ('%d', 0)`, i))
	}
	return db
}

func TestSQLRepairIsAppliedOnceByManyAtOnce(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, b database) {
		db := makeCounters(t, b, 5)
		hook := counter(t, db, b.d)
		applied := make([]int, 5)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for id := range 5 {
					got, err := hook.Repair.Repair(t.Context(), caseFor(strconv.Itoa(id)))
					if err != nil {
						t.Error(err)
					}
					if got == ResultApplied {
						mu.Lock()
						applied[id]++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		for id, n := range applied {
			if n != 1 {
				t.Errorf("case %d was applied %d times", id, n)
			}
		}
		if n := one(t, db, `SELECT count(*) FROM counters WHERE n <> 1`); n != 0 {
			t.Errorf("%d counters do not stand at 1", n)
		}
	})
}

// A process that repairs is killed by SIGKILL again and again, at whatever point it is:
// in the end every repair has happened once.
func TestSQLRepairIsAppliedOnceOverKills(t *testing.T) {
	const cases = 300
	onEachDatabase(t, func(t *testing.T, b database) {
		db := makeCounters(t, b, cases)
		kills, finished := 0, false
		for life := 0; !finished; life++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestRepairingChild$")
			cmd.Env = append(os.Environ(), "REPAIRING_CHILD="+b.driver+" "+strconv.Itoa(cases)+" "+b.dsn)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for seen := 0; lines.Scan(); seen++ {
				finished = finished || strings.Contains(lines.Text(), "finished")
				if seen == 5+life*7%40 && life < 25 { // between any two of its steps
					_ = cmd.Process.Kill()
					kills++
				}
			}
			err = cmd.Wait()
			cancel()
			if finished && err != nil && kills == 0 {
				t.Fatal(err)
			}
			if life > 60 {
				t.Fatal("the child gets nowhere")
			}
		}
		if kills < 5 {
			t.Fatalf("%d kills only", kills)
		}
		if n := one(t, db, `SELECT count(*) FROM counters WHERE n <> 1`); n != 0 {
			t.Errorf("%d of %d repairs did not happen exactly once over %d kills", n, cases, kills)
		}
	})
}

// TestRepairingChild is the process that is killed; by itself it is nothing.
func TestRepairingChild(t *testing.T) {
	task, wanted := os.LookupEnv("REPAIRING_CHILD")
	if !wanted {
		return
	}
	parts := strings.SplitN(task, " ", 3)
	b := database{SQLite, parts[0], parts[2]}
	if b.driver == "pgx" {
		b.d = Postgres
	}
	n, _ := strconv.Atoi(parts[1])
	hook := counter(t, b.open(t), b.d)
	for id := range n {
		fmt.Fprintln(os.Stdout, "next", id)
		if _, err := hook.Repair.Repair(t.Context(), caseFor(strconv.Itoa(id))); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprintln(os.Stdout, "finished")
}

func TestFindingsTable(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, b database) {
		table, err := SQLFindings(b.open(t), b.d)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := table.Create(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		hold := func(h string, from, to int) Interval { return at(t, h, tierlock.Bypass, "p"+h, from, to) }
		old := Overlaps(Rule{}, []Interval{hold("b", 50, 150), hold("c", 60, 160)})[0]
		old.Revision = 10
		grown := Overlaps(Rule{}, []Interval{hold("a", 0, 100), hold("b", 50, 150), hold("c", 60, 160)})[0]
		grown.Revision = 20
		put := func(f Finding) {
			t.Helper()
			if err := table.Put(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		stored := func(id string) Finding {
			t.Helper()
			all, err := table.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range all {
				if f.ID == id {
					return f
				}
			}
			t.Fatalf("%s is not among %d findings", id, len(all))
			return Finding{}
		}
		put(old)
		repaired := old
		repaired.State = StateRepaired
		put(repaired)
		put(old) // a replay does not open it again
		if got := stored(old.ID); got.State != StateRepaired || len(got.Members) != 2 || !got.Certain {
			t.Fatalf("stored %+v", got)
		}
		ignorant := old
		ignorant.Digest, ignorant.Revision, ignorant.Pairs = "less", 5, 99
		put(ignorant) // judged knowing less
		if got := stored(old.ID); got.Pairs == 99 {
			t.Fatal("a finding that knew less took the place of one that knew more")
		}
		if got, err := table.Standing(t.Context(), old.Key); err != nil || len(got) != 1 || got[0].ID != old.ID {
			t.Fatalf("standing %+v, %v", got, err)
		}
		if got, err := table.Standing(t.Context(), key(t, "biz:coupon:lock:other")); err != nil || len(got) != 0 {
			t.Fatalf("standing of another key %+v, %v", got, err)
		}
		put(grown)
		if got, err := table.Standing(t.Context(), old.Key); err != nil || len(got) != 1 || got[0].ID != grown.ID {
			t.Fatalf("standing %+v, %v; want the grown one only", got, err)
		}
		if got := stored(old.ID); got.State != StateSuperseded {
			t.Fatalf("the old finding is %s", got.State)
		}
		if got := stored(grown.ID); got.State != StateOpen || len(got.Members) != 3 || got.Members[0].Holder != "a" {
			t.Fatalf("stored %+v", got)
		}
	})
}

func TestSQLConfigFaults(t *testing.T) {
	_, err := NewSQLHook(SQLHookConfig{Check: "SELECT {who}", Repair: []string{"DELETE {id"}})
	for _, want := range []string{"invalid db", "invalid dialect", "{who}", "{id"} {
		if err == nil || !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell of %s", err, want)
		}
	}
	if _, err := SQLFindings(nil, SQLite); !errors.Is(err, tierlock.ErrInvalid) {
		t.Errorf("no database: %v", err)
	}
}

func TestExpand(t *testing.T) {
	for text, want := range map[string]string{
		`SELECT {id}, {type}, {id}`:          `SELECT $1, $2, $3`,
		`SELECT '{id}' || {id}`:              `SELECT '{id}' || $1`,
		"SELECT 1 -- {id}\n WHERE a = {key}": "SELECT 1 -- {id}\n WHERE a = $1",
		`SELECT /* { */ "{" FROM t`:          `SELECT /* { */ "{" FROM t`,
	} {
		got, args, err := expand(text, Postgres, func(w string) any { return w })
		if err != nil || got != want || len(args) != strings.Count(want, "$") {
			t.Errorf("expand(%q) = %q, %v, %v; want %q", text, got, args, err, want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add(`SELECT {id} FROM "a{b" WHERE c = '{' -- {`)
	f.Fuzz(func(t *testing.T, text string) {
		c := caseFor("id-that-must-not-appear")
		query, args, err := expand(text, SQLite, c.value)
		if err == nil && strings.Contains(query, "id-that-must-not-appear") && !strings.Contains(text, "id-that-must-not-appear") {
			t.Fatalf("%q holds a value of %v", query, args)
		}
	})
}

// The job's user may be one who is allowed to read and write rows and nothing else.
func TestTablesOfSomebodyElseAreTaken(t *testing.T) {
	b := database{Postgres, "pgx", servers.Postgres(t).DSN()}
	db := b.open(t)
	db.SetMaxOpenConns(1) // SET ROLE is of a connection
	table, err := SQLFindings(db, Postgres)
	if err != nil {
		t.Fatal(err)
	}
	do(t, db, `CREATE ROLE rows_only`)
	t.Cleanup(func() {
		ctx := context.Background()
		_, err1 := db.ExecContext(ctx, `RESET ROLE`)
		_, err2 := db.ExecContext(ctx, `DROP OWNED BY rows_only`)
		_, err3 := db.ExecContext(ctx, `DROP ROLE rows_only`)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Error(err)
		}
	})
	schema := ""
	if err := db.QueryRowContext(t.Context(), `SELECT current_schema()`).Scan(&schema); err != nil {
		t.Fatal(err)
	}
	do(t, db, `REVOKE CREATE ON SCHEMA `+schema+` FROM PUBLIC`, `GRANT USAGE ON SCHEMA `+schema+` TO rows_only`, `SET ROLE rows_only`)
	if err := table.Create(t.Context()); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Fatalf("nothing is there, and it may make nothing: %v", err)
	}
	do(t, db, `RESET ROLE`)
	if err := table.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	do(t, db, `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA `+schema+` TO rows_only`, `SET ROLE rows_only`)
	if err := table.Create(t.Context()); err != nil {
		t.Errorf("all is there: %v", err)
	}
}
