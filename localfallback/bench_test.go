package localfallback_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/localfallback"
)

// BenchmarkPair is one acquire and its release, on 1,000 keys in turn. The design's goal
// is 300 ns.
func BenchmarkPair(b *testing.B) {
	table, err := localfallback.NewTable(localfallback.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer table.Close()
	requests := make([]tierlock.Request, 1000)
	for i := range requests {
		key, err := tierlock.ParseKey(fmt.Sprint("biz:coupon:lock:", i))
		if err != nil {
			b.Fatal(err)
		}
		requests[i].Hold = tierlock.Hold{Key: key, ID: tierlock.NewRequestID(), TTL: 10 * time.Second}
	}
	ctx := context.Background()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		req := requests[i%len(requests)]
		i++
		if answer, err := table.Acquire(ctx, req); err != nil || answer.Status != tierlock.Granted {
			b.Fatal(answer, err)
		}
		if answer, err := table.Release(ctx, req.Hold); err != nil || answer.Status != tierlock.Released {
			b.Fatal(answer, err)
		}
	}
}
