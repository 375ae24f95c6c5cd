package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
)

// unhurried is a stream whose batches take a while to come.
type unhurried struct{ *stream }

func (u unhurried) Next(ctx context.Context) (Batch, error) {
	b, err := u.stream.Next(ctx)
	if err == nil {
		time.Sleep(300 * time.Millisecond)
	}
	return b, err
}

// What has failed while the stream was read, and was too early then, is tried at its end as
// everything else that was too early.
func TestTheEndTriesWhatFailedAndWasTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClosed()
		c.conflict(t, "coupon", "u1", 2)
		for range 60 { // what comes after the conflict takes longer to read than the pause of a try
			time.Sleep(5 * time.Second)
			c.p.beat(time.Now(), nil)
			c.q.beat(time.Now(), nil)
		}
		c.seal()
		tries := 0
		j, _ := c.run(t, func(cfg *Config) {
			cfg.Source = unhurried{c.stream}
			hook := cfg.Hooks["coupon"]
			check := hook.Check
			hook.Check = CheckFunc(func(ctx context.Context, c Case) (int64, error) {
				if tries++; tries == 1 {
					return 0, errors.New("database away")
				}
				return check.Check(ctx, c)
			})
			cfg.Hooks["coupon"] = hook
		})
		if len(c.led.repairs) != 1 || j.Stats().Waiting != 0 || tries < 3 {
			t.Errorf("%d repairs after %d checks, %d waiting", len(c.led.repairs), tries, j.Stats().Waiting)
		}
	})
}

// A check that takes long and fails has its minute once, and not once for each case.
func TestTheEndIsNotPutOffByWhatFailsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClosed()
		const n = 3 * casesPerStep
		for i := range n {
			c.conflict(t, "coupon", fmt.Sprintf("u%d", i), 2)
		}
		c.seal()
		j, took := c.run(t, func(cfg *Config) {
			hook := cfg.Hooks["coupon"]
			hook.Check = CheckFunc(func(context.Context, Case) (int64, error) {
				time.Sleep(20 * time.Second)
				return 0, errors.New("connection refused")
			})
			cfg.Hooks["coupon"] = hook
		})
		if took > 2*finishPatience || j.Stats().Waiting != n {
			t.Errorf("%d waiting after %s", j.Stats().Waiting, took)
		}
	})
}

// What has to wait, and whose check takes long, does not keep the end from what stands behind it.
func TestTheEndGetsPastSlowChecksOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClosed()
		const n = 12
		for i := range n {
			c.conflict(t, "loud", fmt.Sprintf("l%d", i), 2)
		}
		c.conflict(t, "coupon", "u1", 2)
		c.seal()
		j, took := c.run(t, func(cfg *Config) {
			cfg.SwitchOn = func(chain string) bool { return chain == "loud" }
			hook := cfg.Hooks["coupon"]
			check := hook.Check
			hook.Check = CheckFunc(func(ctx context.Context, c Case) (int64, error) {
				time.Sleep(20 * time.Second)
				return check.Check(ctx, c)
			})
			cfg.Hooks["coupon"] = hook
		})
		if len(c.led.repairs) != 1 || j.Stats().Waiting != n || took < 2*finishPatience {
			t.Errorf("%d repairs, %d waiting after %s", len(c.led.repairs), j.Stats().Waiting, took)
		}
	})
}

// A finding that has no room beside one that waits is left to the next run: to find it again
// would not make room for it.
func TestTheEndComesWhereAFindingHasNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClosed()
		c.conflict(t, "loud", "l1", 2)
		c.conflict(t, "coupon", "u1", 12)
		c.seal()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c.maxBatch, c.stop = 1000, cancel
		cfg := Config{Source: c.join(), Findings: []Findings{c.store}}
		applying(c.led, c.lock, func(cfg *Config) { cfg.SwitchOn = func(chain string) bool { return chain == "loud" } })(&cfg)
		j := mustJob(t, cfg)
		j.repairs.most = 20
		if err := j.Run(ctx); err != nil || ctx.Err() != nil {
			t.Fatalf("%v, no end after %d readings", err, c.rewinds)
		}
		if len(c.led.repairs) != 0 || c.marks[0].Offset > 0 {
			t.Errorf("%d repairs, committed %+v", len(c.led.repairs), c.marks[0])
		}
		c.maxBatch, cfg.SwitchOn, cfg.Source = 1000, nil, c.join() // the order is over
		j = mustJob(t, cfg)
		j.repairs.most = 20
		if err := j.Run(ctx); err != nil || ctx.Err() != nil || len(c.led.repairs) != 12 || j.Stats().Waiting != 0 {
			t.Errorf("%v, the next run: %d repairs, %d waiting", err, len(c.led.repairs), j.Stats().Waiting)
		}
	})
}

// A hook that fails is told to be broken by the run that has met it, however many tries are
// allowed and however long a tick is.
func TestAHookThatFailsIsFailedAtTheEnd(t *testing.T) {
	for _, tries := range []int{1, 2, 5, 6, 8, 100} {
		for _, tick := range []time.Duration{time.Second, 3 * time.Second, 20 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				c := newClosed()
				c.conflict(t, "coupon", "u1", 2)
				c.seal()
				c.led.fail = errors.New("no such table")
				j, took := c.run(t, func(cfg *Config) { cfg.Caps.Tries, cfg.Tick = tries, tick })
				if r := j.Report(); r.Repairs[ResultFailed] != 1 || r.Waiting != 0 || c.led.checks != tries || took > finishPatience {
					t.Errorf("%d tries, a tick of %s: repairs %v after %d checks, %d waiting, took %s", tries, tick, r.Repairs, c.led.checks, r.Waiting, took)
				}
			})
		}
	}
}

// stepwise is a locker that is below shared at first.
type stepwise struct {
	locker
	below int
}

func (s *stepwise) DoShared(ctx context.Context, key tierlock.Key, fn func(context.Context, tierlock.Grant) error) error {
	if s.below--; s.below >= 0 {
		return fn(ctx, tierlock.Grant{Key: key, Tier: tierlock.Local})
	}
	return s.locker.DoShared(ctx, key, fn)
}

// unread are approvals that say yes and cannot be read at first.
type unread struct {
	unsettled
	failures int
}

func (u *unread) Last(ctx context.Context, key string) (Approval, bool, error) {
	if u.failures--; u.failures >= 0 {
		return Approval{}, false, errors.New("database away")
	}
	return u.unsettled.Last(ctx, key)
}

func (u *unread) Ask(ctx context.Context, r Request) (Approval, error) {
	a, _, err := u.unsettled.Last(ctx, r.Case.ID)
	return a, err
}

func (u *unread) Settle(context.Context, string, Result) error { return nil }

// So is what is found under the lock alone: that it is not the shared one, or that what people
// have said cannot be read.
func TestWhatPassesUnderTheLockIsWaitedForAtTheEnd(t *testing.T) {
	for name, spoil := range map[string]func(*closed, *Config){
		"a tier below": func(c *closed, cfg *Config) { cfg.Locker = &stepwise{*c.lock, 2} },
		"an approval that cannot be read": func(_ *closed, cfg *Config) {
			hook := cfg.Hooks["coupon"]
			hook.Consent = Consent{Apply: ApplyApprove}
			cfg.Hooks["coupon"], cfg.Approvals = hook, &unread{failures: 2}
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

// That a case is put off is told once, also of one that has failed before.
func TestTheLogTellsWhatIsPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClosed()
		c.conflict(t, "coupon", "u1", 2)
		c.seal()
		var log bytes.Buffer
		c.run(t, func(cfg *Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			cfg.Locker = &fickle{locker: *c.lock, errs: []error{errors.New("hook broken"), tierlock.ErrHeld, tierlock.ErrHeld}}
		})
		if n := strings.Count(log.String(), "repair put off, trying again"); n != 1 || len(c.led.repairs) != 1 {
			t.Errorf("told %d times, %d repairs:\n%s", n, len(c.led.repairs), &log)
		}
	})
}
