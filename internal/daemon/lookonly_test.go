package daemon

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
	"github.com/tierlock/tierlock/reconcile/incident"
)

// TestLookingWritesNothing: who looks at a period, or at what is stored, needs no right but to
// read. Before the job's first run nothing is stored, which is said in words.
func TestLookingWritesNothing(t *testing.T) {
	servers.Need(t, "PostgreSQL")
	s := newShop(t)
	dsn, more := os.Getenv("TIERLOCK_DSN"), "?"
	if strings.Contains(dsn, "?") {
		more = "&"
	}
	t.Setenv("TIERLOCK_DSN", dsn+more+"default_transaction_read_only=on")
	redis, broker := inProcess(t)
	p := newPast(t).tell()
	file := p.file(redis, broker, "  database: {driver: postgres, dsn_env: TIERLOCK_DSN}\n")
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	p.send(c)

	look := func(where string) {
		t.Helper()
		r := reported(t, ExitOpen, "-c", file, "--incident", p.incident(), "--by", "kim")
		if len(r.Conflicts) != pairs+1 || r.Conflicts[0].Where != where {
			t.Errorf("%d conflicts, the first %s", len(r.Conflicts), r.Conflicts[0].Where)
		}
		code, out, _ := command(t, whyIn(t), "-c", file, "--biz", "coupon:u3", "--at", p.at(6*time.Minute+3150*time.Millisecond).Format(time.RFC3339Nano))
		if code != ExitOK || !strings.Contains(out, "bypass") {
			t.Errorf("why: code %d\n%s", code, out)
		}
	}
	commands := map[string]func(Process, []string) int{
		"--report": func(p Process, args []string) int { return p.Reconcile(t.Context(), append(args, "--report")) },
		"repairs":  func(p Process, args []string) int { return p.Repairs(t.Context(), append(args, "ls")) },
	}
	look(incident.Found)
	for name, run := range commands {
		code, _, text := command(t, run, "-c", file)
		if code != ExitError || !strings.HasPrefix(text, "tierlock: reconcile: its tables are not there: run tierlock reconcile once") || strings.Count(text, "reconcile: ") != 1 {
			t.Errorf("%s: code %d: %s", name, code, text)
		}
	}
	if err := reconcile.CreateRepairs(t.Context(), s.db, reconcile.Postgres); err != nil {
		t.Fatal(err)
	}
	look(incident.Found)
	for name, run := range commands {
		if code, _, text := command(t, run, "-c", file); code != ExitOK {
			t.Errorf("%s: code %d: %s", name, code, text)
		}
	}
}
