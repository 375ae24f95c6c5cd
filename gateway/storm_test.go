package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

// Everything that may be called at once is: by few request ids on few keys, so that calls
// meet on one handle, while the store fails and mends, orders come and go, and the gateway
// is closed in the middle. Nothing is left, and no call panics or hangs.
func TestEverythingAtOnceThroughClose(t *testing.T) {
	for round := range 4 {
		kit := gatewaytest.New(t, map[string]gateway.Policy{"c": weak(), "s": strong()})
		storm := newMeeting(t, kit, round)
		storm.run()
		// Only when nobody breaks the store any more. Else, on a busy machine, it went like this:
		// whoever breaks it looks at the time, and does not get to run for a while; the store is
		// mended here; he takes it down, for good, and what is in doubt stays so.
		storm.breaking.Wait()
		kit.Store.Mend()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if err := kit.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		cancel()
		storm.all.Wait()
		for _, l := range storm.locks { // of those that a retry found, and nobody gave back
			_ = l.Unlock(context.Background())
		}
		s := kit.Status()
		for _, c := range s.Chains {
			if c.Live != 0 || c.Local != 0 {
				t.Errorf("chain %s: %d live, %d local", c.Chain, c.Live, c.Local)
			}
			for _, target := range c.Targets {
				if target.Out != 0 {
					t.Errorf("chain %s: %d out on the wire", c.Chain, target.Out)
				}
			}
		}
		if n := kit.Store.Keys(); n != 0 || s.InDoubt != 0 {
			t.Errorf("%d keys, %d in doubt", n, s.InDoubt)
		}
		if storm.granted.Load() == 0 {
			t.Error("nothing was granted")
		}
	}
}

type meeting struct {
	t      *testing.T
	kit    *gatewaytest.Kit
	chains []*gateway.Chain
	ids    []tierlock.RequestID
	all    sync.WaitGroup

	breaking sync.WaitGroup // whoever breaks the store
	granted  atomic.Int64

	mu    sync.Mutex
	locks []*gateway.Lock // guarded by mu
}

func newMeeting(t *testing.T, kit *gatewaytest.Kit, round int) *meeting {
	m := &meeting{t: t, kit: kit, chains: []*gateway.Chain{chain(t, kit.Gateway, "c"), chain(t, kit.Gateway, "s")}}
	for range 3 {
		m.ids = append(m.ids, tierlock.NewRequestID())
	}
	return m
}

func (m *meeting) run() {
	end := time.Now().Add(500 * time.Millisecond)
	for range 12 {
		m.all.Go(func() {
			for time.Now().Before(end) {
				m.call()
			}
		})
	}
	m.breaking.Go(func() {
		for i := 0; time.Now().Before(end.Add(-100 * time.Millisecond)); i++ {
			m.kit.Force([]string{"c", "s"}[i%2], tierlock.Mode(i%6+1))
			m.kit.Store.Down(i%7 == 0)
			m.kit.Store.DropReplies(i % 3)
			pause(3 * time.Millisecond)
		}
		m.kit.Force("c", tierlock.ModeAuto)
		m.kit.Force("s", tierlock.ModeAuto)
	})
	pause(450 * time.Millisecond) // and Close comes while they still call
}

func (m *meeting) call() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.N(20)+1)*time.Millisecond)
	defer cancel()
	c, id := m.chains[rand.N(2)], m.ids[rand.N(3)]
	name := fmt.Sprint("k", rand.N(2))
	key, _ := tierlock.ParseKey("biz:" + c.Name() + ":lock:" + name)
	var l *gateway.Lock
	var err error
	switch rand.N(4) {
	case 0:
		l, err = c.TryLock(ctx, name, gateway.WithRequestID(id))
	case 1:
		l, err = c.Lock(ctx, name)
	case 2:
		l, err = m.kit.Attach(ctx, key, id)
	case 3:
		err = c.Do(ctx, name, func(context.Context, tierlock.Grant) error { return nil }, gateway.WithRequestID(id))
	}
	if err != nil && !errors.Is(err, tierlock.ErrClosed) {
		if _, ok := errors.AsType[*tierlock.Error](err); !ok {
			m.t.Errorf("an error of no kind: %v", err)
		}
	}
	if l == nil {
		return
	}
	m.granted.Add(1)
	m.mu.Lock()
	m.locks = append(m.locks, l)
	m.mu.Unlock()
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			work := l.Context(context.Background())
			_ = l.Renew(ctx, time.Minute)
			_ = l.Unlock(ctx)
			_ = l.Renew(ctx, time.Minute)
			_, _ = l.IsHeld(ctx)
			<-work.Done()
		})
	}
	both.Wait()
}
