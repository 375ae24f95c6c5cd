package gatewaytest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

// claims is a service that embeds the gateway; unlocked counts what its own fallback did.
type claims struct {
	coupons  *gateway.Chain
	unlocked int
}

func (c *claims) claim(ctx context.Context, id string) error {
	lock, err := c.coupons.TryLock(ctx, id)
	if errors.Is(err, tierlock.ErrOptimistic) {
		c.unlocked++ // insert under the unique index and let it decide
		return nil
	}
	if err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

// A test of the embedder's own fallback: force the tier, run the code, look.
func Example() {
	testing.Init()
	t := new(testing.T) // your test's own
	kit := gatewaytest.New(t, map[string]gateway.Policy{
		"coupon": gateway.Weak("one claim of a coupon per user at a time", gateway.Reconcile),
	})
	defer kit.End()
	coupons, _ := kit.Chain("coupon")
	service := &claims{coupons: coupons}

	kit.Force("coupon", tierlock.ModeOptimistic)
	fmt.Println(service.claim(context.Background(), "u42-c7"), service.unlocked)
	fmt.Println(kit.Audit.Events()[0].Type, kit.Store.Counts().Acquire)
	// Output:
	// <nil> 1
	// optimistic 0
}
