package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/tierlock/tierlock"
)

// lockResult is one row: medians over the rounds, and how far those were apart.
type lockResult struct {
	Impl       string  `json:"impl"`
	Goroutines int     `json:"goroutines"`
	Fence      bool    `json:"fence"`
	Pairs      float64 `json:"pairs_per_s"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	Allocs     float64 `json:"allocs"`
	Client     float64 `json:"client_us"` // processor time a pair
	Server     float64 `json:"server_us"`
	PairsMin   float64 `json:"pairs_per_s_min"`
	PairsMax   float64 `json:"pairs_per_s_max"`
	Errors     int     `json:"errors"`
	FirstError string  `json:"first_error,omitempty"`
	EventsLost uint64  `json:"events_lost,omitempty"` // of the record, in all rounds
}

// lockReport is what locks prints.
type lockReport struct {
	Redis   string             `json:"redis"`
	Rounds  int                `json:"rounds"`
	SliceMS int64              `json:"slice_ms"`
	CPUs    int                `json:"cpus"`
	Results []lockResult       `json:"results"`
	Ratios  map[string]float64 `json:"ratios"`
	Setup   map[string]string  `json:"setup"` // of each impl
}

// lockBench is one run of locks.
type lockBench struct {
	*session
	contenders []contender
	levels     []int // numbers of goroutines
	rounds     int
	slice      time.Duration
	cells      map[lockRow][]cell
	lost       map[int]uint64 // events, by contender
}

// lockRow is a contender, by its place, at a number of goroutines.
type lockRow struct{ contender, goroutines int }

// locks lets every contender lock and unlock in turn, in short turns that go around several
// times, so that whatever else the machine does meets all of them alike.
func locks(ctx context.Context, args []string, stdout io.Writer) (err error) {
	b := lockBench{session: newSession("locks", stdout), cells: map[lockRow][]cell{}, lost: map[int]uint64{}}
	b.flags.IntVar(&b.rounds, "rounds", 5, "how often each contender has its turn at each number of goroutines")
	b.flags.DurationVar(&b.slice, "slice", 150*time.Millisecond, "length of a turn")
	only := b.flags.String("only", "", "names of contenders, with commas; empty: all")
	levels := b.flags.String("goroutines", "1,64,512", "numbers of goroutines, with commas")
	if err := b.start(ctx, args, func() error { return b.check(*only, *levels) }); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	for round := range b.rounds {
		if err := b.round(ctx, round); err != nil {
			return err
		}
	}
	report := b.report()
	if b.json {
		return b.print(report)
	}
	return report.table(stdout)
}

// check reads the flags.
func (b *lockBench) check(only, levels string) error {
	if b.slice < time.Millisecond {
		return tierlock.Invalid("slice", b.slice.String(), "want at least 1ms")
	}
	var err error
	if b.levels, err = numbers("goroutines", levels, 1); err != nil {
		return err
	}
	if b.contenders, err = chosen(only, contenders(), func(c contender) string { return c.name }); err != nil {
		return err
	}
	return atLeastOne("rounds", b.rounds)
}

// warmUp is how long a contender works before its turn counts, at least: it connects and
// loads its scripts.
const warmUp = 20 * time.Millisecond

// round opens every contender, gives each its turn at each level and closes them. Each round
// begins with another one, so that none always follows the same.
func (b *lockBench) round(ctx context.Context, round int) (err error) {
	lockers := make([]locker, len(b.contenders))
	defer func() {
		for i, l := range lockers {
			if l == nil {
				continue
			}
			if o, ok := l.(*ours); ok {
				b.lost[i] += o.lost()
			}
			err = errors.Join(err, l.Close())
		}
	}()
	for i, c := range b.contenders {
		if lockers[i], err = c.open(ctx, b.addr); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	for _, n := range b.levels {
		for i := range lockers {
			i = (i + round) % len(lockers)
			under := "c" + strconv.Itoa(i)                                                           // what one leaves behind is not in another's way
			if _, err := b.measure(ctx, lockers[i], under, n, max(b.slice/10, warmUp)); err != nil { // connects, loads scripts
				return err
			}
			c, err := b.measure(ctx, lockers[i], under, n, b.slice)
			if err != nil {
				return err
			}
			if c.pairs == 0 {
				return fmt.Errorf("%s at %d goroutines: not one pair: %w", b.contenders[i].name, n, c.first)
			}
			row := lockRow{i, n}
			b.cells[row] = append(b.cells[row], c)
		}
	}
	return nil
}

func (b *lockBench) report() lockReport {
	r := lockReport{
		Redis: b.version, Rounds: b.rounds, SliceMS: b.slice.Milliseconds(), CPUs: runtime.NumCPU(),
		Setup: map[string]string{},
	}
	for _, n := range b.levels {
		for i, c := range b.contenders {
			r.Results = append(r.Results, b.result(i, n))
			if !c.fence {
				r.Setup[c.name] = c.setup
			}
		}
	}
	r.Ratios = b.ratios()
	return r
}

func (b *lockBench) result(i, goroutines int) lockResult {
	cells := b.cells[lockRow{i, goroutines}]
	pairs := spreadOf(cells, func(c cell) float64 { return c.pairs })
	r := lockResult{
		Impl: b.contenders[i].name, Goroutines: goroutines, Fence: b.contenders[i].fence,
		Pairs: math.Round(pairs.median), PairsMin: math.Round(pairs.least), PairsMax: math.Round(pairs.most),
		P50:        tenth(spreadOf(cells, func(c cell) float64 { return c.p50 }).median),
		P99:        tenth(spreadOf(cells, func(c cell) float64 { return c.p99 }).median),
		Allocs:     tenth(spreadOf(cells, func(c cell) float64 { return c.allocs }).median),
		Client:     tenth(spreadOf(cells, func(c cell) float64 { return c.client }).median),
		Server:     tenth(spreadOf(cells, func(c cell) float64 { return c.server }).median),
		EventsLost: b.lost[i],
	}
	for _, c := range cells {
		r.Errors += c.errors
		if r.FirstError == "" && c.first != nil {
			r.FirstError = c.first.Error()
		}
	}
	return r
}

func tenth(x float64) float64 { return math.Round(10*x) / 10 }

// ratios are those that the design has goals for; what one needs and was not run leaves it
// out.
func (b *lockBench) ratios() map[string]float64 {
	ratios := map[string]float64{}
	put := func(name string, ours, other float64) {
		if ours > 0 && other > 0 {
			ratios[name] = math.Round(1000*ours/other) / 1000
		}
	}
	peer := b.pairs(512, func(c contender) bool { return c.peer })
	named := func(name string, fence bool) func(contender) bool {
		return func(c contender) bool { return c.name == name && c.fence == fence }
	}
	for suffix, name := range map[string]string{"": oursName, "_unrecorded": unrecordedName, "_store": storeName} {
		put("best_peer_512_plain"+suffix, b.pairs(512, named(name, false)), peer)
		put("best_peer_512_fenced"+suffix, b.pairs(512, named(name, true)), peer)
		put("bare_1"+suffix, b.pairs(1, named(name, false)), b.pairs(1, named(bareName, false)))
	}
	return ratios
}

// pairs is the best median at a number of goroutines among those contenders; 0 if there is
// none.
func (b *lockBench) pairs(goroutines int, those func(contender) bool) (best float64) {
	for i, c := range b.contenders {
		if those(c) && len(b.cells[lockRow{i, goroutines}]) > 0 {
			best = max(best, b.result(i, goroutines).Pairs)
		}
	}
	return best
}

// table prints the report for people.
func (r lockReport) table(stdout io.Writer) error {
	fmt.Fprintf(stdout, "Redis %s, %d CPUs, %d rounds of %d ms; medians, and the least and most of the rounds\n\n", r.Redis, r.CPUs, r.Rounds, r.SliceMS)
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "goroutines\tpairs/s\tfrom\tto\tp50 µs\tp99 µs\tallocs\tour µs\tRedis µs\terrors\tfence\t  who")
	for _, one := range r.Results {
		fence := ""
		if one.Fence {
			fence = "yes"
		}
		fmt.Fprintf(w, "%d\t%.0f\t%.0f\t%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%s\t  %s\n", one.Goroutines, one.Pairs, one.PairsMin, one.PairsMax, one.P50, one.P99, one.Allocs, one.Client, one.Server, one.Errors, fence, one.Impl)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(stdout)
	for _, one := range r.Results {
		if one.Errors > 0 {
			fmt.Fprintf(stdout, "%s at %d: %d errors, the first: %s\n", one.Impl, one.Goroutines, one.Errors, one.FirstError)
		}
		if one.EventsLost > 0 && one.Goroutines == 1 {
			fmt.Fprintf(stdout, "%s (fence %v): %d events found no room on their way to the disk\n", one.Impl, one.Fence, one.EventsLost)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Ratios)) {
		fmt.Fprintf(stdout, "%s: %.2f\n", name, r.Ratios[name])
	}
	return nil
}
