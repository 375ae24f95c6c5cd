package reconcile

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// A repair that changes no row is told apart from one that does, wherever it is told, and may
// be made once there is something to change.
func TestASQLRepairThatChangesNothing(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, b database) {
		db, _ := claims(t, b)
		do(t, db, `INSERT INTO claims VALUES (1, 'u1', 'a'), (2, 'u1', 'somebody')`)
		hook, err := NewSQLHook(SQLHookConfig{
			DB: db, Dialect: b.d, Check: `SELECT count(*) - 1 FROM claims WHERE record = {id}`,
			Repair: []string{`DELETE FROM claims WHERE record = {id} AND holder = {holder}`},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := newStream(1)
		for _, h := range []string{"a", "b"} {
			p, iv := s.producer("p"+h), at(t, h, tierlock.Bypass, "p"+h, 0, 500)
			iv.Business = audit.Business{Type: "coupon", ID: "u1"}
			p.write(acquireOf(&iv))
			p.write(endOf(&iv))
			p.seal(base.Add(time.Minute))
		}
		table, err := SQLFindings(db, b.d)
		if err != nil {
			t.Fatal(err)
		}
		run := func(want Result, state State, repaired int) {
			t.Helper()
			s.marks[0] = Mark{}
			j := mustJob(t, Config{
				Source: s.join(), Findings: []Findings{table}, Hooks: map[string]Hook{"coupon": hook}, Apply: true, Locker: &locker{tier: tierlock.Shared},
				Caps: Caps{Total: 1}, // nothing is spent of it by what changes nothing
			})
			if err := j.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			found, err := table.List(t.Context())
			if err != nil || len(found) != 1 || len(found[0].Repairs) != 1 || found[0].Repairs[0].Result != want || found[0].State != state {
				t.Fatalf("%+v, %v", found, err)
			}
			if st := j.Stats(); st.Repaired != repaired || st.Unchanged != 1-repaired || j.Report().Repairs[want] != 1 {
				t.Errorf("%+v", j.Report())
			}
		}
		run(ResultUnchanged, StateFailed, 0)
		if n := one(t, db, `SELECT count(*) FROM tierlock_repairs`); n != 0 {
			t.Errorf("%d keys taken by a repair that was none", n)
		}
		do(t, db, `UPDATE claims SET holder = 'b' WHERE n = 2`)
		run(ResultApplied, StateRepaired, 1)
	})
}

// A procedure counts no rows and puts right what is wrong all the same.
func TestAProcedureThatRepairsIsApplied(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, b database) {
		if b.d != Postgres {
			return // which has none
		}
		db, _ := claims(t, b)
		do(t, db, `INSERT INTO claims VALUES (1, 'u1', 'a'), (2, 'u1', 'b')`,
			`CREATE PROCEDURE give_back(of TEXT) LANGUAGE SQL AS 'DELETE FROM claims WHERE record = of AND n > 1'`)
		hook, err := NewSQLHook(SQLHookConfig{
			DB: db, Dialect: b.d, Check: `SELECT count(*) - 1 FROM claims WHERE record = {id}`, Repair: []string{`CALL give_back({id})`},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []Result{ResultApplied, ResultAlready} {
			if got, err := hook.Repair.Repair(t.Context(), caseFor("u1")); err != nil || got != want {
				t.Fatalf("%s, %v; want %s", got, err, want)
			}
		}
	})
}
