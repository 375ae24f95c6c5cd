package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// ledger is a business with one rule: a record has one claim. Its hook is in Go.
type ledger struct {
	mu      sync.Mutex
	claims  map[string]int
	applied map[string]bool
	checks  int
	repairs []string
	fail    error
	grants  []tierlock.Grant
}

func newLedger() *ledger { return &ledger{claims: map[string]int{}, applied: map[string]bool{}} }

func (l *ledger) hook() Hook {
	return Hook{
		Action: "give_back",
		Check: CheckFunc(func(_ context.Context, c Case) (int64, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.checks++
			return int64(max(l.claims[c.Business.ID]-1, 0)), l.fail
		}),
		Repair: RepairFunc(func(_ context.Context, c Case) (Result, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			switch {
			case l.applied[c.ID]:
				return ResultAlready, nil
			case l.claims[c.Business.ID] <= 1:
				return ResultClean, nil
			}
			l.claims[c.Business.ID]--
			l.applied[c.ID] = true
			l.repairs = append(l.repairs, c.ID)
			l.grants = append(l.grants, c.Grant)
			return ResultApplied, nil
		}),
	}
}

// locker grants shared locks, unless err is set.
type locker struct {
	tier tierlock.Tier
	err  error
	n    int
}

func (l *locker) DoShared(ctx context.Context, key tierlock.Key, fn func(context.Context, tierlock.Grant) error) error {
	l.n++
	if l.err != nil {
		return l.err
	}
	return fn(ctx, tierlock.Grant{Key: key, Tier: l.tier, Token: tierlock.Token(l.n)})
}

var sharedTiers = map[string]string{"coupon": "shared"}

func applying(led *ledger, lock *locker, change func(*Config)) func(*Config) {
	return func(c *Config) {
		c.Hooks, c.Locker, c.Apply = map[string]Hook{"coupon": led.hook()}, lock, true
		if change != nil {
			change(c)
		}
	}
}

// Dry run is the default: checked, told, and nothing changed.
func TestDryRunChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		led := newLedger()
		led.claims["u1-c1"] = 2
		l := runLive(t, func(c *Config) { c.Hooks = map[string]Hook{"coupon": led.hook()} })
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, sharedTiers, p, q)
		conflict(t, p, q)
		pass(time.Minute, sharedTiers, p, q)
		got := l.store.standing(KindOverlap)
		if len(got) != 1 || got[0].State != StateDryRun || got[0].Repairs[0].Wrong != 1 || led.claims["u1-c1"] != 2 {
			t.Fatalf("findings %+v, claims %v", got, led.claims)
		}
	})
}

// What is wrong is repaired under a shared grant once every producer has been on shared for
// Quiet, and not before.
func TestRepairWaitsForQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		led, lock := newLedger(), &locker{tier: tierlock.Shared}
		led.claims["u1-c1"] = 2
		l := runLive(t, applying(led, lock, nil))
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, sharedTiers, p, q)
		conflict(t, p, q)
		for range 6 { // p is back, q still bypasses
			pass(5*time.Second, sharedTiers, p)
			pass(time.Second, map[string]string{"coupon": "bypass"}, q)
		}
		if len(led.repairs) != 0 || lock.n != 0 {
			t.Fatal("repaired while one producer bypassed")
		}
		if m := l.committed(); m.Offset > 4 {
			t.Fatalf("committed at %d with a repair due: a restart would forget it", m.Offset)
		}
		pass(18*time.Second, sharedTiers, p, q)
		if len(led.repairs) != 0 {
			t.Fatal("repaired before everybody had been quiet for 20 s")
		}
		pass(12*time.Second, sharedTiers, p, q)
		got := l.store.standing(KindOverlap)
		if len(led.repairs) != 1 || got[0].State != StateRepaired || got[0].Repairs[0].Result != ResultApplied || led.claims["u1-c1"] != 1 {
			t.Fatalf("repairs %v, findings %+v", led.repairs, got)
		}
		if g := led.grants[0]; g.Tier != tierlock.Shared || g.Token == 0 {
			t.Errorf("repaired under %+v", g)
		}
		if l.job.Stats().Repaired != 1 || l.committed().Offset < 10 {
			t.Errorf("%+v, committed %+v", l.job.Stats(), l.committed())
		}
	})
}

// Each of these keeps a repair waiting; when it goes away, the repair is made.
func TestWhatKeepsRepairsWaiting(t *testing.T) {
	for name, c := range map[string]struct{ block, unblock func(*Config, *locker) }{
		"an order over the chain": {
			func(c *Config, l *locker) {
				c.SwitchOn = func(string) bool { return l.tier == tierlock.Bypass }
				l.tier = tierlock.Bypass
			},
			func(_ *Config, l *locker) { l.tier = tierlock.Shared },
		},
		"a grant below shared": {func(_ *Config, l *locker) { l.tier = tierlock.Local }, func(_ *Config, l *locker) { l.tier = tierlock.Shared }},
		"a lock that is held":  {func(_ *Config, l *locker) { l.err = tierlock.ErrHeld }, func(_ *Config, l *locker) { l.err = nil }},
		"a store that is down": {func(_ *Config, l *locker) { l.err = tierlock.ErrSystem }, func(_ *Config, l *locker) { l.err = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				led, lock := newLedger(), &locker{tier: tierlock.Shared}
				led.claims["u1-c1"] = 2
				l := runLive(t, applying(led, lock, func(cfg *Config) { c.block(cfg, lock) }))
				p, q := l.producer("p"), l.producer("q")
				pass(time.Second, sharedTiers, p, q)
				conflict(t, p, q)
				pass(time.Minute, sharedTiers, p, q)
				if len(led.repairs) != 0 || l.job.Stats().Waiting != 1 || l.job.Stats().Failed != 0 {
					t.Fatalf("repairs %v, %+v", led.repairs, l.job.Stats())
				}
				c.unblock(nil, lock)
				pass(10*time.Second, sharedTiers, p, q)
				if len(led.repairs) != 1 || l.job.Stats().Waiting != 0 {
					t.Fatalf("repairs %v, %+v", led.repairs, l.job.Stats())
				}
			})
		})
	}
}

// A repair's key is made of the losing hold and not of its group: it stays when the group
// gets an earlier member.
func TestRepairKeyIsStableOverRegrouping(t *testing.T) {
	member := func(holder string, from int) Interval {
		iv := at(t, holder, tierlock.Bypass, "p"+holder, from, from+100)
		iv.Business = audit.Business{Type: "coupon", ID: "u1-c1"}
		return iv
	}
	hooks := map[string]Hook{"coupon": newLedger().hook()}
	keys := func(holds ...Interval) map[string]string {
		out := map[string]string{}
		for _, f := range Overlaps(Rule{}, holds) {
			for _, c := range casesOf(&f, hooks) {
				out[c.Loser.Holder] = c.ID
			}
		}
		return out
	}
	small := keys(member("b", 50), member("c", 60))
	large := keys(member("a", 0), member("b", 50), member("c", 60))
	if len(small) != 1 || len(large) != 2 || small["c"] == "" || small["c"] != large["c"] {
		t.Fatalf("keys %v, then %v", small, large)
	}
	chained := map[string]int{}
	for _, f := range Overlaps(Rule{Group: 2}, []Interval{member("a", 0), member("b", 50), member("c", 60), member("d", 70)}) {
		for _, c := range casesOf(&f, hooks) {
			chained[c.Loser.Holder]++
		}
	}
	for holder, n := range chained {
		if n != 1 {
			t.Errorf("%s is a case %d times over the parts", holder, n)
		}
	}
}

// A repair's key is written down in business databases: it outlives every version of the
// rule, or a new rule would repair again what an older one has repaired.
func TestRepairKeyOutlivesTheRule(t *testing.T) {
	loser := at(t, "b", tierlock.Bypass, "p", 50, 150)
	loser.Business = audit.Business{Type: "coupon", ID: "u1-c1"}
	if got, want := repairKey(&loser, "give_back"), "dc5897e1d56a6dedfb0abc299c45e4ee"; got != want {
		t.Errorf("key %s, want %s as ever", got, want)
	}
	if repairKey(&loser, "give_back") == repairKey(&loser, "refund") {
		t.Error("another action has the same key")
	}
}

// Three claims where one is allowed: two are given back, one after the other, and what is
// right stays.
func TestEveryLoserIsACase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		led := newLedger()
		led.claims["u1-c1"] = 3
		l := runLive(t, applying(led, &locker{tier: tierlock.Shared}, nil))
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, sharedTiers, p, q)
		third := nowHold(t, "third", tierlock.Bypass, 900*time.Millisecond)
		p.write(acquireOf(&third))
		conflict(t, p, q)
		p.write(endOf(&third))
		pass(time.Minute, sharedTiers, p, q)
		if led.claims["u1-c1"] != 1 || len(led.repairs) != 2 {
			t.Fatalf("claims %v after %d repairs", led.claims, len(led.repairs))
		}
	})
}

// A hook that fails is tried again with pauses, then its finding is failed and the job goes on.
func TestFailingHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		led := newLedger()
		led.claims["u1-c1"], led.fail = 2, errors.New("database away")
		l := runLive(t, applying(led, &locker{tier: tierlock.Shared}, nil))
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, sharedTiers, p, q)
		conflict(t, p, q)
		pass(2*time.Minute, sharedTiers, p, q)
		got := l.store.standing(KindOverlap)
		if led.checks != 5 || got[0].State != StateFailed || got[0].Repairs[0].Error != "database away" || l.job.Stats().Failed != 5 {
			t.Fatalf("%d checks, findings %+v", led.checks, got)
		}
		if l.committed().Offset < 10 {
			t.Errorf("committed %+v: a case that can never succeed pins the stream", l.committed())
		}
	})
}

// A hook that panics fails its own case, in the check or in the repair, and nothing else.
func TestAHookThatPanicsFailsItsCase(t *testing.T) {
	for _, in := range []string{"check", "repair"} {
		t.Run(in, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				led, lock := newLedger(), &locker{tier: tierlock.Shared}
				led.claims["u1-c1"] = 2
				l := runLive(t, applying(led, lock, func(c *Config) {
					hook := c.Hooks["coupon"]
					if in == "check" {
						hook.Check = CheckFunc(func(context.Context, Case) (int64, error) { panic("no such column") })
					} else {
						hook.Repair = RepairFunc(func(context.Context, Case) (Result, error) { panic("no such column") })
					}
					c.Hooks["coupon"] = hook
				}))
				p, q := l.producer("p"), l.producer("q")
				pass(time.Second, sharedTiers, p, q)
				conflict(t, p, q)
				pass(2*time.Minute, sharedTiers, p, q)
				got := l.store.standing(KindOverlap)
				if len(got) != 1 || got[0].State != StateFailed || got[0].Repairs[0].Error != "reconcile: hook panicked: no such column" || l.committed().Offset < 10 {
					t.Fatalf("%+v, committed %+v", got, l.committed())
				}
			})
		})
	}
}

// Many conflicts, each of its own key and record.
func manyConflicts(t *testing.T, n int, p, q *producer) {
	t.Helper()
	for i := range n {
		a, b := nowHold(t, fmt.Sprintf("a%d", i), tierlock.Bypass, 50*time.Millisecond), nowHold(t, fmt.Sprintf("b%d", i), tierlock.Bypass, 50*time.Millisecond)
		for _, iv := range []*Interval{&a, &b} {
			iv.Key, iv.Business.ID = key(t, fmt.Sprintf("biz:coupon:lock:u%d", i)), fmt.Sprintf("u%d", i)
		}
		p.write(acquireOf(&a))
		q.write(acquireOf(&b))
		time.Sleep(50 * time.Millisecond)
		p.write(endOf(&a))
		q.write(endOf(&b))
	}
}

func TestRepairsPerMinuteAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		led := newLedger()
		for i := range 25 {
			led.claims[fmt.Sprintf("u%d", i)] = 2
		}
		l := runLive(t, applying(led, &locker{tier: tierlock.Shared}, func(c *Config) { c.Caps.PerMinute = 10 }))
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, sharedTiers, p, q)
		manyConflicts(t, 25, p, q)
		pass(35*time.Second, sharedTiers, p, q)
		if n := len(led.repairs); n != 10 {
			t.Fatalf("%d repairs in the first minute, want 10", n)
		}
		pass(130*time.Second, sharedTiers, p, q)
		if n := len(led.repairs); n != 25 {
			t.Fatalf("%d repairs after three minutes, want 25", n)
		}
	})
}

func TestTooManyFailuresStopRepairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		led := newLedger()
		led.fail = errors.New("no such table")
		l := runLive(t, applying(led, &locker{tier: tierlock.Shared}, nil))
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, sharedTiers, p, q)
		manyConflicts(t, 10, p, q)
		pass(time.Minute, sharedTiers, p, q)
		if st := l.job.Stats(); !st.Stopped || st.Failed < 20 {
			t.Fatalf("%+v", st)
		}
		led.mu.Lock()
		led.fail = nil
		led.claims["late"] = 2
		led.mu.Unlock()
		pass(time.Minute, sharedTiers, p, q)
		if len(led.repairs) != 0 {
			t.Fatal("repaired after the stop")
		}
	})
}

// A job that is stopped in the middle and begun again repairs what is left, once.
func TestRestartRepairsWhatIsLeft(t *testing.T) {
	s, store, led := newStream(1), newStore(), newLedger()
	p, q := s.producer("p"), s.producer("q")
	for i := range 30 {
		led.claims[fmt.Sprintf("u%d", i)] = 2
		a, b := at(t, fmt.Sprintf("a%d", i), tierlock.Bypass, "p", 100*i, 100*i+50), at(t, fmt.Sprintf("b%d", i), tierlock.Bypass, "q", 100*i, 100*i+50)
		for _, iv := range []*Interval{&a, &b} {
			iv.Key, iv.Chain = key(t, fmt.Sprintf("biz:coupon:lock:u%d", i)), "coupon"
			iv.Business = audit.Business{Type: "coupon", ID: fmt.Sprintf("u%d", i)}
		}
		p.write(acquireOf(&a))
		q.write(acquireOf(&b))
		p.write(endOf(&a))
		q.write(endOf(&b))
		if i%5 == 0 {
			p.beat(a.EndedAt, sharedTiers)
			q.beat(a.EndedAt, sharedTiers)
		}
	}
	for i := range 30 {
		at := base.Add(4*time.Second + time.Duration(i)*time.Second)
		p.beat(at, sharedTiers)
		q.beat(at, sharedTiers)
	}
	for life := 0; life < 40 && len(led.repairs) < 30; life++ {
		ctx, kill := context.WithCancel(t.Context())
		s.join()
		s.maxBatch, s.stop = 30+life, kill
		cfg := Config{Source: s, Findings: []Findings{store}, Idle: 1000 * time.Hour}
		applying(led, &locker{tier: tierlock.Shared}, func(c *Config) { c.Caps.PerMinute = 1000 })(&cfg)
		if err := mustJob(t, cfg).Run(ctx); err != nil {
			t.Fatal(err)
		}
		kill()
	}
	for id, n := range led.claims {
		if n != 1 {
			t.Errorf("%s has %d claims", id, n)
		}
	}
	if keys := slices.Compact(slices.Sorted(slices.Values(led.repairs))); len(keys) != 30 || len(led.repairs) != 30 {
		t.Errorf("%d repairs under %d keys", len(led.repairs), len(keys))
	}
}

func TestConfigFaultsAreToldAtOnce(t *testing.T) {
	_, err := New(Config{Apply: true, Idle: -1, Quiet: 1, Tick: 999_999, Rule: Rule{Group: 1}, Hooks: map[string]Hook{"coupon": {}}, Caps: Caps{FailureRatio: 2}})
	for _, field := range []string{"source", "findings", "locker", "idle", "quiet", "tick", "rule.group", "hooks.coupon.check", "caps.failure_ratio"} {
		if err == nil || !errors.Is(err, tierlock.ErrInvalid) || !containsField(err, field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

func containsField(err error, field string) bool {
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		var inv *tierlock.InvalidError
		if many, ok := e.(interface{ Unwrap() []error }); ok && containsField(many.(error), field) {
			return true
		}
		if errors.As(e, &inv) && inv.Field == field {
			return true
		}
	}
	return false
}
