package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// closed is a stream that ends, with conflicts in it, and what becomes of them.
type closed struct {
	*stream
	store *store
	led   *ledger
	lock  *locker
	p, q  *producer
}

func newClosed() *closed {
	c := &closed{stream: newStream(1), store: newStore(), led: newLedger(), lock: &locker{tier: tierlock.Shared}}
	c.p, c.q = c.producer("p"), c.producer("q")
	return c
}

// conflict lets holders have one key of chain at once: all but the first are losers.
func (c *closed) conflict(t *testing.T, chain, id string, holders int) {
	t.Helper()
	c.led.claims[id] += holders
	var all []Interval
	for i := range holders {
		iv := nowHold(t, fmt.Sprintf("%s-%d", id, i), tierlock.Bypass, time.Second)
		iv.Key, iv.Chain, iv.Business = key(t, "biz:"+chain+":lock:"+id), chain, audit.Business{Type: "coupon", ID: id}
		all = append(all, iv)
	}
	for i := range all {
		[]*producer{c.p, c.q}[i%2].write(acquireOf(&all[i]))
	}
	for i := range all {
		[]*producer{c.p, c.q}[i%2].write(endOf(&all[i]))
	}
	time.Sleep(2 * time.Second)
}

// run reads to the end, as tierlock reconcile --once does, and tells how long that took.
func (c *closed) run(t *testing.T, change func(*Config)) (*Job, time.Duration) {
	t.Helper()
	cfg := Config{Source: c.join(), Findings: []Findings{c.store}}
	applying(c.led, c.lock, change)(&cfg)
	j, began := mustJob(t, cfg), time.Now()
	if err := j.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return j, time.Since(began)
}

// seal ends both producers: every chain of theirs is quiet then.
func (c *closed) seal() {
	time.Sleep(time.Millisecond)
	c.p.seal(time.Now())
	c.q.seal(time.Now())
}

// fickle is a locker that gives its first errors before it works.
type fickle struct {
	locker
	errs []error
}

func (f *fickle) DoShared(ctx context.Context, key tierlock.Key, fn func(context.Context, tierlock.Grant) error) error {
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return err
	}
	return f.locker.DoShared(ctx, key, fn)
}

// What fails for a moment at the end of the stream is tried again: nothing that is read later
// would bring it back.
func TestWhatPassesIsWaitedForAtTheEnd(t *testing.T) {
	for name, spoil := range map[string]func(*closed, *Config){
		"a lock that is held": func(c *closed, cfg *Config) {
			cfg.Locker = &fickle{locker: *c.lock, errs: []error{tierlock.ErrHeld, tierlock.ErrHeld}}
		},
		"a store that does not answer in time": func(c *closed, cfg *Config) {
			cfg.Locker = &fickle{locker: *c.lock, errs: []error{tierlock.ErrTimeout, tierlock.ErrSystem}}
		},
		"a check that fails": func(c *closed, cfg *Config) {
			hook, failures := cfg.Hooks["coupon"], 2
			check := hook.Check
			hook.Check = CheckFunc(func(ctx context.Context, c Case) (int64, error) {
				if failures--; failures >= 0 {
					return 0, errors.New("database away")
				}
				return check.Check(ctx, c)
			})
			cfg.Hooks["coupon"] = hook
		},
		"a repair that finds more than it may": func(c *closed, cfg *Config) {
			hook, more := cfg.Hooks["coupon"], true
			repair := hook.Repair
			hook.Repair = RepairFunc(func(ctx context.Context, c Case) (Result, error) {
				if more {
					more = false
					return ResultFailed, ErrMore
				}
				return repair.Repair(ctx, c)
			})
			cfg.Hooks["coupon"] = hook
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClosed()
				c.conflict(t, "coupon", "u1", 2)
				c.seal()
				j, _ := c.run(t, func(cfg *Config) { spoil(c, cfg) })
				if r := j.Report(); len(c.led.repairs) != 1 || r.Repairs[ResultApplied] != 1 || r.Waiting != 0 {
					t.Errorf("repairs %v of which the report tells %v, %d waiting", c.led.repairs, r.Repairs, r.Waiting)
				}
			})
		})
	}
}

// What does not pass is left after a minute, uncommitted, and the next run does it.
func TestTheEndIsNotPutOffForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClosed()
		c.conflict(t, "coupon", "u1", 2)
		c.seal()
		c.lock.err = tierlock.ErrHeld
		j, took := c.run(t, nil)
		if len(c.led.repairs) != 0 || j.Stats().Waiting != 1 || took < finishPatience || took > finishPatience+5*time.Second {
			t.Errorf("%d repairs, %d waiting after %s", len(c.led.repairs), j.Stats().Waiting, took)
		}
		c.lock.err = nil
		if j, _ = c.run(t, nil); len(c.led.repairs) != 1 || j.Stats().Waiting != 0 {
			t.Errorf("the next run: %d repairs, %d waiting", len(c.led.repairs), j.Stats().Waiting)
		}
	})
}

// Whoever is told to stop does not wait for what may pass.
func TestTheEndHeedsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClosed()
		c.conflict(t, "coupon", "u1", 2)
		c.seal()
		c.led.fail = errors.New("database away") // its third pause lasts eight seconds
		cfg := Config{Source: c.join(), Findings: []Findings{c.store}}
		applying(c.led, c.lock, nil)(&cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		began := time.Now()
		if err := mustJob(t, cfg).Run(ctx); err != nil || time.Since(began) > 8*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// A finding with more cases than one step does is done with at the end, and so is one whose
// hooks take longer than a step may.
func TestTheEndDoesEveryCaseOfAFinding(t *testing.T) {
	for name, took := range map[string]time.Duration{"many": 0, "slow": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClosed()
				holders := 4 * casesPerStep
				if took > 0 {
					holders = 12
				}
				c.conflict(t, "coupon", "u1", holders)
				c.seal()
				j, _ := c.run(t, func(cfg *Config) {
					cfg.Caps.PerMinute = 1000
					hook := cfg.Hooks["coupon"]
					repair := hook.Repair
					hook.Repair = RepairFunc(func(ctx context.Context, c Case) (Result, error) { time.Sleep(took); return repair.Repair(ctx, c) })
					cfg.Hooks["coupon"] = hook
				})
				if want := holders - 1; len(c.led.repairs) != want || j.Stats().Waiting != 0 {
					t.Errorf("%d of %d repairs, %d waiting", len(c.led.repairs), want, j.Stats().Waiting)
				}
			})
		})
	}
}

// What was too early while the stream was read is tried once all is read, however much it is.
func TestTheEndTriesWhatWasTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 4 * casesPerStep
		c := newClosed()
		for i := range n {
			c.conflict(t, "coupon", fmt.Sprintf("u%d", i), 2)
			c.p.beat(time.Now(), nil)
			c.q.beat(time.Now(), nil)
		}
		for range 10 { // all of them are judged, and too early, before the last batch
			time.Sleep(5 * time.Second)
			c.p.beat(time.Now(), nil)
			c.q.beat(time.Now(), nil)
		}
		c.seal()
		j, _ := c.run(t, func(cfg *Config) { cfg.Caps.PerMinute = 1000 })
		if len(c.led.repairs) != n || j.Stats().Waiting != 0 || c.led.checks < n+casesPerStep {
			t.Errorf("%d repairs after %d checks, %d waiting", len(c.led.repairs), c.led.checks, j.Stats().Waiting)
		}
	})
}

// What may pass has its minute after the last case that was done, however long the others took.
func TestSlowRepairsLeaveTimeForWhatPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClosed()
		c.conflict(t, "coupon", "u1", 2)
		c.conflict(t, "coupon", "u2", 12)
		c.seal()
		held := 8
		j, _ := c.run(t, func(cfg *Config) {
			hook := cfg.Hooks["coupon"]
			check, repair := hook.Check, hook.Repair
			hook.Check = CheckFunc(func(ctx context.Context, c Case) (int64, error) {
				if c.Business.ID == "u1" {
					if held--; held >= 0 {
						return 0, errBusy
					}
				}
				return check.Check(ctx, c)
			})
			hook.Repair = RepairFunc(func(ctx context.Context, c Case) (Result, error) {
				if c.Business.ID == "u2" {
					time.Sleep(20 * time.Second)
				}
				return repair.Repair(ctx, c)
			})
			cfg.Hooks["coupon"] = hook
		})
		if len(c.led.repairs) != 12 || j.Stats().Waiting != 0 {
			t.Errorf("%d repairs, %d waiting", len(c.led.repairs), j.Stats().Waiting)
		}
	})
}

// What has to wait, of one chain, keeps nothing of another from being repaired, however much
// of it stands before that in line: at the end and while the stream goes on.
func TestNothingWaitsBehindAChainThatIsNotQuiet(t *testing.T) {
	loud := func(t *testing.T, c *closed) {
		for i := range 2 * casesPerStep {
			c.conflict(t, "loud", fmt.Sprintf("l%d", i), 2)
		}
		c.conflict(t, "coupon", "u1", 2)
	}
	order := func(cfg *Config) { cfg.SwitchOn = func(chain string) bool { return chain == "loud" } }
	t.Run("at the end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newClosed()
			loud(t, c)
			c.seal()
			j, took := c.run(t, order)
			if len(c.led.repairs) != 1 || c.led.claims["u1"] != 1 || j.Stats().Waiting != 2*casesPerStep {
				t.Errorf("%d repairs, %d claims left, %d waiting", len(c.led.repairs), c.led.claims["u1"], j.Stats().Waiting)
			}
			if took > time.Second {
				t.Errorf("the order was waited for, for %s", took)
			}
		})
	})
	t.Run("while it goes on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newClosed()
			l := runLive(t, applying(c.led, c.lock, order))
			c.stream = l.stream
			c.p, c.q = l.producer("p"), l.producer("q")
			loud(t, c)
			c.seal()
			time.Sleep(time.Minute)
			if len(c.led.repairs) != 1 || c.led.claims["u1"] != 1 {
				t.Errorf("%d repairs, %d claims left", len(c.led.repairs), c.led.claims["u1"])
			}
		})
	})
}

// unsettled are approvals of decided cases that nobody may settle, as for want of a right.
type unsettled struct {
	cases int
	asked int
	stop  func() // after so many questions that there is no end
}

func (u *unsettled) Ask(ctx context.Context, r Request) (Approval, error) {
	a, _, err := u.Last(ctx, r.Case.ID)
	return a, err
}

func (u *unsettled) Decided(ctx context.Context, _ time.Time, most int) (all []Approval, err error) {
	if u.asked++; u.asked > 1000 {
		u.stop()
	}
	for i := range min(u.cases, most) {
		a, _, _ := u.Last(ctx, fmt.Sprintf("case-%d", i))
		all = append(all, a)
	}
	return all, nil
}

func (u *unsettled) Last(_ context.Context, key string) (Approval, bool, error) {
	c := Case{ID: key, Business: audit.Business{Type: "coupon", ID: key}}
	c.Finding.ID = "of " + key
	return Approval{Request: Request{Case: c, Approvers: 1, Valid: time.Hour, Amount: 9}, Votes: []Vote{{By: "anna", At: time.Now()}}}, true, nil
}

func (u *unsettled) Settle(context.Context, string, Result) error {
	return errors.New("permission denied")
}

// Cases that people have decided are done once, also where that cannot be written down: they
// would come again without an end.
func TestTheEndComesWhereNothingCanBeSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClosed()
		c.conflict(t, "coupon", "u1", 1)
		c.seal()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		u := &unsettled{cases: 3 * casesPerStep, stop: cancel}
		for i := range u.cases {
			c.led.claims[fmt.Sprintf("case-%d", i)] = 2
		}
		cfg := Config{Source: c.join(), Findings: []Findings{c.store}}
		applying(c.led, c.lock, func(cfg *Config) {
			hook := cfg.Hooks["coupon"]
			hook.Consent = Consent{Apply: ApplyApprove}
			cfg.Hooks["coupon"], cfg.Approvals, cfg.Caps.PerMinute = hook, u, 1000
		})(&cfg)
		if err := mustJob(t, cfg).Run(ctx); err != nil || ctx.Err() != nil {
			t.Errorf("%v, no end after %d questions", err, u.asked)
		}
		if len(c.led.repairs) != u.cases {
			t.Errorf("%d of %d repairs", len(c.led.repairs), u.cases)
		}
	})
}

// Where a step has no time for a single case, the end does not try for ever.
func TestTheEndComesWithoutTimeForHooks(t *testing.T) {
	c := newClosed()
	c.led.claims["u1"] = 2
	now := time.Now()
	for _, p := range []*producer{c.p, c.q} {
		iv := nowHold(t, p.name, tierlock.Bypass, time.Millisecond)
		p.write(acquireOf(&iv))
		p.write(endOf(&iv))
		p.seal(now.Add(time.Second))
	}
	if j, _ := c.run(t, func(cfg *Config) { cfg.HookTimeout = 1 }); j.Stats().Waiting != 1 {
		t.Errorf("%+v", j.Stats())
	}
}
