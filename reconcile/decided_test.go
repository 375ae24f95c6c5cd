package reconcile

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
)

// A job that dies after a repair that people had decided on, and before its finding was
// stored, leaves the request open: the next life finds it and says what became of it.
func TestADecidedFindingIsStoredBeforeItIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := &stubborn{}
		a := newAsking(t, Consent{Apply: ApplyApprove}, func(c *Config) { down.Findings = c.Findings[0]; c.Findings = []Findings{down} })
		conflict(t, a.p, a.q)
		pass(time.Minute, sharedTiers, a.p, a.q)
		key := a.only(t).Case.ID
		down.away.Store(true)
		a.approve(t, key, "anna")
		pass(30*time.Second, sharedTiers, a.p, a.q)
		a.wantRepairs(t, 1, "while findings cannot be stored")
		a.only(t) // still open: whoever dies now has told nobody yet
		down.away.Store(false)
		pass(time.Minute, sharedTiers, a.p, a.q)
		a.wantFinding(t, StateRepaired, ResultApplied)
		if rounds, err := a.table.Rounds(t.Context(), key); err != nil || len(rounds) != 1 || rounds[0].Result != ResultApplied {
			t.Errorf("rounds %+v, %v", rounds, err)
		}
	})
}

// stubborn is a store that is away.
type stubborn struct {
	Findings
	away atomic.Bool
}

func (s *stubborn) Put(ctx context.Context, f Finding) error {
	if s.away.Load() {
		return errors.New("away")
	}
	return s.Findings.Put(ctx, f)
}

func (s *stubborn) Find(ctx context.Context, id string) (Finding, bool, error) {
	return s.Findings.(Finder).Find(ctx, id)
}

// Where the rule of a type says never by now, what people have said yes to is left alone, and
// not looked at again with every tick.
func TestWhatIsNeverRepairedIsNotTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t, Consent{Apply: ApplyApprove}, nil)
		conflict(t, a.p, a.q)
		pass(time.Minute, sharedTiers, a.p, a.q)
		hook := a.job.cfg.Hooks["coupon"]
		hook.Consent.Apply = ApplyNever
		a.job.cfg.Hooks["coupon"] = hook
		a.approve(t, a.only(t).Case.ID, "anna")
		before := a.led.checks
		pass(time.Minute, sharedTiers, a.p, a.q)
		if n := a.led.checks - before; n != 0 {
			t.Errorf("%d checks of a case that is never repaired", n)
		}
	})
}

// The other way round, what a rule repairs by itself by now is settled once it is done.
func TestWhatNeedsNobodyAnyMoreIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t, Consent{Apply: ApplyApprove}, nil)
		conflict(t, a.p, a.q)
		pass(time.Minute, sharedTiers, a.p, a.q)
		key := a.only(t).Case.ID
		hook := a.job.cfg.Hooks["coupon"]
		hook.Consent.Apply = ApplyAuto
		a.job.cfg.Hooks["coupon"] = hook
		a.approve(t, key, "anna")
		pass(time.Minute, sharedTiers, a.p, a.q)
		a.wantRepairs(t, 1, "by a rule that needs nobody")
		if rounds, err := a.table.Rounds(t.Context(), key); err != nil || rounds[0].Result != ResultApplied {
			t.Errorf("%+v, %v", rounds, err)
		}
	})
}

// A no stands also when less is wrong by now, so little that nobody would have been asked.
func TestANoStandsBelowTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t, Consent{Over: 5}, nil)
		a.led.claims["u1-c1"] = 8
		conflict(t, a.p, a.q)
		pass(time.Minute, sharedTiers, a.p, a.q)
		if _, err := a.table.Reject(t.Context(), a.only(t).Case.ID, "anna", "the customer keeps them"); err != nil {
			t.Fatal(err)
		}
		pass(10*time.Second, sharedTiers, a.p, a.q)
		a.led.claims["u1-c1"] = 3
		again := newStream(1)
		again.logs, again.endless = a.logs, false
		cfg := Config{Source: again.join(), Findings: []Findings{a.store}, Idle: time.Minute}
		a.config(Consent{Over: 5}, nil)(&cfg)
		if err := mustJob(t, cfg).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.wantRepairs(t, 0, "though anna has said no")
		a.wantFinding(t, StateRejected, ResultRejected)
	})
}

// A no that comes while the repair waits for its lock is heard, and so is the end of a yes.
func TestAnAnswerIsHeardUnderTheLock(t *testing.T) {
	for name, meanwhile := range map[string]func(*testing.T, *asking, string){
		"no": func(t *testing.T, a *asking, key string) {
			if _, err := a.table.Reject(t.Context(), key, "bert", "wait"); err != nil {
				t.Error(err)
			}
		},
		"expired": func(*testing.T, *asking, string) { time.Sleep(70 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a *asking
				var key string
				slow := lockerFunc(func(ctx context.Context, k tierlock.Key, fn func(context.Context, tierlock.Grant) error) error {
					if once := key; once != "" {
						key = ""
						meanwhile(t, a, once)
					}
					return a.lock.DoShared(ctx, k, fn)
				})
				a = newAsking(t, Consent{Apply: ApplyApprove, Valid: time.Minute}, func(c *Config) { c.Locker = slow })
				conflict(t, a.p, a.q)
				pass(time.Minute, sharedTiers, a.p, a.q)
				key = a.only(t).Case.ID
				a.approve(t, key, "anna")
				pass(3*time.Minute, sharedTiers, a.p, a.q)
				a.wantRepairs(t, 0, "though the yes does not count any more")
			})
		})
	}
}

type lockerFunc func(context.Context, tierlock.Key, func(context.Context, tierlock.Grant) error) error

func (f lockerFunc) DoShared(ctx context.Context, key tierlock.Key, fn func(context.Context, tierlock.Grant) error) error {
	return f(ctx, key, fn)
}

// A yes that begins a new round, since an earlier one has expired, does not take a no with it
// that came in between.
func TestANewRoundTakesNoNoAway(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, b database) {
		table, ctx := approvalsOn(t, b.open(t), b.d), t.Context()
		c := caseFor("1")
		c.Loser.Key = key(t, "biz:coupon:lock:u1")
		seen, err := table.Ask(ctx, Request{Case: c, Amount: 1, Approvers: 2, Valid: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := table.Reject(ctx, c.ID, "bert", "no"); err != nil {
			t.Fatal(err)
		}
		if begun, err := table.renew(ctx, &seen); begun || err != nil {
			t.Errorf("a new round over bert's no: %t, %v", begun, err)
		}
		if a, known, err := table.Last(ctx, c.ID); err != nil || !known || a.Round != 1 || a.Status(time.Now()) != StatusRejected {
			t.Errorf("%+v, %t, %v", a, known, err)
		}
		if _, err := table.Approve(ctx, c.ID, "anna", 0); !errors.Is(err, ErrDecided) {
			t.Errorf("approved after a no: %v", err)
		}
	})
}
