package reconcile

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
)

// topic takes messages; the next so many answers are lost after a message is in.
type topic struct {
	mu   sync.Mutex
	got  []Message
	lost int
}

func (p *topic) Publish(_ context.Context, m Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, m)
	if p.lost > 0 {
		p.lost--
		return errors.New("no answer")
	}
	return nil
}

// wantSame tells that n messages were sent and that all are the first one.
func (p *topic) wantSame(tb testing.TB, n int) Message {
	tb.Helper()
	if len(p.got) != n {
		tb.Fatalf("%d messages, want %d", len(p.got), n)
	}
	for _, m := range p.got {
		if a, b := fmt.Sprintf("%+v", m), fmt.Sprintf("%+v", p.got[0]); a != b {
			tb.Errorf("a repeat is another message:\n%s\n%s", a, b)
		}
	}
	return p.got[0]
}

// orders is a business whose consumers make right what is wrong once they get the message.
func orders(tb testing.TB, b database, to *topic, message string) (*sql.DB, Hook) {
	tb.Helper()
	db := b.open(tb)
	do(tb, db, `CREATE TABLE orders (id TEXT PRIMARY KEY, paid INTEGER NOT NULL, body TEXT)`)
	if err := CreateRepairs(tb.Context(), db, b.d); err != nil {
		tb.Fatal(err)
	}
	check, err := NewSQLHook(SQLHookConfig{DB: db, Dialect: b.d, Check: `SELECT paid - 1 FROM orders WHERE id = {id}`})
	if err != nil {
		tb.Fatal(err)
	}
	hook, err := NewPublishHook(PublishHookConfig{Publisher: to, Check: check.Check, Action: "refund", DB: db, Dialect: b.d, Message: message})
	if err != nil {
		tb.Fatal(err)
	}
	return db, hook
}

func orderCase(tb testing.TB, id string) Case {
	c := caseFor(id)
	c.Action, c.Loser.Key = "refund", key(tb, "biz:order:lock:"+id)
	return c
}

// The message is written down before it is sent: an answer that is lost, and data that has
// changed since, make the same message go out again. Once it is known to be out, no more.
func TestARepeatIsTheSameMessage(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, b database) {
		to := &topic{lost: 2}
		db, hook := orders(t, b, to, `SELECT body FROM orders WHERE id = {id}`)
		do(t, db, `INSERT INTO orders VALUES ('1', 2, 'two payments'), ('2', 1, 'fine')`)
		c, again := orderCase(t, "1"), orderCase(t, "1")
		again.Finding.ID, again.Grant = "regrouped", tierlock.Grant{Token: 9}
		repair := func(c Case, want Result) {
			t.Helper()
			got, err := hook.Repair.Repair(t.Context(), c)
			if got != want || (err != nil) != (want == ResultFailed) {
				t.Fatalf("%s, %v; want %s", got, err, want)
			}
		}
		repair(c, ResultFailed)
		do(t, db, `UPDATE orders SET body = 'three payments', paid = 3 WHERE id = '1'`)
		repair(again, ResultFailed)
		repair(again, ResultApplied)
		repair(c, ResultAlready)
		repair(orderCase(t, "2"), ResultClean)
		m := to.wantSame(t, 3)
		if string(m.Value) != "two payments" || m.Key != "1" || m.IdempotencyKey != c.ID || m.Action != "refund" {
			t.Errorf("message %+v", m)
		}
		memory := hook.Repair.(Rememberer)
		if yes, err := memory.Applied(t.Context(), c); !yes || err != nil {
			t.Errorf("applied %t, %v", yes, err)
		}
		if yes, err := memory.Applied(t.Context(), orderCase(t, "2")); yes || err != nil {
			t.Errorf("applied %t, %v, of what was clean", yes, err)
		}
	})
}

// Without a database nothing is remembered, and the message is still the same: nothing in it
// depends on how holds are grouped or on the repair's own lock.
func TestAMessageWithoutAMemoryIsTheSameToo(t *testing.T) {
	to, wrong := new(topic), int64(1)
	hook, err := NewPublishHook(PublishHookConfig{Publisher: to, Check: CheckFunc(func(context.Context, Case) (int64, error) { return wrong, nil })})
	if err != nil {
		t.Fatal(err)
	}
	if _, remembers := hook.Repair.(Rememberer); remembers {
		t.Error("it claims to remember")
	}
	c := orderCase(t, "1")
	for range 2 {
		if got, err := hook.Repair.Repair(t.Context(), c); got != ResultApplied || err != nil {
			t.Fatalf("%s, %v", got, err)
		}
		c.Finding.ID, c.Grant = "regrouped", tierlock.Grant{Token: 9}
	}
	var said Republished
	if err := json.Unmarshal(to.wantSame(t, 2).Value, &said); err != nil || said.Repair != c.ID || said.ID != "1" || said.Key != "biz:order:lock:1" {
		t.Errorf("%+v, %v", said, err)
	}
	c.Most, wrong = 4, 5
	if got, err := hook.Repair.Repair(t.Context(), c); !errors.Is(err, ErrMore) {
		t.Errorf("%s, %v with more wrong than allowed", got, err)
	}
	wrong = 0
	if got, err := hook.Repair.Repair(t.Context(), c); got != ResultClean || err != nil || len(to.got) != 2 {
		t.Errorf("%s, %v, %d messages", got, err, len(to.got))
	}
}

func TestPublishHookFaults(t *testing.T) {
	_, err := NewPublishHook(PublishHookConfig{Message: "SELECT {who}"})
	for _, want := range []string{"invalid publisher", "invalid check", "invalid message", "{who}"} {
		if err == nil || !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell of %s", err, want)
		}
	}
}

// A repair in SQL that finds more wrong than was allowed, in its own transaction, does nothing.
func TestSQLRepairKeepsToTheAmount(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, b database) {
		db, hook := claims(t, b)
		do(t, db, `INSERT INTO claims VALUES (1, 'u1', 'a'), (2, 'u1', 'b'), (3, 'u1', 'c')`)
		c := caseFor("u1")
		c.Most = 1
		if got, err := hook.Repair.Repair(t.Context(), c); !errors.Is(err, ErrMore) {
			t.Fatalf("%s, %v with 2 wrong where 1 is allowed", got, err)
		}
		if n, keys := one(t, db, `SELECT count(*) FROM claims`), one(t, db, `SELECT count(*) FROM tierlock_repairs`); n != 3 || keys != 0 {
			t.Fatalf("%d claims, %d keys", n, keys)
		}
		c.Most = 2
		if got, err := hook.Repair.Repair(t.Context(), c); got != ResultApplied || err != nil {
			t.Fatalf("%s, %v", got, err)
		}
	})
}

// A message that was written down and did not go out is still to be sent, also where people
// have said yes to it: that it is written down is not that it was done.
func TestAnApprovedMessageThatFailedIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, db := &topic{lost: 1}, openSQLite(t)
		var wrong int64 = 1
		a := newAsking(t, Consent{Apply: ApplyApprove}, func(c *Config) {
			if err := CreateRepairs(t.Context(), db, SQLite); err != nil {
				t.Fatal(err)
			}
			hook, err := NewPublishHook(PublishHookConfig{
				Publisher: to, Check: CheckFunc(func(context.Context, Case) (int64, error) { return wrong, nil }), DB: db, Dialect: SQLite,
			})
			if err != nil {
				t.Fatal(err)
			}
			hook.Consent = c.Hooks["coupon"].Consent
			c.Hooks["coupon"] = hook
		})
		conflict(t, a.p, a.q)
		pass(time.Minute, sharedTiers, a.p, a.q)
		a.approve(t, a.only(t).Case.ID, "anna")
		pass(time.Minute, sharedTiers, a.p, a.q)
		to.wantSame(t, 2)
		if f := a.wantFinding(t, StateRepaired, ResultApplied); !slices.Equal(f.Repairs[0].By, []string{"anna"}) {
			t.Errorf("repair %+v", f.Repairs[0])
		}
	})
}
