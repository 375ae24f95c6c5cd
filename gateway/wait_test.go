package gateway_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

func TestLockWaitsForTheHolder(t *testing.T) {
	var hook heard[gateway.AcquireInfo]
	bubble(t, strong(), func(t *testing.T, k one) {
		holder := k.must("a")
		time.AfterFunc(150*time.Millisecond, func() { _ = holder.Unlock(context.Background()) })
		began := time.Now()
		l, err := k.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 150*time.Millisecond || took > 300*time.Millisecond {
			t.Errorf("got it after %v", took)
		}
		told := hook.told()
		if w := told[len(told)-1].Waited; w < 150*time.Millisecond {
			t.Errorf("told a wait of %v", w)
		}
		_ = l.Unlock(t.Context())
	}, gateway.Hooks{Acquired: hook.hear})
}

func TestAWaitEnds(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		k.must("a")
		for _, wait := range []time.Duration{0, 30 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second} {
			began, asked := time.Now(), k.Store.Counts().Acquire
			_, err := k.Lock(t.Context(), "a", gateway.WithWait(wait))
			if !errors.Is(err, tierlock.ErrHeld) || errors.Is(err, tierlock.ErrTimeout) {
				t.Errorf("wait %v: %v, want ErrHeld", wait, err)
			}
			if took := time.Since(began); took > wait+time.Millisecond {
				t.Errorf("wait %v took %v", wait, took)
			}
			if n := k.Store.Counts().Acquire - asked; n > 28 {
				t.Errorf("wait %v asked %d times", wait, n)
			}
		}
	})
}

func TestAnAttemptEndsWithTheWait(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		k.Store.Hang(true)
		began := time.Now()
		_, err := k.Lock(t.Context(), "a", gateway.WithWait(50*time.Millisecond))
		if !errors.Is(err, tierlock.ErrTimeout) || time.Since(began) > 70*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestOnceHeldACallEndsAsFailure(t *testing.T) {
	bubble(t, guarded(), func(t *testing.T, k one) {
		k.must("a")
		time.AfterFunc(50*time.Millisecond, func() { k.Store.Hang(true) })
		_, err := k.Lock(t.Context(), "a")
		if !errors.Is(err, tierlock.ErrHeld) || errors.Is(err, tierlock.ErrOptimistic) {
			t.Errorf("got %v, want ErrHeld", err)
		}
		k.Store.Hang(false)

		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = k.Lock(ctx, "a")
		if !errors.Is(err, tierlock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ctx ended while waiting: %v, want ErrHeld that unwraps to the ctx's error", err)
		}
	})
}

func TestACallersOwnEndIsNoAdvice(t *testing.T) {
	bubble(t, guarded(), func(t *testing.T, k one) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		asked := k.Store.Counts().Acquire
		_, err := k.TryLock(ended, "a")
		if v := verdict(t, err); v.Outcome != tierlock.Timeout || v.Reason != tierlock.ReasonCanceled || v.Advice != 0 {
			t.Errorf("ended before: %+v", v)
		}
		if k.Store.Counts().Acquire != asked {
			t.Error("the store was asked for a caller who is gone")
		}
		k.Store.Hang(true)
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = k.TryLock(short, "a")
		if v := verdict(t, err); v.Reason != tierlock.ReasonCanceled || v.Advice != 0 || errors.Is(err, tierlock.ErrOptimistic) {
			t.Errorf("ended during: %+v", v)
		}
	})
}

func TestLocalWaitersAreWokenByTheRelease(t *testing.T) {
	p := weak()
	p.Local.Permits = 1
	bubble(t, p, func(t *testing.T, k one) {
		k.Force("c", tierlock.ModeLocal)
		holder := k.must("a")
		time.AfterFunc(137*time.Millisecond, func() { _ = holder.Unlock(context.Background()) })
		began := time.Now()
		l, err := k.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 137*time.Millisecond {
			t.Errorf("woken after %v", took)
		}
		_ = l.Unlock(t.Context())
	})
}
