package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/switchcfg"
)

func bypassFor(span time.Duration, version uint64) switchcfg.Document {
	return switchcfg.Document{Version: version, Chains: map[string]switchcfg.Directive{
		"c":      {Mode: tierlock.ModeBypass, Until: time.Now().Add(span), Reason: "store under attack", By: "oncall"},
		"others": {Mode: tierlock.ModeReject, Until: time.Now().Add(span), Reason: "not ours", By: "oncall"},
	}}
}

func TestAnOrderEndsByItself(t *testing.T) {
	var hook heard[gateway.OrderInfo]
	bubble(t, weak(), func(t *testing.T, k one) {
		if err := k.Apply(bypassFor(time.Minute, 7)); err != nil {
			t.Fatal(err)
		}
		end := time.Now().Add(time.Minute)
		time.Sleep(time.Until(end) - time.Nanosecond)
		if tier, _ := k.ask("a"); tier != tierlock.Bypass {
			t.Errorf("a nanosecond before its end: tier %v", tier)
		}
		time.Sleep(time.Nanosecond)
		if tier, _ := k.ask("a"); tier != tierlock.Shared {
			t.Errorf("at its end: tier %v", tier)
		}
		time.Sleep(200 * time.Millisecond)
		if orders := hook.told(); len(orders) != 2 || orders[1].Order.Mode != 0 || orders[1].Was.Mode != tierlock.ModeBypass || orders[1].Was.Version != 7 {
			t.Errorf("told %+v", orders)
		}
		if k.AppliedVersion() != 7 {
			t.Errorf("version %d", k.AppliedVersion())
		}
	}, gateway.Hooks{Ordered: hook.hear})
}

// TestAnOrderEndsByTheMonotonicClock: a document says a time of the wall clock, and what is in
// force is that far from the moment in which it came, whatever the wall clock does since. Only a
// Time with a monotonic reading is compared by it.
func TestAnOrderEndsByTheMonotonicClock(t *testing.T) {
	var hook heard[gateway.OrderInfo]
	k := newOne(t, weak(), gateway.Hooks{Ordered: hook.hear}) // not in a bubble, whose clock has none
	if err := k.Apply(bypassFor(time.Minute, 1)); err != nil {
		t.Fatal(err)
	}
	told := hook.told()
	if len(told) != 1 || !strings.Contains(told[0].Order.Until.String(), " m=") {
		t.Errorf("told %+v, want one with an end on the monotonic clock", told)
	}
}

func TestStrictlyNewerWins(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		steps := []struct {
			name    string
			doc     switchcfg.Document
			refused bool
			tier    tierlock.Tier
		}{
			{"first", bypassFor(time.Hour, 5), false, tierlock.Bypass},
			{"the very same", bypassFor(time.Hour, 5), false, tierlock.Bypass},
			{"same version, other content", bypassFor(2*time.Hour, 5), true, tierlock.Bypass},
			{"older", switchcfg.Document{Version: 4, Chains: map[string]switchcfg.Directive{}}, true, tierlock.Bypass},
			{"without a version", switchcfg.Document{}, true, tierlock.Bypass},
			{"already past", bypassFor(-time.Second, 6), true, tierlock.Bypass},
			{"newer, without the chain", switchcfg.Document{Version: 6, Chains: map[string]switchcfg.Directive{}}, false, tierlock.Shared},
		}
		for _, s := range steps {
			err := k.Apply(s.doc)
			if (err != nil) != s.refused || (err != nil && !errors.Is(err, tierlock.ErrInvalid)) {
				t.Errorf("%s: %v", s.name, err)
			}
			if tier, _ := k.ask("a"); tier != s.tier {
				t.Errorf("%s: tier %v, want %v", s.name, tier, s.tier)
			}
		}
	})
}

func TestEveryModeIsObeyed(t *testing.T) {
	for mode, want := range map[tierlock.Mode]answer{
		tierlock.ModeAuto:       granted(tierlock.Local), // its store is down
		tierlock.ModeShared:     {outcome: tierlock.SystemError, reason: tierlock.ReasonDown, advice: tierlock.AdviseFail},
		tierlock.ModeOptimistic: optimistic(tierlock.ReasonForced),
		tierlock.ModeLocal:      granted(tierlock.Local),
		tierlock.ModeBypass:     granted(tierlock.Bypass),
		tierlock.ModeReject:     system(tierlock.ReasonForced),
	} {
		t.Run(mode.String(), func(t *testing.T) {
			bubble(t, weak(), func(t *testing.T, k one) {
				k.takeDown()
				k.Force("c", mode)
				tier, v := k.ask("a")
				got := answer{tier, v.Outcome, v.Reason, v.Advice}
				if got.outcome == tierlock.SystemError && got.reason == tierlock.ReasonOpen {
					got.reason = tierlock.ReasonDown // the breaker may turn it away before the store does
				}
				if got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			})
		})
	}
}

func TestACanaryCoversItsShareOfKeys(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		percent := uint8(30)
		d := bypassFor(time.Hour, 1)
		o := d.Chains["c"]
		o.Percent = &percent
		d.Chains["c"] = o
		if err := k.Apply(d); err != nil {
			t.Fatal(err)
		}
		bypassed := 0
		for i := range 1000 {
			key, _ := tierlock.ParseKey("biz:c:lock:" + string(rune('a'+i%26)) + tierlock.NewRequestID().Fingerprint())
			_, id, _ := k.ChainOf(key)
			tier, _ := k.ask(id)
			if covered := key.Hash()%100 < 30; covered != (tier == tierlock.Bypass) {
				t.Fatalf("key with hash %d: tier %v", key.Hash()%100, tier)
			}
			if tier == tierlock.Bypass {
				bypassed++
			}
		}
		if bypassed < 200 || bypassed > 400 {
			t.Errorf("%d of 1000 keys", bypassed)
		}
	})
}

func TestAnOrderIsWarnedOfBeforeItEndsOnlyWhileItsCauseLasts(t *testing.T) {
	for name, ill := range map[string]bool{"store down": true, "store well": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out safeBuffer
				store := gatewaytest.NewStore()
				g, err := gateway.New(gateway.Config{
					Chains: map[string]gateway.Policy{"c": weak()}, Stores: map[string]tierlock.Backend{"m": store},
					Audit: new(gatewaytest.Audit), Logger: slog.New(slog.NewTextHandler(&out, nil)),
				})
				if err != nil {
					t.Fatal(err)
				}
				c, _ := g.Chain("c")
				store.Down(ill)
				l, _ := c.TryLock(t.Context(), "a")
				_ = l.Unlock(t.Context())
				if err := g.Apply(bypassFor(time.Hour, 1)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(58 * time.Minute)
				if strings.Contains(out.String(), "about to end") {
					t.Error("warned too early")
				}
				time.Sleep(90 * time.Second)
				if got := strings.Count(out.String(), "about to end"); got != map[bool]int{true: 1, false: 0}[ill] {
					t.Errorf("warned %d times", got)
				}
				_ = g.Close(context.Background())
			})
		})
	}
}

// safeBuffer is a bytes.Buffer for several goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// source is a switch document that a test may change.
type source struct {
	mu   sync.Mutex
	text string
}

func (s *source) set(text string) { s.mu.Lock(); s.text = text; s.mu.Unlock() }

func (s *source) Fetch(context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []byte(s.text), nil
}

func TestTheSwitchIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := new(source)
		g, err := gateway.New(gateway.Config{
			Chains: map[string]gateway.Policy{"c": weak()}, Stores: map[string]tierlock.Backend{"m": gatewaytest.NewStore()},
			Audit: new(gatewaytest.Audit), Switch: src,
		})
		if err != nil {
			t.Fatal(err)
		}
		c, _ := g.Chain("c")
		tier := func() tierlock.Tier {
			l, err := c.TryLock(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Unlock(t.Context()) }()
			return l.Grant().Tier
		}
		src.set("version: 3\nchains:\n  c: {mode: bypass, until: " + time.Now().Add(time.Hour).Format(time.RFC3339) + ", reason: r, by: b}\n")
		time.Sleep(6 * time.Second)
		if got := tier(); got != tierlock.Bypass {
			t.Errorf("6 s after the flip: tier %v", got)
		}
		src.set("")
		time.Sleep(6 * time.Second)
		if got := tier(); got != tierlock.Bypass {
			t.Errorf("an empty document ended the order: tier %v", got)
		}
		src.set("version: 4\nchains: {}\n")
		time.Sleep(6 * time.Second)
		if got := tier(); got != tierlock.Shared {
			t.Errorf("switched back: tier %v", got)
		}
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
