package gateway_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
)

// free is a store that costs nothing: what is measured over it is the gateway.
type free struct{}

func (free) Traits() tierlock.Traits {
	return tierlock.Traits{Store: "free", Tier: tierlock.Shared, Scope: tierlock.ScopeCluster, Fences: true, Wire: 1 << 20}
}

func (free) Acquire(_ context.Context, r tierlock.Request) (tierlock.Answer, error) {
	return tierlock.Answer{Status: tierlock.Granted, Exclusive: true, Token: 1, Until: r.NotAfter.Add(r.TTL)}, nil
}

func (free) Renew(_ context.Context, holds []tierlock.Hold) ([]tierlock.Answer, error) {
	answers := make([]tierlock.Answer, len(holds))
	for i, h := range holds {
		answers[i] = tierlock.Answer{Status: tierlock.Mine, Until: time.Now().Add(h.TTL)}
	}
	return answers, nil
}

func (free) Release(context.Context, tierlock.Hold) (tierlock.Answer, error) {
	return tierlock.Answer{Status: tierlock.Released}, nil
}

func (free) Lookup(context.Context, tierlock.Hold) (tierlock.Answer, error) {
	return tierlock.Answer{Status: tierlock.Mine}, nil
}

// counting is a recorder that takes everything and keeps nothing.
type counting struct{ recorded, noted int }

func (c *counting) Record(context.Context, *audit.Event) error { c.recorded++; return nil }
func (c *counting) Note(*audit.Event)                          { c.noted++ }

func onFree(tb testing.TB) (*gateway.Chain, *counting) {
	tb.Helper()
	rec := new(counting)
	g, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{"order": gateway.Strong("one sale of a sku at a time", gateway.Fence)},
		Stores: map[string]tierlock.Backend{"free": free{}}, Audit: rec,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = g.Close(context.Background()) })
	c, err := g.Chain("order")
	if err != nil {
		tb.Fatal(err)
	}
	return c, rec
}

// The whole way of a lock costs at most four allocations over the bare store call, its two
// events included. From the design's numbers.
func TestAllocationsOfAPair(t *testing.T) {
	c, rec := onFree(t)
	ctx := t.Context()
	for name, lock := range map[string]func(context.Context, string, ...gateway.Option) (*gateway.Lock, error){"TryLock": c.TryLock, "Lock": c.Lock} {
		pairs := testing.AllocsPerRun(1000, func() {
			l, err := lock(ctx, "10086")
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Unlock(ctx)
		})
		if pairs > 4 && !raceDetector { // which drops what is pooled at random
			t.Errorf("%s: %v allocations a pair, want at most 4", name, pairs)
		}
	}
	if rec.noted < 4000 {
		t.Errorf("%d events: the pairs were not recorded", rec.noted)
	}
}

// BenchmarkOverhead is the gateway over a store that costs nothing; at most 2 µs a pair.
func BenchmarkOverhead(b *testing.B) {
	c, _ := onFree(b)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		l, err := c.TryLock(ctx, "10086")
		if err != nil {
			b.Fatal(err)
		}
		_ = l.Unlock(ctx)
	}
}

// BenchmarkOverheadParallel is the same with every processor at it, on keys of their own.
func BenchmarkOverheadParallel(b *testing.B) {
	c, _ := onFree(b)
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		id := strconv.Itoa(int(time.Now().UnixNano()))
		for pb.Next() {
			l, err := c.TryLock(ctx, id)
			if err != nil {
				b.Error(err)
				return
			}
			_ = l.Unlock(ctx)
		}
	})
}
