package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
)

// wrongBy is a ledger in which n records have so many claims too many.
func wrongBy(n, wrong int) *ledger {
	led := newLedger()
	for i := range n {
		led.claims[fmt.Sprintf("u%d", i)] = 1 + wrong
	}
	return led
}

// Amounts are capped by the minute.
func TestAmountsPerMinuteAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		led := wrongBy(6, 40)
		l := runLive(t, applying(led, &locker{tier: tierlock.Shared}, func(c *Config) { c.Caps.AmountPerMinute = 100 }))
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, sharedTiers, p, q)
		manyConflicts(t, 6, p, q)
		pass(50*time.Second, sharedTiers, p, q)
		if n := len(led.repairs); n != 2 { // 80; a third would make it 120
			t.Fatalf("%d repairs of 40 each in the first minute, want 2 under a cap of 100", n)
		}
		pass(3*time.Minute, sharedTiers, p, q)
		if n := len(led.repairs); n != 6 {
			t.Fatalf("%d repairs in the end, want 6", n)
		}
	})
}

// What is larger than a minute's cap by itself can never be repaired: it is failed and told,
// and keeps nothing waiting.
func TestAnAmountAboveTheCapIsFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		led := wrongBy(1, 101)
		l := runLive(t, applying(led, &locker{tier: tierlock.Shared}, func(c *Config) { c.Caps.AmountPerMinute = 100 }))
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, sharedTiers, p, q)
		manyConflicts(t, 1, p, q)
		pass(time.Minute, sharedTiers, p, q)
		got := l.store.standing(KindOverlap)
		if len(led.repairs) != 0 || got[0].State != StateFailed || !strings.Contains(got[0].Repairs[0].Error, "caps.amount_per_minute (100)") {
			t.Fatalf("%d repairs, %+v", len(led.repairs), got)
		}
		if st := l.job.Stats(); st.Stopped || st.Waiting != 0 || l.committed().Offset < 10 {
			t.Errorf("%+v, committed %+v", st, l.committed())
		}
	})
}

// The total of amounts stops repairs before it would be passed.
func TestTheTotalOfAmountsStopsRepairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		led := wrongBy(6, 40)
		l := runLive(t, applying(led, &locker{tier: tierlock.Shared}, func(c *Config) { c.Caps.AmountTotal = 130 }))
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, sharedTiers, p, q)
		manyConflicts(t, 6, p, q)
		pass(2*time.Minute, sharedTiers, p, q)
		if st := l.job.Stats(); len(led.repairs) != 3 || !st.Stopped {
			t.Fatalf("%d repairs, %+v; want 3 and a stop", len(led.repairs), st)
		}
	})
}

// What grows between the check and the repair does not get past the caps on amounts.
func TestTheCapsBindTheRepairItself(t *testing.T) {
	for name, caps := range map[string]Caps{"a minute's": {AmountPerMinute: 100}, "all": {AmountTotal: 100}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				led := wrongBy(1, 60)
				var most []int64
				l := runLive(t, applying(led, &locker{tier: tierlock.Shared}, func(c *Config) {
					c.Caps = caps
					hook := c.Hooks["coupon"]
					hook.Repair = RepairFunc(func(_ context.Context, c Case) (Result, error) {
						most = append(most, c.Most)
						return ResultApplied, nil
					})
					c.Hooks["coupon"] = hook
				}))
				p, q := l.producer("p"), l.producer("q")
				pass(time.Second, sharedTiers, p, q)
				manyConflicts(t, 1, p, q)
				pass(2*time.Minute, sharedTiers, p, q)
				if !slices.Equal(most, []int64{100}) {
					t.Errorf("repairs were bound by %v, want 100", most)
				}
			})
		})
	}
}
