package gateway_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
)

func TestContextEndsWithItsCause(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		parent, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		a, b, c := k.must("a"), k.must("b"), k.must("c", gateway.WithoutRenew())
		ctxA, ctxB, ctxC := a.Context(t.Context()), b.Context(parent), c.Context(t.Context())

		if err := a.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if cause := context.Cause(ctxA); !errors.Is(cause, gateway.ErrUnlocked) || errors.Is(cause, tierlock.ErrLost) {
			t.Errorf("after Unlock: %v", cause)
		}
		if late := a.Context(t.Context()); !errors.Is(context.Cause(late), gateway.ErrUnlocked) {
			t.Errorf("a context of a lock that is over: %v", context.Cause(late))
		}
		ours := errors.New("the request was withdrawn")
		stop(ours)
		if cause := context.Cause(ctxB); !errors.Is(cause, ours) {
			t.Errorf("after the parent's end: %v", cause)
		}
		<-ctxC.Done()
		cause := context.Cause(ctxC)
		var e *tierlock.Error
		if !errors.As(cause, &e) || !errors.Is(cause, tierlock.ErrLost) || e.Key.String() != "biz:c:lock:c" {
			t.Errorf("after its time: %v", cause)
		}
		if got, want := time.Now(), c.Grant().ExpiresAt; got.Sub(want).Abs() > time.Millisecond {
			t.Errorf("ended %v from its ExpiresAt", got.Sub(want))
		}
		if l, ok := gateway.LockOf(ctxC); !ok || l != c {
			t.Error("the context does not carry its lock")
		}
		_ = b.Unlock(t.Context())
		if err := c.Unlock(t.Context()); !errors.Is(err, tierlock.ErrLost) {
			t.Errorf("unlock after its time: %v, want ErrLost", err)
		}
	})
}

// The holder knows first: with the store unreachable from the grant on, its context has
// ended before anybody else can get the key.
func TestContextEndsBeforeTheStoreGrantsAgain(t *testing.T) {
	for _, renewals := range []time.Duration{0, 20 * time.Second, 50 * time.Second} {
		t.Run(renewals.String(), func(t *testing.T) {
			p := strong()
			p.TTL = 15 * time.Second
			bubble(t, p, func(t *testing.T, k one) {
				l := k.must("a")
				ctx := l.Context(t.Context())
				time.Sleep(renewals)
				k.Store.Hang(true)
				<-ctx.Done()
				ended := time.Now()
				if !errors.Is(context.Cause(ctx), tierlock.ErrLost) {
					t.Fatalf("cause %v", context.Cause(ctx))
				}
				if k.Store.Keys() != 1 {
					t.Fatal("the store had freed the key before the context ended")
				}
				time.Sleep(time.Second)
				if k.Store.Keys() != 0 {
					t.Error("the context ended a second or more too early")
				}
				if renewals > 0 && ended.Sub(l.Grant().AcquiredAt) < renewals {
					t.Error("it was not renewed")
				}
			})
		})
	}
}

func TestRenewNeverShortensAndNeverRevives(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		l := k.must("a", gateway.WithoutRenew())
		was := l.Grant().ExpiresAt
		if err := l.Renew(t.Context(), 2*time.Second); err != nil || l.Grant().ExpiresAt != was {
			t.Errorf("renew to less: %v, moved by %v", err, l.Grant().ExpiresAt.Sub(was))
		}
		if err := l.Renew(t.Context(), 5*time.Minute); err != nil || l.Grant().ExpiresAt.Sub(was) < 4*time.Minute {
			t.Errorf("renew to more: %v, moved by %v", err, l.Grant().ExpiresAt.Sub(was))
		}
		if err := l.Renew(t.Context(), time.Hour); !errors.Is(err, tierlock.ErrInvalid) {
			t.Errorf("renew past the limit: %v", err)
		}
		_ = l.Unlock(t.Context())
		if err := l.Renew(t.Context(), time.Minute); !errors.Is(err, tierlock.ErrLost) || k.Store.Keys() != 0 {
			t.Errorf("renew after unlock: %v, %d keys", err, k.Store.Keys())
		}
	})
}

func TestALocalLockEndsHardAndABypassOneIsRenewed(t *testing.T) {
	p := weak()
	p.TTL = 15 * time.Second
	bubble(t, p, func(t *testing.T, k one) {
		k.Force("c", tierlock.ModeLocal)
		local := k.must("a")
		k.Force("c", tierlock.ModeBypass)
		fake := k.must("a")
		k.Force("c", tierlock.ModeAuto)
		end := local.Grant().ExpiresAt
		if err := local.Renew(t.Context(), time.Minute); err != nil || !local.Grant().ExpiresAt.Equal(end) {
			t.Errorf("renew: %v, moved a local lock's end by %v", err, local.Grant().ExpiresAt.Sub(end))
		}
		ctx := local.Context(t.Context())
		<-ctx.Done()
		if took := time.Since(local.Grant().AcquiredAt); took > 10*time.Second {
			t.Errorf("the local lock lasted %v", took)
		}
		time.Sleep(time.Minute)
		if g := fake.Grant(); g.Tier != tierlock.Bypass || !time.Now().Before(g.ExpiresAt) {
			t.Errorf("the bypass lock was not kept: %+v", g)
		}
		if k.Store.Counts().Renew != 0 {
			t.Error("a renewal crossed the tiers")
		}
		_ = fake.Unlock(t.Context())
	})
}

func TestNilLockHoldsNothing(t *testing.T) {
	var l *gateway.Lock
	ctx := t.Context()
	if l.Unlock(ctx) != nil || l.Context(ctx) != ctx || l.Grant() != (tierlock.Grant{}) || l.Reason() != "" {
		t.Error("a nil lock did something")
	}
	l.Report(audit.Committed)
	if ok, err := l.IsHeld(ctx); ok || err != nil {
		t.Error(ok, err)
	}
	if err := l.Renew(ctx, time.Minute); !errors.Is(err, tierlock.ErrLost) {
		t.Error(err)
	}
}
