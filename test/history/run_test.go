package history

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
)

// run is one history in the making: a store, registers and workers.
type run struct {
	*testing.T
	place   place
	server  *servers.RedisServer // nil where there are several
	way     *way.Way             // to it
	watch   []*redis.Client      // of each server that grants; past the way
	dialect guard.Dialect
	driver  string
	dsn     string
	db      *sql.DB
	think   int           // one increment in so many thinks ...
	thinks  time.Duration // ... for so long
	delay   time.Duration // lock_delay of the chain
	workers []*process
	history History
	clock   clock
}

// newRun is a run on one Redis behind a way.
func newRun(t *testing.T, dialect guard.Dialect) *run {
	t.Helper()
	servers.Need(t, "redis-server")
	return runOn(t, dialect, servers.Redis(t))
}

func runOn(t *testing.T, dialect guard.Dialect, server *servers.RedisServer) *run {
	t.Helper()
	w, err := way.To(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	r := runAt(t, dialect, place{Addrs: []string{w.Addr()}}, server)
	r.server, r.way = server, w
	return r
}

// runAt makes the registers in a SQLite file, or in a PostgreSQL or MariaDB of its own.
func runAt(t *testing.T, dialect guard.Dialect, at place, grant ...*servers.RedisServer) *run {
	t.Helper()
	r := &run{T: t, place: at, dialect: dialect, clock: newClock(), think: 8, thinks: shortTTL}
	r.history.Attempt = attempt
	r.driver, r.dsn = "sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_txlock=immediate"
	switch dialect {
	case guard.Postgres:
		r.driver, r.dsn = "pgx", servers.Postgres(t).DSN()
	case guard.MySQL:
		r.driver, r.dsn = "mysql", servers.MariaDB(t).DSN()
	}
	r.look(grant...)
	var err error
	if r.db, err = sql.Open(r.driver, r.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.db.Close() })
	for _, query := range []string{
		guard.Schema(dialect),
		`CREATE TABLE register (id VARCHAR(20) PRIMARY KEY, n BIGINT NOT NULL)`,
		`INSERT INTO register VALUES ('` + registerKey + `', 0), ('` + ledgerKey + `', 0)`,
	} {
		if _, err := r.db.ExecContext(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	return r
}

// look makes the clients that see what stands in the store.
func (r *run) look(at ...*servers.RedisServer) {
	r.watch = nil
	for _, server := range at {
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), DisableIdentity: true})
		r.Cleanup(func() { _ = client.Close() })
		r.watch = append(r.watch, client)
	}
}

// start adds workers.
func (r *run) start(n int, d defect) {
	r.Helper()
	r.startAt(r.place, n, d)
}

// startAt adds workers who know the store by another place.
func (r *run) startAt(at place, n int, d defect) {
	r.Helper()
	for range n {
		p := startWorker(r.T, job{len(r.workers) + 1, at, r.dialect, r.driver, r.dsn, r.think, r.thinks, r.delay, d})
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
	for _, server := range r.watch {
		keys, err := server.Keys(r.Context(), "biz:order:lock:*").Result()
		if err != nil {
			r.Fatal(err)
		}
		for _, key := range keys {
			if id, err := tierlock.ParseRequestID(server.Get(r.Context(), key).Val()); err == nil {
				found["order:"+strings.TrimPrefix(key, "biz:order:lock:")] = id.Fingerprint()
			}
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
	r.history.Last = map[string]int64{}
	for _, id := range []string{registerKey, ledgerKey} {
		n := int64(0)
		if err := r.db.QueryRow(fmt.Sprintf(`SELECT n FROM register WHERE id = '%s'`, id)).Scan(&n); err != nil {
			r.Fatal(err)
		}
		r.history.Last["order:"+id] = n
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
	r.Logf("%d operations, %d stands, registers at %v: %v", len(h.Ops), len(h.Stands), h.Last, count)
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
