package reconcile

import (
	"testing"
	"time"
)

// What waits for people is what nobody has decided, and what was decided and does not count
// any more.
func TestPendingApprovalsAreCounted(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, b database) {
		table := approvalsOn(t, b.open(t), b.d)
		ctx, now := t.Context(), time.Now()
		want := func(n int, at time.Time, when string) {
			t.Helper()
			if got, err := table.Pending(ctx, at); err != nil || got != n {
				t.Errorf("%s: %d pending, %v; want %d", when, got, err, n)
			}
		}
		want(0, now, "before anything is asked")
		for i, id := range []string{"1", "2", "3", "4"} {
			c := caseFor(id)
			c.Loser.Key = key(t, "biz:coupon:lock:u"+id)
			if _, err := table.Ask(ctx, Request{Case: c, Amount: 1, Approvers: 1 + i%2, Valid: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		want(4, now, "asked")
		for _, id := range []string{"1", "2"} { // enough for 1, and one of two for 2
			if _, err := table.Approve(ctx, caseFor(id).ID, "anna", 0); err != nil {
				t.Fatal(err)
			}
		}
		want(3, now, "one yes each")
		if _, err := table.Reject(ctx, caseFor("3").ID, "bert", "no"); err != nil {
			t.Fatal(err)
		}
		want(2, now, "and a no")
		want(3, now.Add(2*time.Hour), "when the yes has expired")
		if err := table.Settle(ctx, caseFor("4").ID, ResultClean); err != nil {
			t.Fatal(err)
		}
		want(1, now, "and one is settled")
	})
}
