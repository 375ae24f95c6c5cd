package reconcile

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

// TestApprovalsOnMariaDB: people's answers and a message that repairs, whatever the driver
// counts as changed.
func TestApprovalsOnMariaDB(t *testing.T) {
	dsn := servers.MariaDB(t).DSN()
	for name, d := range map[string]string{"rows changed": dsn, "rows found": dsn + "?clientFoundRows=true"} {
		t.Run(name, func(t *testing.T) {
			approvals(t, openDB(t, d))
		})
	}
}

func approvals(t *testing.T, db *sql.DB) {
	t.Helper()
	if err := reconcile.CreateRepairs(t.Context(), db, reconcile.MySQL); err != nil {
		t.Fatal(err)
	}
	do(t, db, `DELETE FROM tierlock_approvals`)
	do(t, db, `DELETE FROM tierlock_messages`)
	decide(t, db)
	send(t, db)
}

func theCase(t *testing.T) reconcile.Case {
	loser := hold(t, "b", 50)
	return reconcile.Case{ID: "the-repair", Action: "give_back", Finding: reconcile.Finding{ID: "f"}, Loser: loser, Business: loser.Business}
}

func decide(t *testing.T, db *sql.DB) {
	table, err := reconcile.SQLApprovals(db, reconcile.MySQL)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	request := reconcile.Request{Case: theCase(t), Partition: 3, Amount: 10, Approvers: 2, AskedBy: "olga", Valid: time.Hour}
	for range 2 {
		if a, err := table.Ask(ctx, request); err != nil || a.Round != 1 {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if _, err := table.Approve(ctx, "the-repair", "olga", 0); !errors.Is(err, reconcile.ErrOwnRequest) {
		t.Errorf("olga: %v", err)
	}
	errs := make(chan error, 8)
	for i := range 8 {
		go func() {
			_, err := table.Approve(ctx, "the-repair", []string{"anna", "bert"}[i%2], 10)
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	decided, err := table.Decided(ctx, time.Now(), 10)
	if err != nil || len(decided) != 1 || len(decided[0].Votes) != 2 || decided[0].Votes[0].By == decided[0].Votes[1].By || decided[0].Case.Loser.Holder != "b" {
		t.Fatalf("%+v, %v", decided, err)
	}
	request.Amount = 11
	if a, err := table.Ask(ctx, request); err != nil || a.Round != 2 || len(a.Votes) != 0 {
		t.Fatalf("%+v, %v", a, err)
	}
	if _, err := table.Reject(ctx, "the-repair", "carl", "no"); err != nil {
		t.Fatal(err)
	}
	if err := table.Settle(ctx, "the-repair", reconcile.ResultRejected); err != nil {
		t.Fatal(err)
	}
	if a, err := table.Ask(ctx, request); err != nil || a.Status(time.Now()) != reconcile.StatusRejected || a.Round != 2 {
		t.Errorf("asked again after a no: %+v, %v", a, err)
	}
}

// topic keeps what is sent; its first answer is lost.
type topic struct{ got []string }

func (p *topic) Publish(_ context.Context, m reconcile.Message) error {
	p.got = append(p.got, m.Key+" "+string(m.Value)+" "+m.IdempotencyKey)
	if len(p.got) == 1 {
		return errors.New("no answer")
	}
	return nil
}

func send(t *testing.T, db *sql.DB) {
	to := new(topic)
	hook, err := reconcile.NewPublishHook(reconcile.PublishHookConfig{
		Publisher: to, DB: db, Dialect: reconcile.MySQL, Message: `SELECT concat('give back ', {id}, ' at ', now(6))`,
		Check: reconcile.CheckFunc(func(context.Context, reconcile.Case) (int64, error) { return 1, nil }),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []reconcile.Result{reconcile.ResultFailed, reconcile.ResultApplied, reconcile.ResultAlready} {
		if got, _ := hook.Repair.Repair(t.Context(), theCase(t)); got != want {
			t.Errorf("try %d: %s, want %s", i+1, got, want)
		}
	}
	if len(to.got) != 2 || to.got[0] != to.got[1] {
		t.Errorf("messages %q; want two that are the same", to.got)
	}
}
