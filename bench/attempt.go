package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
)

// attemptResult is what callers saw while every command of Redis hung.
type attemptResult struct {
	Goroutines int            `json:"goroutines"`
	Answers    int            `json:"answers"`
	P50        float64        `json:"p50_ms"`
	P99        float64        `json:"p99_ms"`
	Max        float64        `json:"max_ms"`
	Outcomes   map[string]int `json:"outcomes"`
}

// attempt pauses a real Redis and lets many callers ask at once, each once: the first
// wave, which the ladder cannot spare, since it does not know yet. Those that find no
// place on the wire wait for one as long.
func attempt(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("attempt", flag.ContinueOnError)
	addr := flags.String("redis", "127.0.0.1:6379", "address of a Redis that may be paused")
	rounds := flags.Int("rounds", 20, "waves per number of callers")
	output := flags.String("output", "text", "text or json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	admin := redis.NewClient(&redis.Options{Addr: *addr})
	defer func() { _ = admin.Close() }()
	var all []attemptResult
	for _, n := range []int{1, 64, 512} {
		w := wave{outcomes: map[string]int{}}
		for range *rounds {
			if err := w.round(ctx, admin, *addr, n); err != nil {
				return err
			}
		}
		all = append(all, w.result(n))
	}
	if *output == "json" {
		return json.NewEncoder(stdout).Encode(map[string]any{"rounds": *rounds, "results": all})
	}
	for _, r := range all {
		fmt.Fprintf(stdout, "%4d callers: %6d answers, p50 %.1f ms, p99 %.1f ms, max %.1f ms, %v\n", r.Goroutines, r.Answers, r.P50, r.P99, r.Max, r.Outcomes)
	}
	return nil
}

// wave gathers answers over rounds.
type wave struct {
	mu       sync.Mutex
	took     []time.Duration
	outcomes map[string]int
}

func (w *wave) round(ctx context.Context, admin *redis.Client, addr string, n int) error {
	store, err := redisstore.New(redisstore.Config{Addrs: []string{addr}})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	p := gateway.Strong("the time an answer may take", gateway.Cancel)
	p.Audit.Record = audit.RecordOff
	gw, err := gateway.New(gateway.Config{Chains: map[string]gateway.Policy{"bench": p}, Stores: map[string]tierlock.Backend{"main": store}})
	if err != nil {
		return err
	}
	defer func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = gw.Close(limited)
	}()
	chain, err := gw.Chain("bench")
	if err != nil {
		return err
	}
	if warm, err := chain.TryLock(ctx, "warm"); err == nil { // connects, loads the scripts
		_ = warm.Unlock(ctx)
	}
	if err := admin.Do(ctx, "CLIENT", "PAUSE", "500", "ALL").Err(); err != nil {
		return err
	}
	var work sync.WaitGroup
	for g := range n {
		work.Go(func() { w.ask(ctx, chain, strconv.Itoa(g)) })
	}
	work.Wait()
	return nil
}

// ask takes the time of one answer.
func (w *wave) ask(ctx context.Context, chain *gateway.Chain, id string) {
	began := time.Now()
	lock, err := chain.TryLock(ctx, id)
	took := time.Since(began)
	word := "success"
	if e, ok := errors.AsType[*tierlock.Error](err); ok {
		word = e.Outcome.String() + "/" + string(e.Reason)
	}
	_ = lock.Unlock(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.took = append(w.took, took)
	w.outcomes[word]++
}

func (w *wave) result(n int) attemptResult {
	slices.Sort(w.took)
	at := func(q float64) float64 { return float64(w.took[int(q*float64(len(w.took)-1))].Microseconds()) / 1000 }
	return attemptResult{n, len(w.took), at(.5), at(.99), at(1), w.outcomes}
}
