package gateway_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

func TestCloseLeavesHeldLocksToTheirHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := gatewaytest.NewStore()
		g, err := gateway.New(gateway.Config{Chains: map[string]gateway.Policy{"c": strong()}, Stores: map[string]tierlock.Backend{"m": store}, Audit: new(gatewaytest.Audit)})
		if err != nil {
			t.Fatal(err)
		}
		c, _ := g.Chain("c")
		l, err := c.TryLock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		work := l.Context(t.Context())
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := g.Close(t.Context()); err != nil {
			t.Errorf("closing twice: %v", err)
		}
		if store.Keys() != 1 || work.Err() != nil {
			t.Errorf("%d keys, ctx %v", store.Keys(), work.Err())
		}
		for name, call := range map[string]func() error{
			"TryLock": func() error { _, err := c.TryLock(t.Context(), "b"); return err },
			"Lock":    func() error { _, err := c.Lock(t.Context(), "b"); return err },
			"Do": func() error {
				return c.Do(t.Context(), "b", func(context.Context, tierlock.Grant) error { return nil })
			},
			"Attach": func() error {
				_, err := g.Attach(t.Context(), key(t, "biz:c:lock:b"), tierlock.NewRequestID())
				return err
			},
		} {
			if err := call(); !errors.Is(err, tierlock.ErrClosed) {
				t.Errorf("%s: %v, want ErrClosed", name, err)
			}
		}
		if err := l.Unlock(t.Context()); err != nil || store.Keys() != 0 {
			t.Errorf("unlock after close: %v, %d keys", err, store.Keys())
		}
	})
}

func TestCloseWaitsForCallsAndDoubtInsideItsContext(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		k.Store.Slow(100 * time.Millisecond)
		got := make(chan error, 1)
		go func() {
			l, err := k.TryLock(context.Background(), "a")
			_ = l.Unlock(context.Background())
			got <- err
		}()
		time.Sleep(10 * time.Millisecond)
		began := time.Now()
		if err := k.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 90*time.Millisecond {
			t.Errorf("closed after %v, before the call under way had ended", took)
		}
		if err := <-got; err != nil {
			t.Errorf("the call under way: %v", err)
		}
	})
	bubble(t, strong(), func(t *testing.T, k one) {
		k.Store.Hang(true)
		k.ask("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := k.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took > 1300*time.Millisecond {
			t.Errorf("close took %v", took)
		}
	})
}
