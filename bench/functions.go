package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

// The two bodies that are called both ways: an acquire with a not-after, and a
// compare-and-delete. Keys are in KEYS, arguments in ARGV.
const (
	takeBody = `
local time = redis.call('TIME')
if time[1] * 1000000 + time[2] >= tonumber(ARGV[3]) then return 0 end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0`
	giveBody = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`
	library = "#!lua name=tierlock_bench\n" +
		"redis.register_function('tierlock_bench_take', function(KEYS, ARGV)" + takeBody + "\nend)\n" +
		"redis.register_function('tierlock_bench_give', function(KEYS, ARGV)" + giveBody + "\nend)\n"
)

// functionResult is one way to call them.
type functionResult struct {
	Call     string  `json:"call"`
	Calls    float64 `json:"calls_per_s"`
	CallsMin float64 `json:"calls_per_s_min"`
	CallsMax float64 `json:"calls_per_s_max"`
	Server   float64 `json:"redis_us"` // of processor time a call
}

// functionBench is one run of functions.
type functionBench struct {
	*session
	depth, conns int
	span         time.Duration
}

// functions compares EVALSHA and FCALL of the same Lua, in pipelines, so that the server is
// what is measured.
func functions(ctx context.Context, args []string, stdout io.Writer) (err error) {
	b := functionBench{session: newSession("functions", stdout)}
	rounds := b.flags.Int("rounds", 7, "how often each has its turn")
	b.flags.IntVar(&b.depth, "depth", 100, "pairs in one pipeline")
	b.flags.IntVar(&b.conns, "conns", 2, "pipelines at once")
	b.flags.DurationVar(&b.span, "for", time.Second, "length of a turn")
	check := func() error {
		if b.span <= 0 {
			return tierlock.Invalid("for", b.span.String(), "want above 0")
		}
		return errors.Join(atLeastOne("rounds", *rounds), atLeastOne("depth", b.depth), atLeastOne("conns", b.conns))
	}
	if err := b.start(ctx, args, check); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	client := goRedis(b.addr, b.conns)
	defer func() { err = errors.Join(err, client.Close()) }()
	take, give := redis.NewScript(takeBody), redis.NewScript(giveBody)
	if err := errors.Join(
		take.Load(ctx, client).Err(), give.Load(ctx, client).Err(), client.FunctionLoadReplace(ctx, library).Err(),
	); err != nil {
		return err
	}
	ways := []struct {
		name       string
		take, give [2]string // command and name
	}{
		{"evalsha", [2]string{"evalsha", take.Hash()}, [2]string{"evalsha", give.Hash()}},
		{"fcall", [2]string{"fcall", "tierlock_bench_take"}, [2]string{"fcall", "tierlock_bench_give"}},
	}
	calls, server := make([][]float64, len(ways)), make([][]float64, len(ways))
	for round := range *rounds {
		for i := range ways {
			i = (i + round) % len(ways)
			n, us, err := b.turn(ctx, client, ways[i].take, ways[i].give)
			if err != nil {
				return fmt.Errorf("%s: %w", ways[i].name, err)
			}
			calls[i], server[i] = append(calls[i], n), append(server[i], us)
		}
	}
	results := make([]functionResult, len(ways))
	for i, way := range ways {
		n := spreadOver(calls[i])
		results[i] = functionResult{way.name, math.Round(n.median), math.Round(n.least), math.Round(n.most), hundredth(spreadOver(server[i]).median)}
	}
	faster := tenth(100 * (results[0].Server/results[1].Server - 1))
	if b.json {
		return b.print(map[string]any{"redis": b.version, "rounds": *rounds, "results": results, "fcall_faster_percent": faster})
	}
	fmt.Fprintf(stdout, "Redis %s, pipelines of %d pairs on %d connections, medians of %d rounds\n", b.version, b.depth, b.conns, *rounds)
	for _, r := range results {
		fmt.Fprintf(stdout, "%8s  %.0f calls/s (%.0f to %.0f), %.2f µs of Redis's processor time a call\n", r.Call, r.Calls, r.CallsMin, r.CallsMax, r.Server)
	}
	fmt.Fprintf(stdout, "by that time FCALL is %.1f %% faster\n", faster)
	return nil
}

func hundredth(x float64) float64 { return math.Round(100*x) / 100 }

// turn tells the calls a second and the µs of the server's time for each.
func (b *functionBench) turn(ctx context.Context, client *redis.Client, take, give [2]string) (calls, us float64, err error) {
	served, err := b.serverTime(ctx)
	if err != nil {
		return 0, 0, err
	}
	done, errs := make([]int, b.conns), make([]error, b.conns)
	var work sync.WaitGroup
	began := time.Now()
	for c := range b.conns {
		work.Go(func() {
			for time.Since(began) < b.span && errs[c] == nil {
				errs[c] = b.pipeline(ctx, client, c, take, give)
				done[c] += 2 * b.depth
			}
		})
	}
	work.Wait()
	took := time.Since(began).Seconds()
	after, err := b.serverTime(ctx)
	var n int
	for _, one := range done {
		n += one
	}
	return float64(n) / took, float64((after - served).Microseconds()) / float64(n), errors.Join(errors.Join(errs...), err)
}

// pipeline takes and gives back its own keys, and checks that it did.
func (b *functionBench) pipeline(ctx context.Context, client *redis.Client, conn int, take, give [2]string) error {
	const never = "9000000000000000" // µs, in the year 2255
	pipe := client.Pipeline()
	all := make([]*redis.Cmd, 0, 2*b.depth)
	for i := range b.depth {
		key := "function:" + strconv.Itoa(conn) + ":" + strconv.Itoa(i)
		all = append(all, pipe.Do(ctx, take[0], take[1], 1, key, "0123456789abcdef0123456789abcdef", "15000", never))
		all = append(all, pipe.Do(ctx, give[0], give[1], 1, key, "0123456789abcdef0123456789abcdef"))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	for _, one := range all {
		if n, err := one.Int(); err != nil || n != 1 {
			return fmt.Errorf("%v answered %d, %w", one.Args()[:2], n, err)
		}
	}
	return nil
}
