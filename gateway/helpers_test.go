package gateway_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

// The three kinds of chain of the truth table.
func strong() gateway.Policy {
	p := gateway.Strong("one sale of a sku at a time", gateway.Fence)
	p.TTL = time.Minute // so that nothing below is freed by its ttl alone
	return p
}

func guarded() gateway.Policy {
	p := strong()
	p.Ladder.VersionGuard = true
	return p
}

func weak() gateway.Policy {
	p := gateway.Weak("one claim of a coupon per user at a time", gateway.Reconcile)
	p.TTL = time.Minute
	return p
}

// one is a Kit with the one chain "c".
type one struct {
	*gatewaytest.Kit
	*gateway.Chain
	t *testing.T
}

// bubble runs f on a chain of that policy inside a synctest bubble.
func bubble(t *testing.T, p gateway.Policy, f func(t *testing.T, k one), hooks ...gateway.Hooks) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := newOne(t, p, hooks...)
		f(t, k)
		k.End()
	})
}

func newOne(t *testing.T, p gateway.Policy, hooks ...gateway.Hooks) one {
	t.Helper()
	kit := gatewaytest.New(t, map[string]gateway.Policy{"c": p}, hooks...)
	c, err := kit.Chain("c")
	if err != nil {
		t.Fatal(err)
	}
	return one{kit, c, t}
}

// must locks id or fails the test.
func (k one) must(id string, opts ...gateway.Option) *gateway.Lock {
	k.t.Helper()
	l, err := k.TryLock(context.Background(), id, opts...)
	if err != nil {
		k.t.Fatalf("lock %s: %v", id, err)
	}
	return l
}

// ask locks id, unlocks it, and tells on which tier it was; the error's verdict else.
func (k one) ask(id string) (tierlock.Tier, tierlock.Verdict) {
	k.t.Helper()
	l, err := k.TryLock(context.Background(), id)
	if err != nil {
		return 0, verdict(k.t, err)
	}
	defer func() { _ = l.Unlock(context.Background()) }()
	return l.Grant().Tier, tierlock.Verdict{Outcome: tierlock.Success}
}

func verdict(t *testing.T, err error) tierlock.Verdict {
	t.Helper()
	e, ok := errors.AsType[*tierlock.Error](err)
	if !ok {
		t.Fatalf("want a *tierlock.Error, got %v", err)
	}
	return e.Verdict
}

// slowDown makes the chain's store slow and its machine know it.
func (k one) slowDown() {
	k.Store.Slow(300 * time.Millisecond)
	for range 8 {
		go func() {
			l, _ := k.TryLock(context.Background(), "slow"+tierlock.NewRequestID().Fingerprint())
			_ = l.Unlock(context.Background())
		}()
	}
	time.Sleep(300 * time.Millisecond)
}

// takeDown makes the chain's store refuse everything and its machine know it.
func (k one) takeDown() {
	k.Store.Down(true)
	k.ask("down")
}

// eventually waits in the bubble's time.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// heard collects what a hook was told, on whatever goroutine.
type heard[T any] struct {
	mu  sync.Mutex
	all []T
}

func (h *heard[T]) hear(v T) {
	h.mu.Lock()
	h.all = append(h.all, v)
	h.mu.Unlock()
}

func (h *heard[T]) told() []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}
