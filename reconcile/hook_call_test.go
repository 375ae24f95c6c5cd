package reconcile

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/servers"
)

// A Go hook that hangs and does not heed its ctx costs its own cases their tries, and
// nobody else anything: the job reads on and works on other types.
func TestHookThatHangsStopsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, calls := make(chan struct{}), 0
		defer close(release)
		l := runLive(t, func(c *Config) {
			c.Caps.Tries = 2
			c.Hooks = map[string]Hook{
				"coupon": {Check: CheckFunc(func(context.Context, Case) (int64, error) { calls++; <-release; return 0, nil })},
				"stock":  {Check: CheckFunc(func(context.Context, Case) (int64, error) { return 1, nil })},
			}
		})
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, nil, p, q)
		conflict(t, p, q)
		pass(20*time.Second, nil, p, q)
		a, b := nowHold(t, "c", tierlock.Bypass, time.Second), nowHold(t, "d", tierlock.Bypass, time.Second)
		for from, iv := range map[*producer]*Interval{p: &a, q: &b} {
			iv.Key, iv.Business = key(t, "biz:stock:lock:a"), audit.Business{Type: "stock", ID: "sku"}
			from.write(acquireOf(iv))
			from.write(endOf(iv))
		}
		pass(5*time.Minute, nil, p, q)
		states := map[string]Finding{}
		for _, f := range l.store.standing(KindOverlap) {
			states[f.Members[0].Business.Type] = f
		}
		if states["stock"].State != StateDryRun {
			t.Errorf("the other type's finding is %q while one hook hangs", states["stock"].State)
		}
		hung := states["coupon"]
		if hung.State != StateFailed || !strings.Contains(hung.Repairs[0].Error, ErrHookTimeout.Error()) {
			t.Errorf("the hung hook's finding is %q: %+v", hung.State, hung.Repairs)
		}
		if n := l.job.Stats().HookTimeouts; calls != 1 || n != 2 {
			t.Errorf("%d calls of the hung hook at once, %d timeouts", calls, n)
		}
	})
}

// A check that waits for a locked row is given up in time, as a failed try; its database
// works for nobody any more by then. When the row is free, the next run repairs.
func TestSQLHookOnALockedRow(t *testing.T) {
	for _, where := range []string{"check", "repair"} {
		t.Run(where, func(t *testing.T) {
			b := database{Postgres, "pgx", servers.Postgres(t).DSN()}
			db, _ := claims(t, b)
			if err := CreateRepairs(t.Context(), db, b.d); err != nil {
				t.Fatal(err)
			}
			do(t, db, `CREATE TABLE locked (id TEXT PRIMARY KEY, wrong BIGINT NOT NULL)`, `INSERT INTO locked VALUES ('u1-c1', 1)`)
			check := `SELECT wrong FROM locked WHERE id = {id}`
			if where == "check" {
				check += ` FOR UPDATE`
			}
			hook, err := NewSQLHook(SQLHookConfig{DB: db, Dialect: b.d, Check: check, Repair: []string{`UPDATE locked SET wrong = 0 WHERE id = {id}`}})
			if err != nil {
				t.Fatal(err)
			}
			s := newStream(1)
			for _, name := range []string{"p", "q"} {
				p, iv := s.producer(name), nowHold(t, name, tierlock.Bypass, time.Second)
				p.write(acquireOf(&iv))
				p.write(endOf(&iv))
				p.seal(iv.EndedAt)
			}
			run := func() (Finding, Stats) {
				st := newStore()
				j := mustJob(t, Config{
					Source: s.join(), Findings: []Findings{st}, Hooks: map[string]Hook{"coupon": hook}, Apply: true, Quiet: 50 * time.Millisecond,
					Locker: lockerFunc(func(ctx context.Context, key tierlock.Key, fn func(context.Context, tierlock.Grant) error) error {
						return fn(ctx, tierlock.Grant{Key: key, Tier: tierlock.Shared, Token: 1})
					}),
					HookTimeout: 300 * time.Millisecond, Caps: Caps{Tries: 1},
				})
				s.mu.Lock()
				s.marks[0] = Mark{}
				s.mu.Unlock()
				j.cfg.Source = s.join()
				if err := j.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				return st.standing(KindOverlap)[0], j.Stats()
			}
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(t.Context(), `UPDATE locked SET wrong = wrong`); err != nil {
				t.Fatal(err)
			}
			f, stats := run()
			if f.State != StateFailed || stats.HookTimeouts != 1 || !strings.Contains(f.Repairs[0].Error, ErrHookTimeout.Error()) {
				t.Errorf("with the row locked: %s, %d timeouts, %+v", f.State, stats.HookTimeouts, f.Repairs)
			}
			waiting := `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`
			for end := time.Now().Add(20 * time.Second); one(t, db, waiting) > 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the database still waits for the row")
				}
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if f, stats = run(); f.State != StateRepaired || stats.HookTimeouts != 0 || one(t, db, `SELECT wrong FROM locked`) != 0 {
				t.Errorf("with the row free: %s, %+v", f.State, f.Repairs)
			}
		})
	}
}
