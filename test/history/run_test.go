package history

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
)

// run is one history in the making: a Redis, a way to it, a register and workers.
type run struct {
	*testing.T
	server  *servers.RedisServer
	way     *way.Way
	watch   *redis.Client // past the way
	dialect guard.Dialect
	driver  string
	dsn     string
	db      *sql.DB
	think   int           // one increment in so many thinks ...
	thinks  time.Duration // ... for so long
	workers []*process
	history History
	clock   clock
}

// newRun makes the register in a SQLite file, or in a PostgreSQL of its own.
func newRun(t *testing.T, dialect guard.Dialect) *run {
	t.Helper()
	servers.Need(t, "redis-server")
	r := &run{T: t, server: servers.Redis(t), dialect: dialect, clock: newClock(), think: 8, thinks: shortTTL}
	r.history.Attempt = attempt
	r.driver, r.dsn = "sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_txlock=immediate"
	if dialect == guard.Postgres {
		r.driver, r.dsn = "pgx", servers.Postgres(t).DSN()
	}
	var err error
	if r.way, err = way.To(r.server.Addr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.way.Close)
	r.look(r.server.Addr())
	if r.db, err = sql.Open(r.driver, r.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.db.Close() })
	for _, query := range []string{guard.Schema(dialect), `CREATE TABLE register (n BIGINT NOT NULL)`, `INSERT INTO register VALUES (0)`} {
		if _, err := r.db.ExecContext(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	return r
}

// look makes the client that sees what stands in the store.
func (r *run) look(addr string) {
	r.watch = redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	client := r.watch
	r.Cleanup(func() { _ = client.Close() })
}

// start adds workers.
func (r *run) start(n int, d defect) {
	r.Helper()
	for range n {
		p := startWorker(r.T, job{len(r.workers) + 1, r.way.Addr(), r.dialect, r.driver, r.dsn, r.think, r.thinks, d})
		r.workers = append(r.workers, p)
	}
	for _, p := range r.workers {
		p.awaitFirst(r.T)
	}
}

// trouble is one fault, and for how long it lasts.
type trouble struct {
	name       string
	begin, end func()
	lasts      time.Duration
}

// suffer lets one trouble after another happen, and looks into the store after each when
// what was in doubt must have been settled.
func (r *run) suffer(troubles ...trouble) {
	for _, f := range troubles {
		if f.begin != nil {
			f.begin()
		}
		wait(f.lasts)
		if f.end != nil {
			f.end()
		}
		// The next probe of each worker comes within 625 ms; what was in doubt is given back
		// within a second of its answer.
		wait(1800 * time.Millisecond)
		r.stands()
	}
}

// stands takes down the locks that stand in the store, and still do 300 ms later.
func (r *run) stands() {
	r.Helper()
	first, at := r.standing(), r.clock.now()
	wait(300 * time.Millisecond)
	second := r.standing()
	for key, holder := range first {
		if second[key] == holder {
			r.history.Stands = append(r.history.Stands, Stand{key, holder, at})
		}
	}
}

func (r *run) standing() map[string]string {
	r.Helper()
	found := map[string]string{}
	keys, err := r.watch.Keys(r.Context(), "biz:order:lock:*").Result()
	if err != nil {
		r.Fatal(err)
	}
	for _, key := range keys {
		if id, err := tierlock.ParseRequestID(r.watch.Get(r.Context(), key).Val()); err == nil {
			found["order:"+strings.TrimPrefix(key, "biz:order:lock:")] = id.Fingerprint()
		}
	}
	return found
}

// end lets the workers finish and puts the history together.
func (r *run) end() *History {
	r.Helper()
	var lines [][]Op
	for _, p := range r.workers {
		p.end(r.T)
		lines = append(lines, p.lines)
	}
	r.stands() // whoever still stands there now is nobody, or was killed
	r.history.Ops = Merge(lines...)
	if err := r.db.QueryRow(`SELECT n FROM register`).Scan(&r.history.Last); err != nil {
		r.Fatal(err)
	}
	return &r.history
}

// judge fails the test for each fault that the named checks find, and keeps the history.
func (r *run) judge(h *History, checks ...string) {
	r.Helper()
	count := map[string]int{}
	for _, op := range h.Ops {
		count[fmt.Sprintf("%s %s", op.Kind, op.Outcome)]++
	}
	r.Logf("%d operations, %d stands, register at %d: %v", len(h.Ops), len(h.Stands), h.Last, count)
	faults := Judge(h, checks...)
	for i, fault := range faults {
		if i < 20 {
			r.Error(fault)
		}
	}
	if len(faults) > 0 {
		r.Logf("%d faults; the history is in %s", len(faults), keep(h))
	}
}

// keep writes a history down for whoever wants to see what happened.
func keep(h *History) string {
	f, err := os.CreateTemp("", "tierlock-history-*.json")
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if err := json.NewEncoder(f).Encode(h); err != nil {
		return err.Error()
	}
	return f.Name()
}

// met says whether the history has at least so many operations of these kinds and
// outcomes: a run in which nothing happened proves nothing.
func (r *run) met(h *History, least int, kind Kind, outcomes ...Outcome) {
	r.Helper()
	n := 0
	for _, op := range h.of("", kind) {
		if slices.Contains(outcomes, op.Outcome) {
			n++
		}
	}
	if n < least {
		r.Errorf("%d times %s %v, want at least %d: the run proves nothing", n, kind, outcomes, least)
	}
}

func wait(d time.Duration) { <-time.After(d) }

// process is a worker in another process, as its test sees it.
type process struct {
	cmd    *exec.Cmd
	stop   io.Closer
	read   sync.WaitGroup
	first  chan struct{} // closed at its first line
	killed bool
	lines  []Op // to be read after end
	bad    error
}

func startWorker(t *testing.T, j job) *process {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(os.Args[0]), first: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	p.stop, err = p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		p.read.Wait()
		_ = p.cmd.Wait()
	})
	p.read.Go(func() { p.collect(out) })
	return p
}

func (p *process) collect(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var op Op
		p.bad = errors.Join(p.bad, json.Unmarshal(lines.Bytes(), &op))
		if len(p.lines) == 0 {
			close(p.first)
		}
		p.lines = append(p.lines, op)
	}
}

func (p *process) awaitFirst(t *testing.T) {
	t.Helper()
	select {
	case <-p.first:
	case <-time.After(30 * time.Second):
		t.Fatal("a worker has not begun")
	}
}

func (p *process) halt()   { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// kill ends the worker in the middle of what it does.
func (p *process) kill() {
	p.killed = true
	_ = p.cmd.Process.Kill()
}

// end lets the worker finish, and returns when all that it wrote has been read.
func (p *process) end(t *testing.T) {
	t.Helper()
	_ = p.stop.Close()
	p.read.Wait()
	if err := p.cmd.Wait(); err != nil && !p.killed {
		t.Errorf("worker: %v", err)
	}
	if p.bad != nil && !p.killed {
		t.Errorf("a worker's lines: %v", p.bad)
	}
}
