package history

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/pulse"
)

const workerEnv = "TIERLOCK_HISTORY_WORKER"

// job is what a worker is told: JSON in its environment.
type job struct {
	Process int
	Place   place
	Dialect guard.Dialect
	Driver  string
	DSN     string
	Think   int           // one increment in so many thinks between reading and writing ...
	Thinks  time.Duration // ... for so long and a little more
	Delay   time.Duration // lock_delay of the chain
	Defect  defect        // planted into the worker's own stack
}

// place is where the store is, and what it is made of.
type place struct {
	Addrs    []string
	Sentinel string // its master's name; empty: no sentinels
	Cluster  bool
}

func (p place) store() (*redisstore.Store, error) {
	cfg := redisstore.Config{Addrs: p.Addrs, Cluster: p.Cluster, PoolSize: 8}
	if p.Sentinel != "" {
		cfg.Sentinel = &redisstore.SentinelConfig{Master: p.Sentinel}
	}
	return redisstore.New(cfg)
}

// The keys, each with a register that its holders increment. Now and then they sleep between
// reading and writing for longer than the first one's ttl; what is left behind of the second
// stands for a minute.
const (
	registerKey, ledgerKey = "register", "ledger"
	shortTTL, longTTL      = time.Second, time.Minute
	attempt                = 200 * time.Millisecond
	clients                = 4 // of one worker
)

// worker takes locks until its input ends, and writes down what it saw.
type worker struct {
	job
	chain *gateway.Chain
	db    *sql.DB
	clock clock
	pulse *pulse.Pulse

	mu  sync.Mutex
	out *json.Encoder // guarded by mu
	ids int           // guarded by mu
}

func work(j job) error {
	w := &worker{job: j, out: json.NewEncoder(os.Stdout), clock: newClock()}
	db, err := sql.Open(j.Driver, j.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	w.db = db
	store, err := j.Place.store()
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	policy := gateway.Strong("one increment of the register at a time", gateway.Fence)
	policy.Audit.Record = audit.RecordOff // this history is the record
	if policy.LockDelay = j.Delay; j.Defect == grantsAtOnce {
		policy.LockDelay = -1
	}
	gw, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{"order": policy},
		Stores: map[string]tierlock.Backend{"main": planted(store, j.Defect)},
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = gw.Close(ctx)
	}()
	if w.chain, err = gw.Chain("order"); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	w.pulse = pulse.Start()
	defer w.pulse.Stop()
	for n := range clients {
		all.Go(func() { w.client(ctx, n) })
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	all.Wait()
	return nil
}

// say writes a line. An operation gets its id at the first.
func (w *worker) say(op *Op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if op.ID == 0 {
		w.ids++
		op.ID, op.Process = w.ids, w.Process
	}
	_ = w.out.Encode(op)
}

// client takes one key after the other.
func (w *worker) client(ctx context.Context, n int) {
	for i := n; ctx.Err() == nil; i++ {
		id, ttl := registerKey, shortTTL
		if i%2 == 1 {
			id, ttl = ledgerKey, longTTL
		}
		if !w.visit(ctx, n, id, ttl) {
			pause(ctx, 40*time.Millisecond) // a store that does not answer needs no crowd
		}
		pause(ctx, time.Duration(2+rand.IntN(6))*time.Millisecond)
	}
}

// visit takes a lock, works under it and gives it back; answered tells whether the store
// said anything.
func (w *worker) visit(ctx context.Context, n int, id string, ttl time.Duration) (answered bool) {
	request := tierlock.NewRequestID()
	op := Op{Kind: Acquire, Client: n, Key: w.chain.Name() + ":" + id, Holder: request.Fingerprint(), TTL: int64(ttl)}
	op.Call = w.clock.now()
	w.say(&op)
	began := time.Now()
	written := w.clock.at(began) - op.Call // beside the lines of others, and maybe stopped
	l, err := w.chain.TryLock(context.Background(), id, gateway.WithRequestID(request), gateway.WithTTL(ttl), gateway.WithoutRenew())
	op.Return = w.clock.now()
	op.Stalled = written + int64(w.pulse.Stalled(began, time.Now()))
	answered = w.answer(&op, l, err)
	w.say(&op)
	if l == nil {
		return answered
	}
	w.under(ctx, n, id, l, op)
	return true
}

// answer fills in what came of an acquire.
func (w *worker) answer(op *Op, l *gateway.Lock, err error) (answered bool) {
	if err == nil {
		g := l.Grant()
		op.Outcome, op.Tier, op.Token = Granted, g.Tier.String(), uint64(g.Token)
		return true
	}
	e, _ := errors.AsType[*tierlock.Error](err)
	op.Reason = string(e.Reason)
	switch e.Reason {
	case tierlock.ReasonHeld:
		op.Outcome = Held
		return true
	case tierlock.ReasonSlow, tierlock.ReasonRecovering:
		op.Outcome = Unsent
	}
	return false
}

// under works under a lock and gives it back. The hold ends when its holder gives it back
// or has to stop, whichever is first; the work itself does not care, as work does whose
// process was stopped.
func (w *worker) under(ctx context.Context, n int, id string, l *gateway.Lock, grant Op) {
	line := Op{Kind: Hold, Client: n, Key: grant.Key, Holder: grant.Holder, Tier: grant.Tier, Call: grant.Return}
	base := Op{Client: n, Key: grant.Key, Holder: grant.Holder, TTL: grant.TTL}
	w.increment(ctx, id, base, l.Grant())
	if rand.IntN(4) == 0 {
		w.renew(base, l)
	}
	op := base
	op.Kind, op.Call = Release, w.clock.now()
	line.Return = min(op.Call, w.clock.at(l.Grant().ExpiresAt))
	w.say(&line)
	w.say(&op) // killed on the way back from the store, it has given the lock back all the same
	if err := l.Unlock(context.Background()); err == nil {
		op.Outcome = Released
	}
	op.Return = w.clock.now()
	w.say(&op)
}

func (w *worker) renew(op Op, l *gateway.Lock) {
	op.Kind, op.Call = Renew, w.clock.now()
	w.say(&op)
	err := l.Renew(context.Background(), time.Duration(op.TTL))
	op.Return = w.clock.now()
	switch {
	case err == nil:
		op.Outcome = Kept
	case errors.Is(err, tierlock.ErrLost):
		op.Outcome = Unsent // maybe known without asking: says nothing of the store
	}
	w.say(&op)
}

// increment reads the key's register in one transaction and writes it in another, as a service
// does that reads, thinks and writes; now and then it thinks for longer than its lock lasts.
func (w *worker) increment(ctx context.Context, id string, op Op, g tierlock.Grant) {
	op.Kind, op.Token, op.Call = Read, uint64(g.Token), w.clock.now()
	err := w.within(func(tx *sql.Tx) error {
		if w.Defect != checksAtWrite {
			if err := guard.Enter(ctx, tx, w.Dialect, g.Key, g.Token); err != nil {
				return err
			}
		}
		return tx.QueryRow(fmt.Sprintf(`SELECT n FROM register WHERE id = '%s'`, id)).Scan(&op.Value)
	})
	if !w.accessed(&op, err) {
		return
	}
	if rand.IntN(w.Think) == 0 {
		pause(ctx, w.Thinks+time.Duration(rand.IntN(200))*time.Millisecond)
	}
	read := op.Value
	op.ID, op.Kind, op.Value, op.Call, op.Return, op.Outcome = 0, Write, read+1, w.clock.now(), 0, ""
	w.say(&op) // its process may be killed under it
	err = w.within(func(tx *sql.Tx) error {
		if w.Defect == forgetsMark {
			if _, err := tx.Exec(`DELETE FROM tierlock_fence`); err != nil {
				return err
			}
		}
		if err := guard.Enter(context.Background(), tx, w.Dialect, g.Key, g.Token); err != nil {
			return err
		}
		_, err := tx.Exec(fmt.Sprintf(`UPDATE register SET n = %d WHERE id = '%s'`, read+1, id))
		return err
	})
	w.accessed(&op, err)
}

// accessed writes down what the guard said.
func (w *worker) accessed(op *Op, err error) (ok bool) {
	op.Return = w.clock.now()
	switch {
	case err == nil:
		op.Outcome = Accepted
	case errors.Is(err, guard.ErrStale):
		op.Outcome = Refused
	case errors.Is(err, context.Canceled) && op.Kind == Read:
		return false // the run is over
	default:
		op.Return, op.Reason = 0, err.Error() // nobody knows
	}
	w.say(op)
	return op.Outcome == Accepted
}

func (w *worker) within(fn func(*sql.Tx) error) error {
	tx, err := w.db.Begin()
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
