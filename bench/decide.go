package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/breaker"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/localfallback"
)

// The rows that the design has aims for.
const (
	decisionRow = "decision per acquire: route, sensor in and out"
	localPair   = "local pair, 1,000 keys in turn"
	overStore   = "gateway over the bare store call, a pair, two events noted"
)

// decideResult is what one thing costs, in a process that waits for nothing.
type decideResult struct {
	What   string  `json:"what"`
	NS     float64 `json:"ns"` // the median of the rounds
	Least  float64 `json:"ns_min"`
	Most   float64 `json:"ns_max"`
	Allocs float64 `json:"allocations"`
	Aim    float64 `json:"aim_ns,omitempty"` // 0: there is none
}

// costing is one thing that is done over and over, by some goroutines at once.
type costing struct {
	what       string
	aim        float64
	goroutines int
	once       func(goroutine, i int) error
}

// decide measures what a request pays before any store is asked, and what the lock inside
// the process costs.
func decide(ctx context.Context, args []string, stdout io.Writer) (err error) {
	s := newSession("decide", stdout)
	rounds := s.flags.Int("rounds", 7, "how often each thing has its turn")
	slice := s.flags.Duration("slice", 100*time.Millisecond, "length of a turn")
	check := func() error {
		if *slice < time.Millisecond {
			return tierlock.Invalid("slice", slice.String(), "want at least 1ms")
		}
		return atLeastOne("rounds", *rounds)
	}
	if err := s.startAlone(args, check); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	all, err := costings(ctx, s)
	if err != nil {
		return err
	}
	cells := make([][]cost, len(all))
	for range *rounds {
		for i := range all {
			c, err := all[i].measure(*slice)
			if err != nil {
				return fmt.Errorf("%s: %w", all[i].what, err)
			}
			cells[i] = append(cells[i], c)
		}
	}
	results := decideRows(all, cells)
	if s.json {
		return s.print(map[string]any{"rounds": *rounds, "slice_ms": slice.Milliseconds(), "go": runtime.Version(), "results": results})
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "ns\tfrom\tto\tallocations\taim\t  what")
	for _, r := range results {
		aim := ""
		if r.Aim > 0 {
			aim = strconv.FormatFloat(r.Aim, 'f', 0, 64)
		}
		fmt.Fprintf(w, "%.0f\t%.0f\t%.0f\t%.1f\t%s\t  %s\n", r.NS, r.Least, r.Most, r.Allocs, aim, r.What)
	}
	return w.Flush()
}

// costings are all there are. What they stand on ends with s.
func costings(ctx context.Context, s *session) ([]costing, error) {
	all, err := decisions(ctx, s)
	if err != nil {
		return nil, err
	}
	locals, err := localLocks(ctx, s)
	if err != nil {
		return nil, err
	}
	gateways, err := gatewayOverStore(ctx, s)
	return append(append(all, locals...), gateways...), err
}

// decisions are the route alone where the ladder stands differently, and the whole decision
// of a healthy request.
func decisions(ctx context.Context, s *session) ([]costing, error) {
	sensor, err := breaker.New(breaker.Config{})
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, func() error { sensor.Close(); return nil })
	p, at := degrade.Weak(), time.Now()
	healthy := degrade.Start(at)
	down, _, _ := healthy.Step(&p, degrade.Signals{At: at, Refused: true})
	order := degrade.Order{Mode: tierlock.ModeBypass, Until: at.Add(time.Hour), Percent: 50}
	route := func(what string, o *degrade.Order, m *degrade.Machine) costing {
		return costing{what: "route, " + what, goroutines: 1, once: func(_, i int) error {
			if degrade.Decide(&p, o, m, at, uint64(i)).Tier == 0 {
				return errors.New("a weak chain was refused")
			}
			return nil
		}}
	}
	var tally breaker.Tally
	ask := breaker.Ask{Deadline: at.Add(time.Hour), Tally: &tally}
	return []costing{
		route("healthy", nil, &healthy), route("down", nil, &down), route("under an order", &order, &down),
		{what: decisionRow, aim: 200, goroutines: 1, once: func(_, i int) error {
			if degrade.Decide(&p, nil, &healthy, at, uint64(i)).Tier != tierlock.Shared {
				return errors.New("a healthy chain was not sent to its store")
			}
			pass, err := sensor.Enter(ctx, ask)
			pass.Exit(nil)
			return err
		}},
	}, nil
}

// localLocks are a pair that meets nobody, and many who want the same few keys and wait for
// them.
func localLocks(ctx context.Context, s *session) ([]costing, error) {
	table, err := localfallback.NewTable(localfallback.Config{Permits: 1})
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, func() error { table.Close(); return nil })
	const crowd = 64
	holds := make([]tierlock.Hold, 1000)
	for i := range holds {
		if holds[i], err = aHold("local:" + strconv.Itoa(i)); err != nil {
			return nil, err
		}
	}
	one, err := aHold("crowded")
	if err != nil {
		return nil, err
	}
	crowded := make([]tierlock.Hold, crowd)
	for i := range crowded {
		crowded[i] = one
		crowded[i].ID = tierlock.NewRequestID()
	}
	return []costing{
		{what: localPair, aim: 300, goroutines: 1, once: func(_, i int) error { return localOnce(ctx, table, holds[i%len(holds)]) }},
		{
			what: "local pair, 64 goroutines that wait for one key", goroutines: crowd,
			once: func(g, _ int) error { return localOnce(ctx, table, crowded[g]) },
		},
	}, nil
}

func aHold(key string) (tierlock.Hold, error) {
	k, err := tierlock.ParseKey("biz:coupon:lock:" + key)
	return tierlock.Hold{Key: k, ID: tierlock.NewRequestID(), TTL: 10 * time.Second}, err
}

// localOnce takes a local lock, waiting for it, and gives it back.
func localOnce(ctx context.Context, table *localfallback.Table, hold tierlock.Hold) error {
	for {
		answer, err := table.Acquire(ctx, tierlock.Request{Hold: hold})
		if err == nil && answer.Status == tierlock.Held {
			if err = table.Wait(ctx, hold, answer); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		if answer, err = table.Release(ctx, hold); err == nil && answer.Status != tierlock.Released {
			err = errNotReleased
		}
		return err
	}
}

// gatewayOverStore are a store that costs nothing, and the gateway over it.
func gatewayOverStore(ctx context.Context, s *session) ([]costing, error) {
	var store tierlock.Backend = freeStore{}
	gw, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{"bench": gateway.Strong("what is measured", gateway.Fence)},
		Stores: map[string]tierlock.Backend{"free": store}, Audit: new(noted),
	})
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, func() error { return gw.Close(context.Background()) })
	chain, err := gw.Chain("bench")
	if err != nil {
		return nil, err
	}
	hold, err := aHold("free")
	if err != nil {
		return nil, err
	}
	return []costing{
		{what: bareStoreRow, goroutines: 1, once: func(int, int) error {
			_, err := store.Acquire(ctx, tierlock.Request{Hold: hold, NotAfter: time.Now().Add(patience)})
			if err == nil {
				_, err = store.Release(ctx, hold)
			}
			return err
		}},
		{what: gatewayRow, goroutines: 1, once: func(int, int) error {
			l, err := chain.TryLock(ctx, "10086")
			if err != nil {
				return err
			}
			return l.Unlock(ctx)
		}},
	}, nil
}

const (
	bareStoreRow = "bare store call, a pair, on a store that costs nothing"
	gatewayRow   = "gateway on that store, a pair, two events noted"
)

// cost is what doing it once took in one turn.
type cost struct{ ns, allocs float64 }

// measure does it over and over for a slice of time. With several goroutines ns is the time
// from one end to the next among all of them.
func (c *costing) measure(slice time.Duration) (cost, error) {
	const batch = 128 // between two looks at the clock
	var done atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, c.goroutines)
	begin := make(chan struct{})
	var stop atomic.Bool
	for g := range c.goroutines {
		all.Go(func() {
			<-begin
			n := 0
			for !stop.Load() && errs[g] == nil {
				for range batch {
					if errs[g] = c.once(g, n); errs[g] != nil {
						break
					}
					n++
				}
			}
			done.Add(int64(n))
		})
	}
	runtime.GC() // so that nobody pays for another's garbage
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	timer := time.AfterFunc(slice, func() { stop.Store(true) })
	defer timer.Stop()
	began := time.Now()
	close(begin)
	all.Wait()
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	n := float64(max(done.Load(), 1))
	return cost{float64(took.Nanoseconds()) / n, float64(after.Mallocs-before.Mallocs) / n}, errors.Join(errs...)
}

// decideRows are the medians, and what the gateway costs over its store: the difference of
// their rounds.
func decideRows(all []costing, cells [][]cost) []decideResult {
	row := func(what string, aim float64, rounds []cost) decideResult {
		ns, allocs := make([]float64, len(rounds)), make([]float64, len(rounds))
		for i, c := range rounds {
			ns[i], allocs[i] = c.ns, c.allocs
		}
		of := spreadOver(ns)
		return decideResult{What: what, NS: tenth(of.median), Least: tenth(of.least), Most: tenth(of.most), Allocs: math.Round(10*spreadOver(allocs).median) / 10, Aim: aim}
	}
	var rows []decideResult
	var bare []cost
	for i, c := range all {
		rows = append(rows, row(c.what, c.aim, cells[i]))
		switch c.what {
		case bareStoreRow:
			bare = cells[i]
		case gatewayRow:
			over := make([]cost, len(bare))
			for n := range over {
				over[n] = cost{cells[i][n].ns - bare[n].ns, cells[i][n].allocs - bare[n].allocs}
			}
			rows = append(rows, row(overStore, 2000, over))
		}
	}
	return rows
}
