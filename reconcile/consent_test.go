package reconcile

import (
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
)

// asking is a ledger whose repairs wait for people, who answer in a table of a real database.
type asking struct {
	*live
	led   *ledger
	lock  *locker
	table *ApprovalsTable
	p, q  *producer
}

func newAsking(t *testing.T, consent Consent, change func(*Config)) *asking {
	t.Helper()
	a := &asking{led: newLedger(), lock: &locker{tier: tierlock.Shared}, table: approvalsOn(t, openSQLite(t), SQLite)}
	a.led.claims["u1-c1"] = 2
	a.live = runLive(t, a.config(consent, change))
	a.p, a.q = a.producer("p"), a.producer("q")
	pass(time.Second, sharedTiers, a.p, a.q)
	return a
}

func (a *asking) config(consent Consent, change func(*Config)) func(*Config) {
	return applying(a.led, a.lock, func(c *Config) {
		hook := c.Hooks["coupon"]
		hook.Consent = consent
		c.Hooks["coupon"], c.Approvals, c.AskedBy = hook, a.table, "olga"
		if change != nil {
			change(c)
		}
	})
}

func openSQLite(t *testing.T) *sql.DB {
	t.Helper()
	return database{SQLite, "sqlite", "file:" + filepath.Join(t.TempDir(), "a.db") + "?_pragma=busy_timeout(10000)&_txlock=immediate"}.open(t)
}

func approvalsOn(t *testing.T, db *sql.DB, d Dialect) *ApprovalsTable {
	t.Helper()
	if err := CreateRepairs(t.Context(), db, d); err != nil {
		t.Fatal(err)
	}
	table, err := SQLApprovals(db, d)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// only is the one request that stands.
func (a *asking) only(t *testing.T) Approval {
	t.Helper()
	all, err := a.table.List(t.Context(), false, 10)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d requests stand, %v; want 1", len(all), err)
	}
	return all[0]
}

func (a *asking) approve(t *testing.T, key, by string) Approval {
	t.Helper()
	got, err := a.table.Approve(t.Context(), key, by, 0)
	if err != nil {
		t.Fatalf("approve by %s: %v", by, err)
	}
	return got
}

func (a *asking) wantRepairs(t *testing.T, n int, when string) {
	t.Helper()
	if len(a.led.repairs) != n {
		t.Fatalf("%d repairs %s, want %d", len(a.led.repairs), when, n)
	}
}

func (a *asking) wantFinding(t *testing.T, state State, result Result) Finding {
	t.Helper()
	got := a.store.standing(KindOverlap)
	if len(got) != 1 || got[0].State != state || len(got[0].Repairs) != 1 || got[0].Repairs[0].Result != result {
		t.Fatalf("findings %+v, want one that is %s with a repair that is %s", got, state, result)
	}
	return got[0]
}

// Two different people are needed and who began the run is neither. What waits for them
// holds back no commit, and says for whom it waits.
func TestARepairWaitsForTwoPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t, Consent{Apply: ApplyApprove, Approvers: 2}, nil)
		conflict(t, a.p, a.q)
		pass(time.Minute, sharedTiers, a.p, a.q)
		a.wantRepairs(t, 0, "before anybody has answered")
		if f := a.wantFinding(t, StateWaiting, ResultWaiting); f.Repairs[0].Waits != "2 approvals" || f.Repairs[0].Wrong != 1 {
			t.Errorf("repair %+v", f.Repairs[0])
		}
		if m, st := a.committed(), a.job.Stats(); m.Offset < 10 || st.Waiting != 0 || st.Pending != 1 {
			t.Errorf("committed %+v, %d findings in line, %d pending: what waits for people holds them back, or is not counted", m, st.Waiting, st.Pending)
		}
		key := a.only(t).Case.ID
		if _, err := a.table.Approve(t.Context(), key, "olga", 0); !errors.Is(err, ErrOwnRequest) {
			t.Errorf("who asked has approved: %v", err)
		}
		for range 2 {
			if got := a.approve(t, key, "anna"); got.Status(time.Now()) != StatusPending || got.Waits(time.Now()) != "1 approval, beside anna" {
				t.Errorf("after one person, %+v", got)
			}
		}
		pass(time.Minute, sharedTiers, a.p, a.q)
		a.wantRepairs(t, 0, "after one person has said yes twice")
		a.approve(t, key, "bert")
		pass(10*time.Second, sharedTiers, a.p, a.q)
		a.wantRepairs(t, 1, "after two people have said yes")
		if f := a.wantFinding(t, StateRepaired, ResultApplied); !slices.Equal(f.Repairs[0].By, []string{"anna", "bert"}) || f.Repairs[0].Waits != "" {
			t.Errorf("repair %+v", f.Repairs[0])
		}
		if rounds, err := a.table.Rounds(t.Context(), key); err != nil || len(rounds) != 1 || rounds[0].Result != ResultApplied {
			t.Errorf("rounds %+v, %v", rounds, err)
		}
	})
}

// An approved repair still waits until no order lies over its chain.
func TestAnApprovedRepairWaitsForQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		order := true
		a := newAsking(t, Consent{Apply: ApplyApprove}, func(c *Config) { c.SwitchOn = func(string) bool { return order } })
		conflict(t, a.p, a.q)
		pass(time.Minute, sharedTiers, a.p, a.q)
		before := a.committed()
		a.approve(t, a.only(t).Case.ID, "anna")
		pass(time.Minute, sharedTiers, a.p, a.q)
		a.wantRepairs(t, 0, "under an order")
		if m := a.committed(); m.Offset < before.Offset+20 || !m.Judged.After(before.Judged) || a.job.Stats().Waiting != 1 {
			t.Errorf("committed %+v after %+v: the table keeps it, so nothing needs to be held back", m, before)
		}
		order = false
		pass(10*time.Second, sharedTiers, a.p, a.q)
		a.wantRepairs(t, 1, "after the order")
	})
}

// A yes is for the amount that was asked for: when more is wrong, people are asked again.
func TestAYesIsForTheAmountThatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		order := true
		a := newAsking(t, Consent{Apply: ApplyApprove}, func(c *Config) { c.SwitchOn = func(string) bool { return order } })
		conflict(t, a.p, a.q)
		pass(time.Minute, sharedTiers, a.p, a.q)
		key := a.only(t).Case.ID
		a.approve(t, key, "anna")
		a.led.mu.Lock()
		a.led.claims["u1-c1"] = 8
		a.led.mu.Unlock()
		order = false
		pass(time.Minute, sharedTiers, a.p, a.q)
		a.wantRepairs(t, 0, "though more is wrong than anna has said yes to")
		second := a.only(t)
		if second.Round != 2 || second.Amount != 7 || second.Status(time.Now()) != StatusPending {
			t.Fatalf("%+v", second)
		}
		if _, err := a.table.Approve(t.Context(), key, "bert", 1); !errors.Is(err, ErrAmount) {
			t.Errorf("bert, who had seen 1, has approved 7: %v", err)
		}
		a.approve(t, key, "bert")
		pass(10*time.Second, sharedTiers, a.p, a.q)
		a.wantRepairs(t, 1, "after bert has said yes to 7")
	})
}

// A yes that nothing was done with expires.
func TestAYesExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		order := true
		a := newAsking(t, Consent{Apply: ApplyApprove, Approvers: 2, Valid: time.Hour}, func(c *Config) { c.SwitchOn = func(string) bool { return order } })
		conflict(t, a.p, a.q)
		pass(time.Minute, sharedTiers, a.p, a.q)
		key := a.only(t).Case.ID
		a.approve(t, key, "anna")
		pass(40*time.Minute, sharedTiers, a.p, a.q)
		a.approve(t, key, "bert")
		pass(30*time.Minute, sharedTiers, a.p, a.q)
		order = false
		pass(time.Minute, sharedTiers, a.p, a.q)
		a.wantRepairs(t, 0, "though anna's yes has expired")
		if got := a.approve(t, key, "carl"); got.Round != 2 || len(got.Votes) != 1 {
			t.Errorf("a yes after an expired one: %+v", got)
		}
		a.approve(t, key, "anna")
		pass(time.Minute, sharedTiers, a.p, a.q)
		a.wantRepairs(t, 1, "after both have said yes again")
	})
}

// A no stands, also over a restart that finds the case again, until more is wrong.
func TestANoStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t, Consent{Apply: ApplyApprove}, nil)
		conflict(t, a.p, a.q)
		pass(time.Minute, sharedTiers, a.p, a.q)
		key := a.only(t).Case.ID
		if _, err := a.table.Reject(t.Context(), key, "anna", "the customer keeps it"); err != nil {
			t.Fatal(err)
		}
		pass(10*time.Second, sharedTiers, a.p, a.q)
		if f := a.wantFinding(t, StateRejected, ResultRejected); f.Repairs[0].Error != "the customer keeps it" || !slices.Equal(f.Repairs[0].By, []string{"anna"}) {
			t.Errorf("repair %+v", f.Repairs[0])
		}
		if _, err := a.table.Approve(t.Context(), key, "bert", 0); !errors.Is(err, ErrDecided) {
			t.Errorf("approved after a no: %v", err)
		}
		again := newStream(1)
		again.logs, again.endless = a.logs, false
		cfg := Config{Source: again.join(), Findings: []Findings{a.store}, Idle: time.Minute}
		a.config(Consent{Apply: ApplyApprove}, nil)(&cfg)
		if err := mustJob(t, cfg).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.wantRepairs(t, 0, "after a replay")
		a.wantFinding(t, StateRejected, ResultRejected)
		if rounds, err := a.table.Rounds(t.Context(), key); err != nil || len(rounds) != 1 {
			t.Errorf("%d rounds, %v: the replay has asked again", len(rounds), err)
		}
	})
}

// Up to approve_over a repair is made by itself, above it not.
func TestSmallAmountsNeedNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t, Consent{Over: 5}, nil)
		conflict(t, a.p, a.q)
		pass(time.Minute, sharedTiers, a.p, a.q)
		a.wantRepairs(t, 1, "with 1 wrong where 5 needs nobody")
		a.led.claims["u1-c1"] = 7 // 6 are wrong
		conflict(t, a.p, a.q)
		pass(time.Minute, sharedTiers, a.p, a.q)
		a.wantRepairs(t, 1, "with 6 wrong where 5 needs nobody")
		if got := a.only(t); got.Amount != 6 {
			t.Errorf("%+v", got)
		}
	})
}

func TestNeverIsADryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t, Consent{Apply: ApplyNever}, nil)
		conflict(t, a.p, a.q)
		pass(time.Minute, sharedTiers, a.p, a.q)
		a.wantRepairs(t, 0, "of a type that is never repaired")
		a.wantFinding(t, StateDryRun, ResultWould)
	})
}

// A job that dies after a repair and before it could say so finds the approved case again,
// and that it has been done.
func TestAnApprovedRepairIsSettledByTheNextLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t, Consent{Apply: ApplyApprove}, func(c *Config) { c.SwitchOn = func(string) bool { return true } })
		conflict(t, a.p, a.q)
		pass(time.Minute, sharedTiers, a.p, a.q)
		key := a.only(t).Case.ID
		a.approve(t, key, "anna")
		a.led.claims["u1-c1"], a.led.applied[key] = 1, true // by the life that died
		pass(10*time.Second, sharedTiers, a.p, a.q)
		a.wantRepairs(t, 0, "of what had been repaired")
		if rounds, err := a.table.Rounds(t.Context(), key); err != nil || rounds[0].Result != ResultClean {
			t.Errorf("%+v, %v", rounds, err)
		}
	})
}

// The table keeps its promises on each database: it is asked and answered from several
// processes at once.
func TestApprovalsTable(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, b database) {
		db := b.open(t)
		table := approvalsOn(t, db, b.d)
		ctx := t.Context()
		request := func(amount int64) Request {
			c := caseFor("1")
			c.Loser.Key = key(t, "biz:coupon:lock:u1")
			return Request{Case: c, Partition: 3, Amount: amount, Approvers: 2, AskedBy: "olga", Valid: time.Hour}
		}
		if _, err := table.Approve(ctx, "nothing", "anna", 0); !errors.Is(err, ErrNoRequest) {
			t.Errorf("approve nothing: %v", err)
		}
		if _, err := table.Reject(ctx, "nothing", "anna", "no"); !errors.Is(err, ErrNoRequest) {
			t.Errorf("reject nothing: %v", err)
		}
		for range 2 {
			if a, err := table.Ask(ctx, request(10)); err != nil || a.Round != 1 || a.Amount != 10 {
				t.Fatalf("%+v, %v", a, err)
			}
		}
		if a, err := table.Ask(ctx, request(4)); err != nil || a.Round != 1 || a.Amount != 10 {
			t.Fatalf("less is wrong: %+v, %v", a, err)
		}
		errs := make(chan error, 16)
		for i := range 16 { // two people, each many times at once
			go func() {
				_, err := table.Approve(ctx, request(0).Case.ID, []string{"anna", "bert"}[i%2], 10)
				errs <- err
			}()
		}
		for range 16 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		decided, err := table.Decided(ctx, time.Now(), 10)
		if err != nil || len(decided) != 1 || len(decided[0].Votes) != 2 || decided[0].Votes[0].By == decided[0].Votes[1].By {
			t.Fatalf("%+v, %v", decided, err)
		}
		if c := decided[0].Case; c.ID != request(0).Case.ID || c.Loser.Key != request(0).Case.Loser.Key || c.Business.ID != "1" || c.Action != "repair" || decided[0].Partition != 3 {
			t.Errorf("case %+v", c)
		}
		if late, err := table.Decided(ctx, time.Now().Add(time.Hour), 10); err != nil || len(late) != 0 {
			t.Errorf("an hour later: %+v, %v", late, err)
		}
		if a, err := table.Ask(ctx, request(11)); err != nil || a.Round != 2 || a.Status(time.Now()) != StatusPending {
			t.Fatalf("more is wrong: %+v, %v", a, err)
		}
		if err := table.Settle(ctx, request(0).Case.ID, ResultApplied); err != nil {
			t.Fatal(err)
		}
		if open, err := table.List(ctx, false, 10); err != nil || len(open) != 0 {
			t.Errorf("open %+v, %v", open, err)
		}
		all, err := table.List(ctx, true, 10)
		if err != nil || len(all) != 2 || all[0].Result != replaced || all[1].Result != ResultApplied || len(all[0].Votes) != 2 {
			t.Errorf("history %+v, %v", all, err)
		}
	})
}

func TestNames(t *testing.T) {
	if a, err := Name("--by", " Anna "); err != nil || a != "anna" {
		t.Errorf("%q, %v", a, err)
	}
	for _, bad := range []string{"", "  ", "a\nb", string(make([]byte, 200))} {
		if _, err := Name("--by", bad); !errors.Is(err, tierlock.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
