package gateway_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/switchcfg"
)

// centre is a config centre that may be gone.
type centre struct {
	source
	gone bool // guarded by mu
}

func (c *centre) Fetch(ctx context.Context) ([]byte, error) {
	c.mu.Lock()
	gone := c.gone
	c.mu.Unlock()
	if gone {
		return nil, errors.New("no route to host")
	}
	return c.source.Fetch(ctx)
}

// TestAnOrderOutlivesARestartWithTheCentreGoneAndEndsByItself: nobody is there to end it, nor
// to say again that it is on.
func TestAnOrderOutlivesARestartWithTheCentreGoneAndEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, lastGood := new(centre), filepath.Join(t.TempDir(), "switch.last")
		begin := func(heard func(switchcfg.Report)) (tier func() tierlock.Tier, end func()) {
			g, err := gateway.New(gateway.Config{
				Chains: map[string]gateway.Policy{"c": weak()}, Stores: map[string]tierlock.Backend{"m": gatewaytest.NewStore()},
				Audit: new(gatewaytest.Audit), Switch: src, LastGood: lastGood, Hooks: gateway.Hooks{Reported: heard},
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the last good document is read before anything is fetched
			c, _ := g.Chain("c")
			return func() tierlock.Tier {
				l, err := c.TryLock(t.Context(), "a")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = l.Unlock(t.Context()) }()
				return l.Grant().Tier
			}, func() { _ = g.Close(context.Background()) }
		}
		until := time.Now().Add(10 * time.Minute)
		src.set("version: 3\nchains:\n  c: {mode: bypass, until: " + until.Format(time.RFC3339) + ", reason: r, by: b}\npolicies: {c: {wait: 1s}}\n")
		tier, end := begin(nil)
		time.Sleep(time.Second)
		if got := tier(); got != tierlock.Bypass {
			t.Fatalf("tier %v", got)
		}
		end()

		src.mu.Lock()
		src.gone = true
		src.mu.Unlock()
		var last atomic.Pointer[switchcfg.Report]
		tier, end = begin(func(r switchcfg.Report) { last.Store(&r) })
		if got := tier(); got != tierlock.Bypass || last.Load().Version != 3 {
			t.Errorf("after the restart: tier %v, version %d", got, last.Load().Version)
		}
		time.Sleep(time.Until(until) - time.Nanosecond)
		if got, fault := tier(), last.Load().Fault; got != tierlock.Bypass || fault == nil || fault.Why != switchcfg.WhyUnanswered {
			t.Errorf("before its end: tier %v, %v", got, fault)
		}
		time.Sleep(time.Nanosecond)
		if got := tier(); got != tierlock.Shared {
			t.Errorf("at its end: tier %v", got)
		}
		end()
		tier, end = begin(nil)
		if got := tier(); got != tierlock.Shared {
			t.Errorf("restarted after its end: tier %v", got)
		}
		end()
	})
}
