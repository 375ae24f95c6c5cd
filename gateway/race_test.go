package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

// No race lets a shared and a local hold of this process have one key at the same time,
// whatever flips while they are on their way: see the comment on useShared.
func TestSharedAndLocalNeverOverlapInAProcess(t *testing.T) {
	const keys = 4
	p := weak()
	p.Local.Permits = 3
	kit := gatewaytest.New(t, map[string]gateway.Policy{"c": p})
	c, err := kit.Chain("c")
	if err != nil {
		t.Fatal(err)
	}
	var inside [keys]struct{ shared, local atomic.Int64 }
	var overlaps, shared, local atomic.Int64
	var all sync.WaitGroup
	end := time.Now().Add(2 * time.Second)
	for w := range 16 {
		all.Go(func() {
			for i := w; time.Now().Before(end); i++ {
				l, err := c.TryLock(t.Context(), fmt.Sprint("k", i%keys))
				if err != nil {
					continue
				}
				in := &inside[i%keys]
				switch l.Grant().Tier {
				case tierlock.Shared:
					shared.Add(1)
					if in.shared.Add(1) > 1 || in.local.Load() > 0 {
						overlaps.Add(1)
					}
					in.shared.Add(-1)
				case tierlock.Local:
					local.Add(1)
					in.local.Add(1)
					if in.shared.Load() > 0 {
						overlaps.Add(1)
					}
					in.local.Add(-1)
				}
				_ = l.Unlock(t.Context())
			}
		})
	}
	all.Go(func() {
		flips(end, 200*time.Microsecond, func(i int) {
			kit.Force("c", []tierlock.Mode{tierlock.ModeShared, tierlock.ModeLocal}[i%2])
		})
	})
	all.Wait()
	kit.Force("c", tierlock.ModeAuto)
	if shared.Load() == 0 || local.Load() == 0 {
		t.Fatalf("%d shared and %d local holds: the storm met only one of them", shared.Load(), local.Load())
	}
	if n := overlaps.Load(); n != 0 {
		t.Errorf("%d overlaps among %d shared and %d local holds", n, shared.Load(), local.Load())
	}
}

// The storm seldom meets the two windows below, since a flip sends most requests back
// anyway. These walk through them step by step.
func TestALateSharedGrantSeesTheLocalHolder(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		k.Store.Slow(100 * time.Millisecond)
		var local *gateway.Lock
		time.AfterFunc(20*time.Millisecond, func() { // the shared request has looked into the table already
			k.Force("c", tierlock.ModeLocal)
			local, _ = k.TryLock(context.Background(), "a")
			k.Force("c", tierlock.ModeShared)
		})
		_, v := k.ask("a")
		if v.Outcome != tierlock.Failure || local.Grant().Tier != tierlock.Local {
			t.Errorf("got %+v beside a local holder (%v)", v, local.Grant().Tier)
		}
		eventually(t, time.Second, "the late grant given back", func() bool { return k.Store.Keys() == 0 })
		_ = local.Unlock(t.Context())
	})
}

// entering acts once before a request enters the table.
type entering struct {
	tierlock.Backend
	act func()
}

func (e *entering) Acquire(ctx context.Context, req tierlock.Request) (tierlock.Answer, error) {
	if act := e.act; act != nil {
		e.act = nil
		act()
	}
	return e.Backend.Acquire(ctx, req)
}

func TestALocalRequestSeesTheSharedHolderThatCameFirst(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		var shared *gateway.Lock
		k.WrapLocal(func(b tierlock.Backend) tierlock.Backend {
			return &entering{b, func() { // the local request has looked into the registry already
				k.Force("c", tierlock.ModeShared)
				shared = k.must("a")
				k.Force("c", tierlock.ModeLocal)
			}}
		})
		k.Force("c", tierlock.ModeLocal)
		_, v := k.ask("a")
		if v.Outcome != tierlock.Failure || shared.Grant().Tier != tierlock.Shared {
			t.Errorf("got %+v beside a shared holder (%v)", v, shared.Grant().Tier)
		}
		if n := k.Status().Chains[0].Local; n != 0 {
			t.Errorf("%d local holders left", n)
		}
		_ = shared.Unlock(t.Context())
	})
}

// forgetful answers a renewal only when told to.
type forgetful struct {
	entering
	answer chan struct{}
}

func (f *forgetful) Renew(ctx context.Context, holds []tierlock.Hold) ([]tierlock.Answer, error) {
	answers, err := f.Backend.Renew(ctx, holds)
	<-f.answer
	return answers, err
}

// A repeat of a request may be granted anew what its first lock has lost without knowing.
// Both are one lock then, and giving it back must give back the new hold.
func TestALockThatWasGrantedAnewIsGivenBack(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		id := gateway.WithRequestID(tierlock.NewRequestID())
		table := &forgetful{answer: make(chan struct{})}
		var first *gateway.Lock
		var renewal sync.WaitGroup
		table.act = func() { // the repeat has looked into the registry already
			first = k.must("a", id)
			g := first.Grant()
			if _, err := table.Release(t.Context(), tierlock.Hold{Key: g.Key, ID: g.RequestID}); err != nil {
				t.Error(err)
			}
			renewal.Go(func() {
				if err := first.Renew(t.Context(), time.Minute); !errors.Is(err, tierlock.ErrLost) {
					t.Errorf("renewal: %v", err)
				}
			})
			synctest.Wait()
		}
		k.WrapLocal(func(b tierlock.Backend) tierlock.Backend { table.Backend = b; return table })
		k.Force("c", tierlock.ModeLocal)
		again := k.must("a", id)
		close(table.answer)
		renewal.Wait()
		if again != first {
			t.Fatalf("got %p and %p", first, again)
		}
		_ = again.Unlock(t.Context())
		if n := k.Status().Chains[0].Local; n != 0 {
			t.Errorf("%d local holders left", n)
		}
	})
}
