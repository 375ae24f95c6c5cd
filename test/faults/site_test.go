package faults

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
)

const (
	ttl     = time.Minute // so that nothing below is freed by its ttl alone
	attempt = 200 * time.Millisecond
	pool    = 16
	// inTime bounds an answer: an attempt, and room for a machine that is busy, whose own
	// delays are taken off. Package history holds answers to 20 ms.
	inTime = attempt + 200*time.Millisecond
)

// soak says whether there is time for minutes of it.
func soak() bool { return os.Getenv("TIERLOCK_SOAK") != "" }

// site is a Redis, a way to it, and whoever wants locks from it.
type site struct {
	*testing.T
	server *servers.RedisServer
	way    *way.Way
	boss   *redis.Client // past the way
	node
}

// node is one process's gateway, with a strong chain, one with a version guard and a weak
// one, whose local lock is exclusive.
type node struct {
	gw                       *gateway.Gateway
	store                    *redisstore.Store
	trail                    *gatewaytest.Audit
	orders, guarded, coupons *gateway.Chain
	log                      *journal
}

// setup changes what a node is made of.
type setup struct {
	server []string // options of redis-server
	way    func(*way.Way)
	store  func(*redisstore.Config)
	policy func(*gateway.Policy)
	hooks  gateway.Hooks
	trail  audit.Recorder // nil: the node's own
}

// newSite starts a Redis and one node, and has it take a first lock.
func newSite(t *testing.T, s setup) *site {
	t.Helper()
	return siteOn(t, servers.Redis(t, s.server...), s)
}

// siteOn is newSite on a server that there is.
func siteOn(t *testing.T, server *servers.RedisServer, s setup) *site {
	t.Helper()
	w, err := way.To(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	if s.way != nil {
		s.way(w)
	}
	site := &site{T: t, server: server, way: w, boss: client(t, server.Addr())}
	site.node = site.another(s)
	site.serves()
	return site
}

// another makes one more node on the same way.
func (s *site) another(with setup) node {
	s.Helper()
	cfg := redisstore.Config{Addrs: []string{s.way.Addr()}, PoolSize: pool}
	return newNode(s.T, cfg, with)
}

func newNode(t *testing.T, cfg redisstore.Config, with setup) node {
	t.Helper()
	n := node{trail: new(gatewaytest.Audit), log: new(journal)}
	logger := slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg.Logger = logger
	if with.store != nil {
		with.store(&cfg)
	}
	store, err := redisstore.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	n.store = store
	strong := gateway.Strong("one sale of a sku at a time", gateway.Fence)
	guarded := strong
	guarded.Ladder.VersionGuard = true
	weak := gateway.Weak("one claim of a coupon per user at a time", gateway.Reconcile)
	weak.Local.Permits = 1
	chains := map[string]gateway.Policy{"order": strong, "guarded": guarded, "coupon": weak}
	for name, p := range chains {
		p.TTL = ttl
		if with.policy != nil {
			with.policy(&p)
		}
		chains[name] = p
	}
	var trail audit.Recorder = n.trail
	if with.trail != nil {
		trail = with.trail
	}
	n.gw, err = gateway.New(gateway.Config{
		Chains: chains, Stores: map[string]tierlock.Backend{"main": store}, Audit: trail, Hooks: with.hooks, Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = n.gw.Close(ctx)
	})
	for name, into := range map[string]**gateway.Chain{"order": &n.orders, "guarded": &n.guarded, "coupon": &n.coupons} {
		if *into, err = n.gw.Chain(name); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// client is a plain one, which says what it is told and retries nothing.
func client(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// answer is what one TryLock came to.
type answer struct {
	lock *gateway.Lock
	err  error
	took time.Duration
}

func (a answer) tier() tierlock.Tier { return a.lock.Grant().Tier }

func (a answer) reason() tierlock.Reason {
	e, _ := errors.AsType[*tierlock.Error](a.err)
	if e == nil {
		return ""
	}
	return e.Reason
}

func (a answer) String() string {
	if a.err != nil {
		return fmt.Sprintf("%v after %v", a.err, a.took)
	}
	return fmt.Sprintf("%v after %v", a.tier(), a.took)
}

func ask(c *gateway.Chain, id string, opts ...gateway.Option) answer {
	began := time.Now()
	l, err := c.TryLock(context.Background(), id, opts...)
	return answer{l, err, tookSince(began)}
}

// tookSince is the time since began in which this process got to run.
func tookSince(began time.Time) time.Duration {
	now := time.Now()
	return now.Sub(began) - beat.Stalled(began, now)
}

// must takes a lock on the shared tier or ends the test.
func (s *site) must(c *gateway.Chain, id string, opts ...gateway.Option) *gateway.Lock {
	s.Helper()
	a := ask(c, id, opts...)
	if a.err != nil || a.tier() != tierlock.Shared {
		s.Fatalf("lock %s: %v", id, a)
	}
	return a.lock
}

// is checks the answer of a call that got no lock.
func (s *site) is(a answer, want error, reasons ...tierlock.Reason) {
	s.Helper()
	fits := errors.Is(a.err, want)
	if errors.Is(errNotServed, want) {
		fits = errors.Is(a.err, tierlock.ErrTimeout) || errors.Is(a.err, tierlock.ErrSystem)
	}
	if !fits {
		s.Errorf("got %v, want %v", a, want)
	}
	ok := len(reasons) == 0
	for _, r := range reasons {
		ok = ok || a.reason() == r
	}
	if !ok {
		s.Errorf("reason %s, want %s", a.reason(), reasons)
	}
	if a.took > inTime {
		s.Errorf("answered after %v, want at most %v", a.took, inTime)
	}
	_ = a.lock.Unlock(context.Background())
}

// served tells whether the chain serves on the shared tier now.
func served(c *gateway.Chain) bool {
	a := ask(c, "served"+tierlock.NewRequestID().Fingerprint())
	defer func() { _ = a.lock.Unlock(context.Background()) }()
	return a.err == nil && a.tier() == tierlock.Shared
}

// serves waits until every chain is served by the store, as it is 5 s after any fault.
func (s *site) serves() {
	s.Helper()
	for _, c := range []*gateway.Chain{s.orders, s.guarded, s.coupons} {
		s.eventually(10*time.Second, c.Name()+" is served by the store", func() bool { return served(c) })
	}
}

// nothingIsLeft checks that no lock stands in the store and none is in doubt, soon.
func (s *site) nothingIsLeft() {
	s.Helper()
	s.eventually(5*time.Second, "nothing is in doubt", func() bool { return s.gw.Status().InDoubt == 0 })
	if keys := s.locks(); len(keys) > 0 {
		s.Errorf("left in the store: %q", keys)
	}
}

// locks lists the locks in the store, without the records beside them.
func (s *site) locks() (keys []string) {
	s.Helper()
	all, err := s.boss.Keys(s.Context(), "biz:*:lock:*").Result()
	if err != nil {
		s.Fatal(err)
	}
	return all
}

// do sends the server a command past everything.
func (s *site) do(args ...any) {
	s.Helper()
	if err := s.boss.Do(s.Context(), args...).Err(); err != nil {
		s.Fatalf("%v: %v", args, err)
	}
}

func (s *site) eventually(within time.Duration, what string, ok func() bool) {
	s.Helper()
	eventually(s.T, within, what, ok)
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); wait(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// lost waits until ctx has ended and checks that it is the loss of its lock that ended it.
func (s *site) lost(ctx context.Context, within time.Duration) {
	s.Helper()
	select {
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), tierlock.ErrLost) {
			s.Errorf("the holder's context ended by %v", context.Cause(ctx))
		}
	case <-time.After(within):
		s.Errorf("the holder's context still lives after %v", within)
	}
}

func wait(d time.Duration) { <-time.After(d) }

// resource is what the lock protects: it lets holders enter by their token.
type resource struct {
	t   *testing.T
	db  *sql.DB
	key tierlock.Key
}

func newResource(t *testing.T, id string) *resource {
	t.Helper()
	key, err := tierlock.ParseKey("biz:order:lock:" + id)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", dsn(filepath.Join(t.TempDir(), "shop.db")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec(guard.Schema(guard.SQLite)); err != nil {
		t.Fatal(err)
	}
	return &resource{t, db, key}
}

func dsn(path string) string {
	return "file:" + path + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate"
}

func (r *resource) enter(token tierlock.Token) error { return enter(r.db, r.key, token) }

func enter(db *sql.DB, key tierlock.Key, token tierlock.Token) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	if err := guard.Enter(context.Background(), tx, guard.SQLite, key, token); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// twoHolders checks what the store's loss of memory came to: both hold, the later one has
// the greater token, and the resource refuses the earlier one as soon as the later was in.
func (r *resource) twoHolders(before, after *gateway.Lock) {
	r.t.Helper()
	a, b := before.Grant(), after.Grant()
	if b.Token <= a.Token {
		r.t.Errorf("token %d after %d", b.Token, a.Token)
	}
	for _, step := range []struct {
		token tierlock.Token
		want  error
	}{{a.Token, nil}, {b.Token, nil}, {a.Token, guard.ErrStale}, {b.Token, nil}} {
		if err := r.enter(step.token); !errors.Is(err, step.want) {
			r.t.Errorf("enter %d: %v, want %v", step.token, err, step.want)
		}
	}
}

// journal keeps what was logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) contains(s string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.text.String(), s)
}
