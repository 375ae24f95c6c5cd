package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/way"
)

// Callers leave at random moments while replies are on their way, until a thousand of their
// acquires are in doubt, ten thousand in a soak: a second after the last call nothing is, and
// no key stands, though the ttl is a minute.
func TestNoOrphansOfThousandsCanceled(t *testing.T) {
	t.Parallel()
	all := int64(1000)
	if soak() {
		all = 10_000
	}
	const callers, late = 500, 25 * time.Millisecond
	var settled, granted atomic.Int64 // entries of the ledger, and those of them that the store had granted
	s := newSite(t, setup{
		store:  func(c *redisstore.Config) { c.PoolSize = 64 },
		policy: func(p *gateway.Policy) { p.Ladder.Observe = true }, // nobody is kept from asking
		hooks: gateway.Hooks{Settled: func(i gateway.SettleInfo) {
			settled.Add(1)
			if i.Status == tierlock.Released {
				granted.Add(1)
			}
		}},
	})
	var calls, doubts atomic.Int64
	leave := func() {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		timer := time.AfterFunc(rand.N(2*late), cancel)
		defer timer.Stop()
		l, err := s.orders.TryLock(ctx, strconv.FormatInt(calls.Add(1), 10))
		_ = l.Unlock(t.Context())
		if f, _ := errors.AsType[*tierlock.Fault](err); f != nil && f.InDoubt {
			doubts.Add(1)
			return
		}
		<-ctx.Done() // sent nowhere, or answered before it left: no haste
	}
	began := time.Now()
	s.way.Delay(late)
	var crowd sync.WaitGroup
	for range callers {
		crowd.Go(func() {
			for doubts.Load() < all && time.Since(began) < time.Minute {
				leave()
			}
		})
	}
	crowd.Wait()
	s.way.Become(way.None)
	ended := time.Now()
	left, stand := s.gw.Status().InDoubt, len(s.locks())
	s.eventually(30*time.Second, "nothing is in doubt", func() bool { return s.gw.Status().InDoubt == 0 })
	took := tookSince(ended)
	t.Logf("%d calls in %v, %d in doubt; of those %d, with %d keys, when the last call ended, none %v later (%v by the clock); the store had granted %d of %d",
		calls.Load(), ended.Sub(began), doubts.Load(), left, stand, took, time.Since(ended), granted.Load(), settled.Load())
	if took > time.Second {
		t.Errorf("settled %v after the last call, want at most 1 s", took)
	}
	if keys := s.locks(); len(keys) > 0 {
		t.Errorf("%d keys stand, of them %q", len(keys), keys[0])
	}
	if doubts.Load() < all || granted.Load() < all/50 {
		t.Error("too few were in doubt to prove anything")
	}
}
