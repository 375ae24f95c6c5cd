package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// The goals of the design: one goroutine's acquire and release take at most 10 % longer
// than bare go-redis doing SET NX PX and a compare-and-delete by EVALSHA; and 512 goroutines
// share calls.
func BenchmarkPair(b *testing.B) {
	server := servers.Redis(b)
	for _, callers := range []int{1, 512} {
		b.Run(fmt.Sprintf("bare-%d", callers), func(b *testing.B) { bare(b, server.Addr(), callers) })
		b.Run(fmt.Sprintf("plain-%d", callers), func(b *testing.B) { pairs(b, server.Addr(), callers, false) })
		b.Run(fmt.Sprintf("fenced-%d", callers), func(b *testing.B) { pairs(b, server.Addr(), callers, true) })
	}
}

func pairs(b *testing.B, addr string, callers int, fenced bool) {
	store := open(b, redisstore.Config{Addrs: []string{addr}})
	share(b, callers, func() (pair func() error) {
		hold := newHold(b, minute)
		return func() error {
			hold.ID = tierlock.NewRequestID()
			deadline := time.Now().Add(time.Second) // the machine may be busy
			ctx := tierlock.Until(context.Background(), deadline)
			answer, err := store.Acquire(ctx, tierlock.Request{Hold: hold, NotAfter: deadline, Fenced: fenced})
			if err == nil && answer.Status == tierlock.Granted {
				answer, err = store.Release(ctx, hold)
			}
			if err == nil && answer.Status != tierlock.Released {
				return fmt.Errorf("answer %v", answer.Status)
			}
			return err
		}
	})
}

// share has callers make b.N pairs between them, each with a key of its own.
func share(b *testing.B, callers int, caller func() (pair func() error)) {
	b.ReportAllocs()
	spent := processor(b)
	var made atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range callers {
		pair := caller()
		all.Go(func() {
			for made.Add(1) <= int64(b.N) {
				if err := pair(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(float64((processor(b)-spent).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// processor is the time that this process has had of the processors, which says more than
// the clock on a machine with other work.
func processor(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func bare(b *testing.B, addr string, callers int) {
	client := admin(b, addr)
	release := redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
	if err := release.Load(b.Context(), client).Err(); err != nil {
		b.Fatal(err)
	}
	share(b, callers, func() (pair func() error) {
		key := newHold(b, minute).Key.String()
		return func() error {
			id := tierlock.NewRequestID().Secret()
			ctx := context.Background()
			if ok, err := client.SetNX(ctx, key, id, minute).Result(); err != nil || !ok {
				return fmt.Errorf("set: %t, %w", ok, err)
			}
			if n, err := release.EvalSha(ctx, client, []string{key}, id).Int(); err != nil || n != 1 {
				return fmt.Errorf("release: %d, %w", n, err)
			}
			return nil
		}
	})
}
