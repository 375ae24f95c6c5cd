package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

// holdReport is what so many locks in hand cost.
type holdReport struct {
	Redis          string  `json:"redis"`
	Locks          int     `json:"locks"`
	TTLMS          int64   `json:"ttl_ms"`
	Goroutines     int     `json:"goroutines_more"` // the most seen, over those of a gateway without a lock in hand
	BytesPerLock   float64 `json:"bytes_per_lock"`  // of this process's heap
	ServerBytes    float64 `json:"redis_bytes_per_lock"`
	CommandsPerS   float64 `json:"commands_per_s"` // that the gateway sent while it held them
	RenewalsPerS   float64 `json:"renewals_per_s"`
	ClientPercent  float64 `json:"client_cpu_percent"` // of one processor
	ServerPercent  float64 `json:"redis_cpu_percent"`
	RenewalsFailed int64   `json:"renewals_failed"`
	Lost           int     `json:"lost"` // were not held any more at the end
}

// holdBench is one run of hold.
type holdBench struct {
	*session
	n    int
	ttl  time.Duration
	span time.Duration

	renewed, failed atomic.Int64
}

// hold takes many locks and looks at what the gateway does to keep them.
func hold(ctx context.Context, args []string, stdout io.Writer) (err error) {
	b := holdBench{session: newSession("hold", stdout)}
	b.flags.IntVar(&b.n, "locks", 10_000, "how many to hold")
	b.flags.DurationVar(&b.ttl, "ttl", 6*time.Second, "of each; it is renewed three times in it")
	b.flags.DurationVar(&b.span, "for", 12*time.Second, "how long to look")
	check := func() error {
		if b.ttl < 3*patience {
			return tierlock.Invalid("ttl", b.ttl.String(), "want at least 3s")
		}
		if b.span < time.Second {
			return tierlock.Invalid("for", b.span.String(), "want at least 1s")
		}
		return atLeastOne("locks", b.n)
	}
	if err := b.start(ctx, args, check); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	r, err := b.run(ctx)
	if err != nil {
		return err
	}
	if b.json {
		return b.print(r)
	}
	fmt.Fprintf(stdout, "Redis %s, %d locks with a ttl of %v:\n%d goroutines more, %.0f bytes a lock here and %.0f in Redis,\n%.0f commands/s for %.0f renewals/s, %.1f %% of a processor here and %.1f %% in Redis,\n%d renewals failed, %d locks lost\n",
		r.Redis, r.Locks, b.ttl, r.Goroutines, r.BytesPerLock, r.ServerBytes, r.CommandsPerS, r.RenewalsPerS, r.ClientPercent, r.ServerPercent, r.RenewalsFailed, r.Lost)
	return nil
}

func (b *holdBench) run(ctx context.Context) (r holdReport, err error) {
	hooks := gateway.Hooks{Renewed: func(i gateway.RenewInfo) {
		if i.Err == nil {
			b.renewed.Add(1)
		} else {
			b.failed.Add(1)
		}
	}}
	o, err := openOurs(b.addr, false, hooks, func(p *gateway.Policy) { p.TTL = b.ttl })
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	// What one lock brings into being stays: connections, and the one who renews.
	if err := o.pair(ctx, "first"); err != nil {
		return r, err
	}
	locks := make([]*gateway.Lock, b.n)
	goroutines, heap := runtime.NumGoroutine(), heapNow()
	memory, err := b.serverMemory(ctx)
	if err != nil {
		return r, err
	}
	if err := takeAll(ctx, o.chain, locks); err != nil {
		return r, err
	}
	r = holdReport{Redis: b.version, Locks: b.n, TTLMS: b.ttl.Milliseconds()}
	r.BytesPerLock = tenth(float64(heapNow()-heap) / float64(b.n))
	after, err := b.serverMemory(ctx)
	if err != nil {
		return r, err
	}
	r.ServerBytes = tenth(float64(after-memory) / float64(b.n))
	if err := b.look(ctx, &r, goroutines); err != nil {
		return r, err
	}
	for _, l := range locks {
		if err := l.Unlock(ctx); errors.Is(err, tierlock.ErrLost) {
			r.Lost++
		} else if err != nil {
			return r, err
		}
	}
	return r, nil
}

// look watches for a while.
func (b *holdBench) look(ctx context.Context, r *holdReport, goroutines int) error {
	calls, err := b.calls(ctx)
	if err != nil {
		return err
	}
	served, err := b.serverTime(ctx)
	if err != nil {
		return err
	}
	renewed, failed, spent, began := b.renewed.Load(), b.failed.Load(), ownTime(), time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for time.Since(began) < b.span {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			r.Goroutines = max(r.Goroutines, runtime.NumGoroutine()-goroutines)
		}
	}
	took := time.Since(began).Seconds()
	r.RenewalsPerS = tenth(float64(b.renewed.Load()-renewed) / took)
	r.RenewalsFailed = b.failed.Load() - failed
	r.ClientPercent = tenth(100 * (ownTime() - spent).Seconds() / took)
	servedAfter, err := b.serverTime(ctx)
	if err != nil {
		return err
	}
	r.ServerPercent = tenth(100 * (servedAfter - served).Seconds() / took)
	callsAfter, err := b.calls(ctx)
	if err != nil {
		return err
	}
	var sent int64
	for _, name := range scriptCommands() {
		sent += callsAfter[name] - calls[name]
	}
	r.CommandsPerS = tenth(float64(sent) / took)
	return nil
}

// takeAll fills locks, a few at a time.
func takeAll(ctx context.Context, chain *gateway.Chain, locks []*gateway.Lock) error {
	const hands = 32
	var work sync.WaitGroup
	errs := make([]error, hands)
	for h := range hands {
		work.Go(func() {
			for i := h; i < len(locks); i += hands {
				if locks[i], errs[h] = chain.TryLock(ctx, strconv.Itoa(i)); errs[h] != nil {
					return
				}
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

// heapNow is what is in use after a collection.
func heapNow() int64 {
	runtime.GC()
	runtime.GC() // what pools kept through the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// serverMemory is what Redis has allocated.
func (s *session) serverMemory(ctx context.Context) (int64, error) {
	info, err := s.admin.InfoMap(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
}
