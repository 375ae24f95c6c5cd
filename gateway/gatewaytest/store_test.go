package gatewaytest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

func request(t *testing.T, key string) tierlock.Request {
	t.Helper()
	k, err := tierlock.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return tierlock.Request{Hold: tierlock.Hold{Key: k, ID: tierlock.NewRequestID(), TTL: time.Minute}, NotAfter: time.Now().Add(200 * time.Millisecond), Fenced: true}
}

func TestStoreKeepsTheRulesOfABackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := gatewaytest.NewStore(), t.Context()
		a, b := request(t, "k"), request(t, "k")
		steps := []struct {
			name string
			ask  func() (tierlock.Answer, error)
			want tierlock.Status
		}{
			{"grants", func() (tierlock.Answer, error) { return s.Acquire(ctx, a) }, tierlock.Granted},
			{"knows its own", func() (tierlock.Answer, error) { return s.Acquire(ctx, a) }, tierlock.Mine},
			{"refuses another", func() (tierlock.Answer, error) { return s.Acquire(ctx, b) }, tierlock.Held},
			{"looks up its own", func() (tierlock.Answer, error) { return s.Lookup(ctx, a.Hold) }, tierlock.Mine},
			{"looks up another's", func() (tierlock.Answer, error) { return s.Lookup(ctx, b.Hold) }, tierlock.Held},
			{"frees nobody else's", func() (tierlock.Answer, error) { return s.Release(ctx, b.Hold) }, tierlock.Held},
			{"frees", func() (tierlock.Answer, error) { return s.Release(ctx, a.Hold) }, tierlock.Released},
			{"frees once", func() (tierlock.Answer, error) { return s.Release(ctx, a.Hold) }, tierlock.Gone},
			{"refuses the late", func() (tierlock.Answer, error) { time.Sleep(time.Second); return s.Acquire(ctx, b) }, tierlock.Late},
		}
		for _, step := range steps {
			if ans, err := step.ask(); err != nil || ans.Status != step.want {
				t.Errorf("%s: %v, %v, want %v", step.name, ans.Status, err, step.want)
			}
		}
		c := request(t, "k")
		ans, _ := s.Acquire(ctx, c)
		if ans.Token != 2 || s.Keys() != 1 {
			t.Errorf("token %d after 1, %d keys", ans.Token, s.Keys())
		}
		time.Sleep(time.Minute)
		if answers, err := s.Renew(ctx, []tierlock.Hold{c.Hold}); err != nil || answers[0].Status != tierlock.Gone || s.Keys() != 0 {
			t.Errorf("renew of what expired: %+v, %v", answers, err)
		}
	})
}

func TestStoreFailsAsTold(t *testing.T) {
	cases := map[string]struct {
		breakIt func(*gatewaytest.Store)
		reason  tierlock.Reason
		doubt   bool
		took    time.Duration
		keys    int // after the store is mended, the deadline long past
	}{
		"down":      {func(s *gatewaytest.Store) { s.Down(true) }, tierlock.ReasonDown, false, 0, 0},
		"hangs":     {func(s *gatewaytest.Store) { s.Hang(true) }, tierlock.ReasonAttempt, true, 200 * time.Millisecond, 0},
		"slow":      {func(s *gatewaytest.Store) { s.Slow(time.Second) }, tierlock.ReasonAttempt, true, 200 * time.Millisecond, 1},
		"saturated": {func(s *gatewaytest.Store) { s.Saturate(true) }, tierlock.ReasonSaturated, false, 200 * time.Millisecond, 0},
		"no reply":  {func(s *gatewaytest.Store) { s.DropReplies(1) }, tierlock.ReasonBroken, true, 0, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := gatewaytest.NewStore()
				c.breakIt(s)
				req, began := request(t, "k"), time.Now()
				_, err := s.Acquire(tierlock.Until(t.Context(), req.NotAfter), req)
				var f *tierlock.Fault
				if !errors.As(err, &f) || f.Reason != c.reason || f.InDoubt != c.doubt || time.Since(began) != c.took {
					t.Errorf("%+v after %v", err, time.Since(began))
				}
				time.Sleep(time.Second)
				s.Mend()
				synctest.Wait()
				if s.Keys() != c.keys {
					t.Errorf("%d keys, want %d", s.Keys(), c.keys)
				}
				if _, err := s.Lookup(t.Context(), req.Hold); err != nil {
					t.Errorf("mended: %v", err)
				}
			})
		})
	}
}

func TestKitForcesThroughTheRealSwitchAndLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := gatewaytest.New(t, map[string]gateway.Policy{
			"order": gateway.Strong("p", gateway.Fence), "coupon": gateway.Weak("p", gateway.Reconcile),
		})
		kit.Force("order", tierlock.ModeLocal)
		kit.ForceFor("coupon", tierlock.ModeBypass, time.Minute)
		tier := func(name string) tierlock.Tier {
			c, err := kit.Chain(name)
			if err != nil {
				t.Fatal(err)
			}
			l, err := c.TryLock(context.Background(), "a")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Unlock(context.Background()) }()
			return l.Grant().Tier
		}
		if a, b := tier("order"), tier("coupon"); a != tierlock.Local || b != tierlock.Bypass {
			t.Errorf("tiers %v, %v", a, b)
		}
		time.Sleep(2 * time.Minute)
		kit.Force("order", tierlock.ModeAuto)
		if a, b := tier("order"), tier("coupon"); a != tierlock.Shared || b != tierlock.Shared {
			t.Errorf("tiers %v, %v after their orders", a, b)
		}
		kit.End()
	})
}

func TestAuditFailsAsTold(t *testing.T) {
	a, full := new(gatewaytest.Audit), errors.New("disk full")
	ctx := t.Context()
	if err := a.Record(ctx, &audit.Event{Type: audit.TypeAcquire}); err != nil {
		t.Error(err)
	}
	a.Fail(full)
	a.Note(&audit.Event{Type: audit.TypeEnd})
	if err := a.Record(ctx, &audit.Event{}); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if err := a.Record(ctx, &audit.Event{OnFull: audit.Shed}); err != nil || a.Shed() != 1 || len(a.Events()) != 1 {
		t.Errorf("shed: %v, %d shed, %d events", err, a.Shed(), len(a.Events()))
	}
	if a.Status().Applied != 0 {
		t.Error("a status nobody described")
	}
}
