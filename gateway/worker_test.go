package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

const (
	workerAddr  = "TIERLOCK_TEST_WORKER" // where its Redis is; makes this program a worker
	workerPool  = 16                     // connections of one kind
	workerCalls = 12                     // callers at once
	workerKeys  = 4
)

// hold is one line that a worker writes: who was inside, by its own monotonic clock, from
// after the grant until before Unlock or the end of the lock's context. Times are
// nanoseconds since the epoch, read off the clock once at the worker's start.
type hold struct {
	Key    string
	Holder string // fingerprint
	Tier   string
	Token  uint64
	From   int64
	To     int64
}

// tally is the worker's last line.
type tally struct {
	Calls     int64
	Told      int64 // verdicts that the hooks were told
	Outcomes  map[string]int64
	P99, Most time.Duration // of the answers that took a millisecond
	Late      int64         // answers after 220 ms
	Leaked    int           // goroutines after Close
	InDoubt   int
	Closed    string // the error of Close
}

// work hammers a few keys of a strong and a weak chain until its input ends.
func work(addr string, in io.Reader, out io.Writer) int {
	before := runtime.NumGoroutine()
	w := &worker{out: json.NewEncoder(out), origin: time.Now()}
	w.sum.Outcomes = map[string]int64{}
	store, err := redisstore.New(redisstore.Config{Addrs: []string{addr}, PoolSize: workerPool})
	if err == nil {
		w.gw, err = gateway.New(gateway.Config{
			Chains: map[string]gateway.Policy{"order": strong(), "coupon": exclusiveWeak()},
			Stores: map[string]tierlock.Backend{"main": store}, Audit: new(gatewaytest.Audit),
			Hooks: gateway.Hooks{Acquired: w.acquired},
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	stop, all := make(chan struct{}), sync.WaitGroup{}
	for i := range workerCalls {
		all.Go(func() { w.hammer(i, stop) })
	}
	_, _ = io.Copy(io.Discard, in)
	close(stop)
	all.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	w.sum.Closed = fmt.Sprint(w.gw.Close(ctx))
	w.sum.InDoubt = w.gw.Status().InDoubt
	_ = store.Close()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && runtime.NumGoroutine() > before+1; { // io.Copy's own reader may stay
		pause(10 * time.Millisecond)
	}
	w.sum.Leaked = max(0, runtime.NumGoroutine()-before-1)
	w.sum.P99, w.sum.Most = w.times.p99()
	if err := w.out.Encode(w.sum); err != nil {
		return 1
	}
	return 0
}

// exclusiveWeak is a weak chain whose local lock is exclusive in its process.
func exclusiveWeak() gateway.Policy {
	p := weak()
	p.Local.Permits = 1
	return p
}

type worker struct {
	gw     *gateway.Gateway
	origin time.Time

	mu    sync.Mutex
	out   *json.Encoder // guarded by mu
	sum   tally         // guarded by mu
	times spread        // guarded by mu
}

func (w *worker) acquired(i gateway.AcquireInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sum.Told++
	w.sum.Outcomes[i.Verdict.Outcome.String()]++
}

// hammer takes, holds and gives back locks until stop is closed.
func (w *worker) hammer(n int, stop <-chan struct{}) {
	name := []string{"order", "coupon"}[n%2]
	c, err := w.gw.Chain(name)
	if err != nil {
		panic(err)
	}
	for i := n; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		id := fmt.Sprint("k", i%workerKeys)
		began := time.Now()
		l, err := c.TryLock(context.Background(), id)
		took := time.Since(began)
		if err == nil {
			w.inside(l)
		}
		w.mu.Lock()
		w.sum.Calls++
		if took >= time.Millisecond { // what the ladder answers by itself would hide the rest
			w.times.add(took)
		}
		if took > 220*time.Millisecond {
			w.sum.Late++
		}
		w.mu.Unlock()
		if took < time.Millisecond {
			pause(2 * time.Millisecond)
		}
	}
}

// inside works under l for a moment and writes down from when to when.
func (w *worker) inside(l *gateway.Lock) {
	from := time.Now()
	ctx := l.Context(context.Background())
	select {
	case <-ctx.Done():
	case <-time.After(3 * time.Millisecond):
	}
	to := time.Now()
	_ = l.Unlock(context.Background())
	g := l.Grant()
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(hold{
		Key: g.Key.String(), Holder: g.RequestID.Fingerprint(), Tier: g.Tier.String(), Token: uint64(g.Token),
		From: w.at(from), To: w.at(to),
	})
}

func (w *worker) at(t time.Time) int64 { return w.origin.UnixNano() + int64(t.Sub(w.origin)) }

// spread counts times in steps of a millisecond.
type spread struct {
	steps [2000]int64
	n     int64
	most  time.Duration
}

func (s *spread) add(d time.Duration) {
	s.steps[min(d/time.Millisecond, 1999)]++
	s.n++
	s.most = max(s.most, d)
}

func (s *spread) p99() (p99, most time.Duration) {
	var seen int64
	for i, n := range s.steps {
		if seen += n; seen*100 >= s.n*99 {
			return time.Duration(i+1) * time.Millisecond, s.most
		}
	}
	return s.most, s.most
}

// process is a worker in another process, as its test sees it.
type process struct {
	cmd    *exec.Cmd
	stop   io.Closer
	read   sync.WaitGroup
	killed atomic.Bool
	holds  []hold
	sum    tally
	bad    error
}

// startWorker runs this program as a worker on the Redis at addr.
func startWorker(t *testing.T, addr string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), workerAddr+"="+addr)
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stop = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	p.read.Go(func() { p.collect(out) })
	return p
}

func (p *process) collect(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := lines.Text()
		var err error
		if strings.HasPrefix(line, `{"Key"`) {
			var h hold
			err = json.Unmarshal([]byte(line), &h)
			p.holds = append(p.holds, h)
		} else {
			err = json.Unmarshal([]byte(line), &p.sum)
		}
		p.bad = errors.Join(p.bad, err)
	}
}

// end lets the worker finish, and returns when all it wrote has been read.
func (p *process) end(t *testing.T) {
	t.Helper()
	_ = p.stop.Close()
	p.read.Wait()
	if err := p.cmd.Wait(); err != nil && !p.killed.Load() {
		t.Errorf("worker: %v", err)
	}
	if p.bad != nil && !p.killed.Load() {
		t.Errorf("worker's lines: %v", p.bad)
	}
}

// kill ends the worker in the middle of its holds.
func (p *process) kill() {
	p.killed.Store(true)
	_ = p.cmd.Process.Kill()
}
