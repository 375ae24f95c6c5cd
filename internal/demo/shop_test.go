//go:build !nodemo

package demo

import (
	"testing"

	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/demo/sqlite"
	"github.com/tierlock/tierlock/reconcile"
)

func openTestShop(t *testing.T) *shop {
	t.Helper()
	db, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s, err := openShop(t.Context(), db, guard.SQLite, reconcile.SQLite)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shop) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := s.db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

func TestTheAccountantSeesWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		statements []string
		want       BusinessReport
	}{
		"all in order":            {nil, BusinessReport{}},
		"a claim too many":        {[]string{`INSERT INTO claims VALUES ('2','u1','c1','coupon','',0)`}, BusinessReport{OverLimitAfter: 1}},
		"a claim withdrawn":       {[]string{`INSERT INTO claims VALUES ('2','u1','c1','coupon','',1)`}, BusinessReport{}},
		"another coupon":          {[]string{`INSERT INTO claims VALUES ('2','u1','c2','coupon','',0)`}, BusinessReport{}},
		"sold but not ordered":    {[]string{`UPDATE stock SET pieces = pieces - 2`}, BusinessReport{DuplicateOrders: 2}},
		"ordered but not sold":    {[]string{`INSERT INTO orders VALUES ('2', 'apple')`}, BusinessReport{DuplicateOrders: 1}},
		"more sold than there is": {[]string{`UPDATE stock SET pieces = -1`}, BusinessReport{StockNegative: 1, DuplicateOrders: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			s := openTestShop(t)
			for range 2 { // offering twice changes nothing
				if err := s.offer(t.Context(), "apple", 10); err != nil {
					t.Fatal(err)
				}
			}
			s.exec(t, `UPDATE stock SET pieces = pieces - 1`)
			s.exec(t, `INSERT INTO orders VALUES ('1', 'apple')`)
			s.exec(t, `INSERT INTO claims VALUES ('1','u1','c1','coupon','',0)`)
			for _, statement := range c.statements {
				s.exec(t, statement)
			}
			var got BusinessReport
			if err := s.audit(t.Context(), &got); err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Fatalf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestBothHooksWithdrawAllClaimsButTheFirst(t *testing.T) {
	for _, kind := range []string{"coupon", gift} {
		t.Run(kind, func(t *testing.T) {
			s := openTestShop(t)
			for _, id := range []string{"a", "b", "c"} {
				s.exec(t, `INSERT INTO claims VALUES ($1,'u1','c1',$2,'',0)`, id, kind)
			}
			s.exec(t, `INSERT INTO claims VALUES ('x','u2','c1',$1,'',0)`, kind)
			hooks, err := s.hooks(reconcile.SQLite)
			if err != nil {
				t.Fatal(err)
			}
			hook, c := hooks[kind], reconcile.Case{ID: "repair-1", Business: audit.Business{Type: kind, ID: "u1-c1"}}
			if wrong, err := hook.Check.Check(t.Context(), c); err != nil || wrong != 2 {
				t.Fatalf("check: %d, %v; want 2", wrong, err)
			}
			if got, err := hook.Repair.Repair(t.Context(), c); err != nil || got != reconcile.ResultApplied {
				t.Fatalf("repair: %s, %v", got, err)
			}
			c.ID = "repair-2" // the group's other loser
			if got, err := hook.Repair.Repair(t.Context(), c); err != nil || got != reconcile.ResultClean {
				t.Fatalf("second repair: %s, %v", got, err)
			}
			var left string
			if err := s.db.QueryRowContext(t.Context(), `SELECT group_concat(id, ' ') FROM (SELECT id FROM claims WHERE withdrawn = 0 ORDER BY id)`).Scan(&left); err != nil {
				t.Fatal(err)
			}
			if left != "a x" {
				t.Fatalf("claims left: %s", left)
			}
		})
	}
}
