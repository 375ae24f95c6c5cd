package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

// shardResult is what one width of the lock allowed.
type shardResult struct {
	Lock      string  `json:"lock"` // coarse, a number of shards, or one key per id
	TPS       float64 `json:"tps"`
	TPSMin    float64 `json:"tps_min"`
	TPSMax    float64 `json:"tps_max"`
	Conflicts float64 `json:"conflicts_percent"` // calls that met a holder
	Failed    float64 `json:"failed_percent"`    // calls that found no end of it within their wait
	P99       float64 `json:"p99_ms"`            // of a call that got the lock, with its work
}

// shardBench is one run of shards.
type shardBench struct {
	*session
	callers, ids int
	work, span   time.Duration
}

// shards has many callers work on random ids under a lock that is wider or narrower: one for
// all ids, one for each of some shards of them, one for each id.
func shards(ctx context.Context, args []string, stdout io.Writer) (err error) {
	b := shardBench{session: newSession("shards", stdout)}
	rounds := b.flags.Int("rounds", 5, "how often each width has its turn")
	b.flags.IntVar(&b.callers, "callers", 64, "goroutines that lock, work and unlock")
	b.flags.IntVar(&b.ids, "ids", 10_000, "ids, all equally likely")
	b.flags.DurationVar(&b.work, "work", time.Millisecond, "how long the lock is held")
	b.flags.DurationVar(&b.span, "for", time.Second, "length of a turn")
	widths := b.flags.String("shards", "10,50,100,200,400,1000", "numbers of shards, with commas")
	var counts []int
	check := func() (err error) {
		if counts, err = numbers("shards", *widths, 2); err != nil {
			return err
		}
		if b.work <= 0 || b.span <= 0 {
			return tierlock.Invalid("for", b.span.String(), "want it and work above 0")
		}
		return errors.Join(atLeastOne("rounds", *rounds), atLeastOne("callers", b.callers), atLeastOne("ids", b.ids))
	}
	if err := b.start(ctx, args, check); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	all := append([]int{1}, append(counts, b.ids)...)
	turns := make([][]shardTurn, len(all))
	for range *rounds {
		for i, width := range all {
			t, err := b.turn(ctx, width)
			if err != nil {
				return err
			}
			turns[i] = append(turns[i], t)
		}
	}
	results := make([]shardResult, len(all))
	for i, width := range all {
		results[i] = shardRow(width, b.ids, turns[i])
	}
	if b.json {
		return b.print(map[string]any{
			"redis": b.version, "rounds": *rounds, "callers": b.callers, "ids": b.ids, "work_us": b.work.Microseconds(), "results": results,
		})
	}
	fmt.Fprintf(stdout, "Redis %s, %d callers in one process, %d ids equally likely, %v of work, a wait of 300 ms\n\n", b.version, b.callers, b.ids, b.work)
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "works/s\tfrom\tto\tmet a holder %\tgave up %\tp99 ms\t  lock")
	for _, r := range results {
		fmt.Fprintf(w, "%.0f\t%.0f\t%.0f\t%.1f\t%.1f\t%.1f\t  %s\n", r.TPS, r.TPSMin, r.TPSMax, r.Conflicts, r.Failed, r.P99, r.Lock)
	}
	return w.Flush()
}

// shardTurn is what was counted in one turn of one width.
type shardTurn struct{ tps, conflicts, failed, p99 float64 }

func (b *shardBench) turn(ctx context.Context, width int) (t shardTurn, err error) {
	var calls, met, failed atomic.Int64
	hooks := gateway.Hooks{Acquired: func(i gateway.AcquireInfo) {
		calls.Add(1)
		if i.Waited > 0 || i.Verdict.Reason == tierlock.ReasonHeld {
			met.Add(1)
		}
		if i.Verdict.Outcome != tierlock.Success {
			failed.Add(1)
		}
	}}
	o, err := openOurs(b.addr, false, hooks, func(*gateway.Policy) {})
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	if err := o.pair(ctx, "first"); err != nil {
		return t, err
	}
	calls.Store(0)
	hands := make([]hand, b.callers)
	var work sync.WaitGroup
	began := time.Now()
	for g := range hands {
		hands[g].took = new(histogram)
		work.Go(func() {
			for time.Since(began) < b.span && ctx.Err() == nil {
				b.call(ctx, o, width, &hands[g])
			}
		})
	}
	work.Wait()
	took := time.Since(began).Seconds()
	var all histogram
	for g := range hands {
		all.add(hands[g].took)
		err = errors.Join(err, hands[g].first)
	}
	share := func(n int64) float64 { return 100 * float64(n) / float64(max(calls.Load(), 1)) }
	return shardTurn{float64(all.n) / took, share(met.Load()), share(failed.Load()), all.at(.99) / 1000}, err
}

// call works once on an id, under the lock that stands for it.
func (b *shardBench) call(ctx context.Context, o *ours, width int, h *hand) {
	key := "w" + strconv.Itoa(width) + "." + strconv.Itoa(rand.IntN(b.ids)%width)
	began := time.Now()
	l, err := o.chain.Lock(ctx, key)
	if err != nil {
		if !errors.Is(err, tierlock.ErrHeld) {
			h.first = err
		}
		return
	}
	<-time.After(b.work)
	if err := l.Unlock(ctx); err != nil {
		h.first = err
	}
	h.took.count(time.Since(began))
}

func shardRow(width, ids int, turns []shardTurn) shardResult {
	over := func(of func(shardTurn) float64) spread {
		all := make([]float64, len(turns))
		for i, t := range turns {
			all[i] = of(t)
		}
		return spreadOver(all)
	}
	name := strconv.Itoa(width) + " shards"
	switch width {
	case 1:
		name = "coarse"
	case ids:
		name = "one key per id"
	}
	tps := over(func(t shardTurn) float64 { return t.tps })
	return shardResult{
		Lock: name, TPS: math.Round(tps.median), TPSMin: math.Round(tps.least), TPSMax: math.Round(tps.most),
		Conflicts: tenth(over(func(t shardTurn) float64 { return t.conflicts }).median),
		Failed:    tenth(over(func(t shardTurn) float64 { return t.failed }).median),
		P99:       tenth(over(func(t shardTurn) float64 { return t.p99 }).median),
	}
}
