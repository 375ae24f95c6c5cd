package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
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
func attempt(ctx context.Context, args []string, stdout io.Writer) (err error) {
	s := newSession("attempt", stdout)
	rounds := s.flags.Int("rounds", 20, "waves per number of callers")
	if err := s.start(ctx, args, func() error { return atLeastOne("rounds", *rounds) }); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	var all []attemptResult
	for _, n := range []int{1, 64, 512} {
		w := wave{outcomes: map[string]int{}}
		for range *rounds {
			if err := w.round(ctx, s.admin, s.addr, n); err != nil {
				return err
			}
		}
		all = append(all, w.result(n))
	}
	if s.json {
		return s.print(map[string]any{"redis": s.version, "rounds": *rounds, "results": all})
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

func (w *wave) round(ctx context.Context, admin *redis.Client, addr string, n int) (err error) {
	o, err := openOurs(addr, false, gateway.Hooks{}, func(p *gateway.Policy) { p.Attempt = 200 * time.Millisecond })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	chain := o.chain
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
