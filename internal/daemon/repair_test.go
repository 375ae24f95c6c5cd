package daemon

import (
	"bytes"
	"context"
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/postgres"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
	"github.com/tierlock/tierlock/switchcfg"
)

// documented is the file of docs/config.md that has hooks.
func documented(t *testing.T) Config {
	t.Helper()
	t.Setenv("REDIS_PASSWORD", "unused")
	for _, text := range blocks(doc(t, "config.md"), "yaml") {
		if c, err := Parse([]byte(text)); err == nil && len(c.Reconcile.Hooks) > 0 {
			return c
		}
	}
	t.Fatal("no block of docs/config.md has hooks")
	return Config{}
}

// shop is the database of the hooks in docs/config.md.
type shop struct {
	*testing.T
	db *sql.DB
}

func newShop(t *testing.T) shop {
	t.Helper()
	dsn := servers.Postgres(t).DSN()
	t.Setenv("TIERLOCK_DSN", dsn)
	db, err := postgres.Open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := shop{t, db}
	s.do(`CREATE TABLE claims (n SERIAL PRIMARY KEY, coupon TEXT NOT NULL, holder TEXT NOT NULL, state TEXT NOT NULL)`)
	return s
}

func (s shop) do(query string, args ...any) {
	s.Helper()
	if _, err := s.db.ExecContext(s.Context(), query, args...); err != nil {
		s.Fatalf("%s: %v", query, err)
	}
}

// want looks at the two claims: the first stays, the second is in state.
func (s shop) want(second string, repairs int) {
	s.Helper()
	var got [2]string
	var keys int
	err := s.db.QueryRowContext(s.Context(), `SELECT
		(SELECT state FROM claims WHERE n = 1), (SELECT state FROM claims WHERE n = 2), (SELECT count(*) FROM tierlock_repairs)`).
		Scan(&got[0], &got[1], &keys)
	if err != nil || got != [2]string{"claimed", second} || keys != repairs {
		s.Errorf("claims %v, %d repairs, %v; want claimed and %s, %d", got, keys, err, second, repairs)
	}
}

// claimTwice lets two processes of one service, both under an order to bypass, give the
// same coupon to the same user, one inside the hold of the other: the first is embedded, the
// second is asked over HTTP. Both end, and so does the order.
func claimTwice(t *testing.T, dir, redis, kafka string, claim func(id tierlock.RequestID)) {
	t.Helper()
	orders := filepath.Join(dir, "switch.yaml")
	writeOrder(t, orders, 1, "bypass")
	var both []running
	for _, instance := range []string{"1", "2"} {
		c := config(t, filepath.Join(dir, instance), redis, kafka)
		c.Instance, c.Switch.File = instance, orders
		d := run(t, c)
		until(t, "the order is in force", func() bool { return d.gw.AppliedVersion() == 1 })
		both = append(both, d)
	}
	chain, err := both[0].gw.Chain("coupon")
	if err != nil {
		t.Fatal(err)
	}
	err = chain.Do(t.Context(), "u42-c7", func(_ context.Context, first tierlock.Grant) error {
		claim(first.RequestID)
		second := tierlock.NewRequestID()
		hold := `{"key":"biz:coupon:lock:u42-c7","request_id":"` + second.Secret() + `"`
		both[1].want("/v1/try", hold+`,"business":{"type":"coupon","id":"u42-c7","op":"claim","delta":1}}`, `200 {"outcome":"success","tier":"bypass"`)
		claim(second)
		both[1].want("/v1/unlock", hold+`}`, `200 {"outcome":"success"}`)
		return nil
	}, gateway.About(audit.Business{Type: "coupon", ID: "u42-c7", Op: "claim", Delta: 1}))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range both {
		if err := d.stop(); err != nil {
			t.Fatal(err)
		}
	}
	if err := switchcfg.WriteFile(orders, switchcfg.Document{Version: 2, Chains: map[string]switchcfg.Directive{}}); err != nil {
		t.Fatal(err)
	}
}

// claimTwice is the same with a row of the shop for each claim.
func (s shop) claimTwice(dir, redis, kafka string) {
	s.Helper()
	claimTwice(s.T, dir, redis, kafka, func(id tierlock.RequestID) {
		s.do(`INSERT INTO claims (coupon, holder, state) VALUES ('u42-c7', $1, 'claimed')`, id.Fingerprint())
	})
}

// TestTheHooksOfTheFileRepair runs the SQL of docs/config.md on a real PostgreSQL: a dry
// run leaves everything as it is, the same file with --apply then gives the second claim
// back, and whoever reads the same events again repairs nothing twice.
func TestTheHooksOfTheFileRepair(t *testing.T) {
	servers.Need(t, "PostgreSQL")
	s := newShop(t)
	redis, kafka := inProcess(t)
	dir := t.TempDir()
	s.claimTwice(dir, redis, kafka)

	c := config(t, dir, redis, kafka)
	file := documented(t)
	c.Reconcile.Database, c.Reconcile.Hooks = file.Reconcile.Database, file.Reconcile.Hooks
	for _, step := range []struct {
		group   string // of the file
		apply   bool
		want    reconcile.Result
		second  string
		repairs int
	}{
		{"", false, reconcile.ResultWould, "claimed", 0},
		{"", true, reconcile.ResultApplied, "given_back", 1},
		{"another", true, reconcile.ResultAlready, "given_back", 1},
	} {
		c.Reconcile.Group = step.group
		report, log := reconciled(t, c, step.apply)
		if len(report.Repairs) != 1 || report.Repairs[step.want] != 1 {
			t.Errorf("apply %t: repairs %v, want one %s\n%s", step.apply, report.Repairs, step.want, log)
		}
		s.want(step.second, step.repairs)
	}

	var out bytes.Buffer
	p := Process{Stdout: &out, Stderr: &out}
	if code := p.listFindings(t.Context(), c, "text"); code != ExitOK || !strings.Contains(out.String(), " repaired   biz:coupon:lock:u42-c7") {
		t.Errorf("code %d, the stored finding is not told to be repaired:\n%s", code, &out)
	}
}

func TestAWrongDSNIsToldAtOnceAndNotShown(t *testing.T) {
	const dsn = "postgres://shop:s3cret@db:notaport/shop"
	t.Setenv("TIERLOCK_DSN", dsn)
	file := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(file, []byte(dsn+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	redis, kafka := inProcess(t)
	for field, d := range map[string]DatabaseConfig{
		"reconcile.database.dsn_env":  {Driver: "postgres", DSNEnv: "TIERLOCK_DSN"},
		"reconcile.database.dsn_file": {Driver: "postgres", DSNFile: file},
	} {
		c := config(t, t.TempDir(), redis, kafka)
		c.Reconcile.Database = &d
		_, err := OpenReconciler(c, "v0", slog.New(slog.DiscardHandler), false, true)
		if faults := tierlock.Invalids(err); len(faults) != 1 || faults[0].Field != field || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "shop") {
			t.Errorf("%s: %v", field, err)
		}
	}
}
