package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/switchcfg"
)

// shop is what a service opens at its start. Stores and recorder live in memory here; a
// real one takes redisstore.New and audit.Open.
func shop() (*gateway.Gateway, *gatewaytest.Store) {
	store := gatewaytest.NewStore()
	order := gateway.Strong("one sale of a sku at a time", gateway.Fence)
	order.Ladder.VersionGuard = true // every writer compares and bumps the row's version
	gw, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{
			"order":  order,
			"coupon": gateway.Weak("one claim of a coupon per user at a time", gateway.Reconcile),
		},
		Stores: map[string]tierlock.Backend{"main": store},
		Audit:  new(gatewaytest.Audit),
	})
	if err != nil {
		panic(err)
	}
	return gw, store
}

// Take a lock, work under it, give it back.
func ExampleChain_TryLock() {
	gw, _ := shop()
	defer func() { _ = gw.Close(context.Background()) }()
	orders, _ := gw.Chain("order")
	ctx := context.Background()

	lock, err := orders.TryLock(ctx, "10086", gateway.About(audit.Business{Type: "sku", ID: "10086", Op: "sell", Delta: -1}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = lock.Unlock(ctx) }()
	g := lock.Grant()
	fmt.Println(g.Key, g.Tier, g.Exclusive, "token", g.Token)

	_, err = orders.TryLock(ctx, "10086")
	fmt.Println(errors.Is(err, tierlock.ErrHeld))
	// Output:
	// biz:order:lock:10086 shared true token 1
	// true
}

// Wait for the holder, at most a second.
func ExampleChain_Lock() {
	gw, _ := shop()
	defer func() { _ = gw.Close(context.Background()) }()
	orders, _ := gw.Chain("order")
	ctx := context.Background()

	first, _ := orders.TryLock(ctx, "10086")
	time.AfterFunc(50*time.Millisecond, func() { _ = first.Unlock(ctx) })

	lock, err := orders.Lock(ctx, "10086", gateway.WithWait(time.Second))
	fmt.Println(lock.Grant().Tier, err)
	_ = lock.Unlock(ctx)
	// Output: shared <nil>
}

// Do takes the lock, gives the work a context that ends with it, and unlocks.
func ExampleChain_Do() {
	gw, _ := shop()
	defer func() { _ = gw.Close(context.Background()) }()
	coupons, _ := gw.Chain("coupon")

	err := coupons.Do(context.Background(), "u42-c7", func(ctx context.Context, g tierlock.Grant) error {
		fmt.Println("claim under", g.Tier)
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// claim under shared
	// <nil>
}

// Code that takes the lock itself may be called by code that has it: under the lock's
// context it enters, and waits for nobody. The last Unlock frees the key.
func ExampleReenter() {
	gw, store := shop()
	defer func() { _ = gw.Close(context.Background()) }()
	orders, _ := gw.Chain("order")
	ctx := context.Background()

	outer, _ := orders.Lock(ctx, "10086")
	inner, err := orders.Lock(outer.Context(ctx), "10086")
	fmt.Println(err, inner.Grant() == outer.Grant(), store.Depth("biz:order:lock:10086"))

	// From where no such context leads to, by the request id.
	third, err := orders.TryLock(ctx, "10086", gateway.Reenter(outer.Grant().RequestID))
	fmt.Println(err, store.Depth("biz:order:lock:10086"))
	_ = outer.Unlock(ctx)
	_ = inner.Unlock(ctx)
	fmt.Println(store.Keys())
	_ = third.Unlock(ctx)
	fmt.Println(store.Keys())
	// Output:
	// <nil> true 2
	// <nil> 3
	// 1
	// 0
}

// An order with several lines: all of its skus or none, whatever order others ask in.
func ExampleChain_LockAll() {
	gw, store := shop()
	defer func() { _ = gw.Close(context.Background()) }()
	orders, _ := gw.Chain("order")
	ctx := context.Background()

	locks, err := orders.LockAll(ctx, []string{"10087", "10086", "10087"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = locks.Unlock(ctx) }()
	for _, g := range locks.Grants() {
		fmt.Println(g.Key, g.Tier, g.Token > 0)
	}
	fmt.Println(locks.Context(ctx).Err(), store.Keys())

	_, err = orders.LockAll(ctx, []string{"10085", "10086"}, gateway.WithWait(0))
	fmt.Println(errors.Is(err, tierlock.ErrHeld))
	// Output:
	// biz:order:lock:10086 shared true
	// biz:order:lock:10087 shared true
	// <nil> 2
	// true
}

// Where the store cannot answer, a chain with a version guard goes on by one statement that
// compares a version.
func ExampleOptimistically() {
	gw, store := shop()
	defer func() { _ = gw.Close(context.Background()) }()
	orders, _ := gw.Chain("order")

	store.Down(true)
	err := orders.Do(context.Background(), "10086",
		func(context.Context, tierlock.Grant) error { fmt.Println("under the lock"); return nil },
		gateway.Optimistically(func(context.Context) error {
			fmt.Println("UPDATE stock SET left = left - 1, version = version + 1 WHERE sku = 10086 AND version = 7")
			return nil
		}))
	fmt.Println(err)
	store.Mend()
	// Output:
	// UPDATE stock SET left = left - 1, version = version + 1 WHERE sku = 10086 AND version = 7
	// <nil>
}

// Work stops when its lock is lost: here the store forgot the key.
func ExampleLock_Context() {
	gw, store := shop()
	defer func() { _ = gw.Close(context.Background()) }()
	orders, _ := gw.Chain("order")
	ctx := context.Background()

	lock, _ := orders.TryLock(ctx, "10086", gateway.WithTTL(time.Second))
	defer func() { _ = lock.Unlock(ctx) }()
	work := lock.Context(ctx)
	store.Lose("biz:order:lock:10086")

	<-work.Done()
	fmt.Println(errors.Is(context.Cause(work), tierlock.ErrLost))
	// Output: true
}

// An operator's order puts a weak chain into bypass for an hour: every call is granted, and
// each grant is on the disk before the caller has it.
func ExampleGateway_Apply() {
	gw, store := shop()
	defer func() { _ = gw.Close(context.Background()) }()
	coupons, _ := gw.Chain("coupon")
	ctx := context.Background()

	store.Down(true)
	err := gw.Apply(switchcfg.Document{Version: 42, Chains: map[string]switchcfg.Directive{
		"coupon": {Mode: tierlock.ModeBypass, Until: time.Now().Add(time.Hour), Reason: "store under attack", By: "oncall"},
	}})
	fmt.Println(err)
	lock, _ := coupons.TryLock(ctx, "u42-c7")
	fmt.Println(lock.Grant().Tier, lock.Grant().Exclusive, lock.Reason())
	_ = lock.Unlock(ctx)
	store.Mend()
	// Output:
	// <nil>
	// bypass false forced
}

// What a dashboard shows.
func ExampleGateway_Status() {
	gw, store := shop()
	defer func() { _ = gw.Close(context.Background()) }()
	coupons, _ := gw.Chain("coupon")

	store.Down(true)
	lock, _ := coupons.TryLock(context.Background(), "u42-c7")
	for _, c := range gw.Status().Chains {
		for _, t := range c.Targets {
			fmt.Println(c.Chain, c.Class, t.State, t.Tier, t.Reason, c.Live)
		}
	}
	_ = lock.Unlock(context.Background())
	store.Mend()
	// Output:
	// coupon weak down local down 1
	// order strong down optimistic down 0
}
