package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tierlock/tierlock"
)

// handoverResult is what one way to wait did among so many processes.
type handoverResult struct {
	Impl      string           `json:"impl"`
	Processes int              `json:"processes"`
	Turns     int              `json:"turns"`     // locks that were had
	Handovers int              `json:"handovers"` // of them those that somebody waited for when the one before ended
	P50       float64          `json:"p50_us"`    // from the call of unlock to the next holder's grant; medians over the rounds
	P50Min    float64          `json:"p50_us_min"`
	P50Max    float64          `json:"p50_us_max"`
	P99       float64          `json:"p99_us"`
	P99Min    float64          `json:"p99_us_min"`
	P99Max    float64          `json:"p99_us_max"`
	Max       float64          `json:"max_us"`              // of all rounds
	PerTurn   float64          `json:"commands_per_waiter"` // commands that callers sent, releases and SUBSCRIBE included, a lock
	PerMin    float64          `json:"commands_per_waiter_min"`
	PerMax    float64          `json:"commands_per_waiter_max"`
	Commands  map[string]int64 `json:"commands"`
	Overlaps  int              `json:"overlaps"` // two holders at once
	Stalls    int              `json:"stalls"`   // turns ended since nobody had the lock for 3 s while somebody waited
}

// stalled is how long one lap may take.
const stalled = 3 * time.Second

var errStalled = errors.New("nobody had the lock, and somebody waited")

// handoverBench is one run of handover.
type handoverBench struct {
	*session
	lasts, work time.Duration
	processes   []int
}

// handover lets processes take turns at one lock, lap by lap: one has it, the others come to
// wait, and once it gives it back each has it once.
func handover(ctx context.Context, args []string, stdout io.Writer) (err error) {
	b := handoverBench{session: newSession("handover", stdout)}
	rounds := b.flags.Int("rounds", 5, "how often each has its turn at each number of processes")
	processes := b.flags.String("processes", "2,50", "numbers of processes, with commas")
	b.flags.DurationVar(&b.lasts, "for", 300*time.Millisecond, "length of a turn; the lap that is under way ends later")
	b.flags.DurationVar(&b.work, "work", 2*time.Millisecond, "how long the lock is held")
	only := b.flags.String("only", "", "names of those that wait, with commas; empty: all")
	var who []waiting
	check := func() (err error) {
		if b.processes, err = numbers("processes", *processes, 2); err != nil {
			return err
		}
		if who, err = chosen(*only, waitings(), func(w waiting) string { return w.name }); err != nil {
			return err
		}
		if b.lasts <= 0 || b.work <= 0 {
			return tierlock.Invalid("for", b.lasts.String(), "want it and work above 0")
		}
		return atLeastOne("rounds", *rounds)
	}
	if err := b.start(ctx, args, check); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	type row struct{ who, processes int }
	results := map[row][]*gathered{}
	for round := range *rounds {
		for _, n := range b.processes {
			for i, w := range who {
				g := &gathered{commands: map[string]int64{}}
				results[row{i, n}] = append(results[row{i, n}], g)
				if err := b.once(ctx, w, n, round, g); err != nil {
					return fmt.Errorf("%s among %d: %w", w.name, n, err)
				}
			}
		}
	}
	var all []handoverResult
	setup := map[string]string{}
	for _, n := range b.processes {
		for i, w := range who {
			all = append(all, handoverRow(w.name, n, results[row{i, n}]))
			setup[w.name] = w.setup
		}
	}
	if b.json {
		return b.print(map[string]any{
			"redis": b.version, "rounds": *rounds, "for_ms": b.lasts.Milliseconds(), "work_us": b.work.Microseconds(), "results": all, "setup": setup,
		})
	}
	return b.table(all)
}

func (b *handoverBench) table(all []handoverResult) error {
	fmt.Fprintf(b.stdout, "Redis %s, each holds for %v\n\n", b.version, b.work)
	w := tabwriter.NewWriter(b.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "processes\tlocks\thand-overs\tp50 µs\tfrom\tto\tp99 µs\tfrom\tto\tmax µs\tcommands a lock\toverlaps\tstalls\t  who")
	for _, r := range all {
		fmt.Fprintf(w, "%d\t%d\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f\t%d\t%d\t  %s\n",
			r.Processes, r.Turns, r.Handovers, r.P50, r.P50Min, r.P50Max, r.P99, r.P99Min, r.P99Max, r.Max, r.PerTurn, r.Overlaps, r.Stalls, r.Impl)
	}
	return w.Flush()
}

// once lets n processes wait one after another and adds what they did to g.
func (b *handoverBench) once(ctx context.Context, w waiting, n, round int, g *gathered) error {
	before, err := b.calls(ctx)
	if err != nil {
		return err
	}
	turns, err := b.processesAt(ctx, w, n, round)
	if errors.Is(err, errStalled) {
		g.stalls, err = g.stalls+1, nil
	}
	if err != nil {
		return err
	}
	after, err := b.calls(ctx)
	if err != nil {
		return err
	}
	for _, name := range w.sends {
		if sent := after[name] - before[name]; sent > 0 {
			g.commands[name] += sent
		}
	}
	g.add(turns)
	g.locks += n // each has taken a lock of its own to connect
	return nil
}

// processesAt starts n processes and lets them go round until time is up.
func (b *handoverBench) processesAt(ctx context.Context, w waiting, n, round int) (turns []turn, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alarm := time.AfterFunc(stalled, func() { cancel(errStalled) })
	defer alarm.Stop()
	key := strings.Join([]string{w.name, strconv.Itoa(n), strconv.Itoa(round)}, ".")
	var all []*child
	defer func() {
		for _, c := range all {
			_ = c.stdin.Close() // it ends with its input
		}
		for _, c := range all {
			err = errors.Join(err, c.end())
		}
		if context.Cause(limited) == errStalled { //nolint:errorlint // it is that very one
			err = errStalled // and the processes were killed
		}
	}()
	for range n {
		c, err := startChild(limited, self, workerVerb, "--impl", w.name, "--redis", b.addr, "--key", key)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	for _, c := range all {
		if line, err := c.stdout.ReadString('\n'); err != nil {
			return nil, fmt.Errorf("a process did not get ready: %q, %w", line, err)
		}
	}
	for lap, began := 0, time.Now(); lap == 0 || time.Since(began) < b.lasts; lap++ {
		alarm.Reset(stalled)
		its, err := b.lap(limited, all, lap%n)
		if err != nil {
			return turns, err
		}
		turns = append(turns, its...)
	}
	return turns, nil
}

// lap gives each process the lock once. first has it a while before the others come, and
// long enough for all of them to wait.
func (b *handoverBench) lap(ctx context.Context, all []*child, first int) ([]turn, error) {
	const ahead = 3 * time.Millisecond
	if err := all[first].hold(2*ahead + time.Duration(len(all))*time.Millisecond); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(ahead):
	}
	for i, c := range all {
		if i == first {
			continue
		}
		if err := c.hold(b.work); err != nil {
			return nil, err
		}
	}
	turns := make([]turn, len(all))
	for i, c := range all {
		line, err := c.stdout.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &turns[i])
		}
		if err != nil {
			return nil, fmt.Errorf("a process told no turn: %w", err)
		}
	}
	return turns, nil
}

// calls counts what the server has run since it started, by the name of the command.
func (s *session) calls(ctx context.Context) (map[string]int64, error) {
	info, err := s.admin.InfoMap(ctx, "commandstats").Result()
	if err != nil {
		return nil, err
	}
	calls := map[string]int64{}
	for name, stat := range info["Commandstats"] {
		count, _, _ := strings.Cut(strings.TrimPrefix(stat, "calls="), ",")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("INFO commandstats, %s: %q", name, stat)
		}
		calls[strings.TrimPrefix(name, "cmdstat_")] = n
	}
	return calls, nil
}

// child is a process of our own binary.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr bytes.Buffer
}

func startChild(ctx context.Context, self string, args ...string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, self, args...)}
	c.cmd.Stderr = &c.stderr
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.stdout = bufio.NewReader(stdout)
	return c, c.cmd.Start()
}

// hold lets the process take the lock and hold it for so long.
func (c *child) hold(work time.Duration) error {
	_, err := fmt.Fprintln(c.stdin, work.Nanoseconds())
	return err
}

func (c *child) end() error {
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(c.stderr.Bytes()))
	}
	return nil
}
