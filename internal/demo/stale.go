//go:build !nodemo

package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/examples/order"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/guard"
)

// sleeper is a holder that does everything wrong: it takes a short lock, renews nothing,
// sleeps past its end and writes all the same. What it writes must be refused, twice over:
//
//  1. by the version, while the store is down: an optimistic sale has bumped the row since
//     the sleeper read it, and carries no token that could outbid the sleeper's;
//  2. by the token, when the store is back: another holder has entered since. Here the
//     sleeper reads the row again before it writes, so nothing but the token can stop it.
type sleeper struct {
	load    *load
	sku     string // its own: nobody else sells it
	lock    *gateway.Lock
	done    <-chan struct{} // of the lock's context
	version int64           // as read under the lock
	leave   func()
	call    *call
	tried   int
	refused int
}

// take takes the lock and reads. It tries until the store grants or ctx ends.
func (s *sleeper) take(ctx context.Context, in *instance) error {
	if err := s.load.shop.offer(ctx, s.sku, plenty); err != nil {
		return err
	}
	orders, err := in.gw.Chain(order.Chain)
	if err != nil {
		return err
	}
	s.load.requests.Add(1)
	var held context.Context
	held, s.call = s.load.scene.oracle.begin(ctx)
	s.lock, err = orders.TryLock(held, s.sku, gateway.WithTTL(s.load.scene.timetable.StaleTTL), gateway.WithoutRenew())
	if err != nil {
		s.call.end()
		return err
	}
	held = s.lock.Context(held)
	s.done = held.Done()
	s.leave = s.load.scene.oracle.watch(held, s.lock.Grant())
	s.version, err = in.orders.Look(held, s.lock.Grant(), s.sku)
	return err
}

// asleep tells whether it got its lock, and so has something to oversleep.
func (s *sleeper) asleep() bool { return s.lock != nil }

// oversleep waits until the lock has ended by itself.
func (s *sleeper) oversleep(ctx context.Context) error {
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.load.scene.timetable.StaleTTL + 5*time.Second):
		return errors.New("the lock of the sleeping holder never ended")
	}
}

// overtake sells one piece of the same sku through another instance, under a lock or not.
func (s *sleeper) overtake(ctx context.Context, in *instance) (underLock bool, err error) {
	ctx, c := s.load.scene.oracle.begin(ctx)
	s.load.requests.Add(1)
	err = in.orders.Place(ctx, order.Order{ID: s.load.id("o"), SKU: s.sku})
	c.end()
	return c.locked(), err
}

// writeOldVersion writes what was read under the lock.
func (s *sleeper) writeOldVersion(ctx context.Context, in *instance) error {
	return s.count(in.orders.Sell(ctx, s.lock.Grant(), s.version, order.Order{ID: s.load.id("stale"), SKU: s.sku}))
}

// writeOldToken reads again and then writes, still with its own token.
func (s *sleeper) writeOldToken(ctx context.Context, in *instance) error {
	version, err := in.orders.Look(ctx, s.lock.Grant(), s.sku)
	if err == nil {
		err = in.orders.Sell(ctx, s.lock.Grant(), version, order.Order{ID: s.load.id("stale"), SKU: s.sku})
	}
	return s.count(err)
}

// count counts one attempt; any answer but yes and stale means that nothing was tried.
func (s *sleeper) count(err error) error {
	switch {
	case errors.Is(err, guard.ErrStale):
		s.refused++
	case err != nil:
		return fmt.Errorf("the sleeping holder could not even try to write: %w", err)
	}
	s.tried++
	return nil
}

// wake gives the lock back, long after it ended.
func (s *sleeper) wake(ctx context.Context) {
	if s.lock == nil {
		return
	}
	s.leave()
	if err := s.lock.Unlock(ctx); err != nil && !errors.Is(err, tierlock.ErrLost) {
		s.load.scene.log.Info("the sleeping holder unlocked", "error", err)
	}
	s.call.end()
	s.lock = nil
}
