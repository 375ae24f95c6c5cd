package gateway_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
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
