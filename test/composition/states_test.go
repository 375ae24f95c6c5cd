package composition

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/switchcfg"
)

const lockKey = "biz:coupon:lock:a"

// flip moves a chain somewhere else after its lock was taken: by an order, or with its store
// gone, which no order says.
type flip struct {
	name string
	mode tierlock.Mode // 0: the server is killed
}

// process is one instance on the Redis.
type process struct {
	*gateway.Gateway
	chain *gateway.Chain
}

// ground is a Redis and two processes on it, one that takes a lock and one that looks on.
type ground struct {
	*testing.T
	server   *servers.RedisServer
	own, far process
	version  uint64
}

func newGround(t *testing.T) *ground {
	t.Helper()
	g := &ground{T: t, server: servers.Redis(t)}
	g.own, g.far = g.process(), g.process()
	return g
}

func (g *ground) process() process {
	g.Helper()
	store, err := redisstore.New(redisstore.Config{Addrs: []string{g.server.Addr()}})
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() { _ = store.Close() })
	policy := gateway.Weak("one claim of a coupon per user at a time", gateway.Reconcile)
	policy.TTL = time.Minute // nothing below ends by its ttl
	policy.Fencing = true
	gw, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{"coupon": policy},
		Stores: map[string]tierlock.Backend{"main": store}, Audit: new(gatewaytest.Audit),
	})
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = gw.Close(ctx)
	})
	chain, err := gw.Chain("coupon")
	if err != nil {
		g.Fatal(err)
	}
	return process{gw, chain}
}

// order puts the taker's chain on a mode.
func (g *ground) order(mode tierlock.Mode) {
	g.Helper()
	g.version++
	doc := switchcfg.Document{Version: g.version, Chains: map[string]switchcfg.Directive{
		"coupon": {Mode: mode, Until: time.Now().Add(time.Hour), Reason: "test", By: "test"},
	}}
	if err := g.own.Apply(doc); err != nil {
		g.Fatal(err)
	}
}

// flip moves the taker's chain, and returns when every new request meets it.
func (g *ground) flip(to flip) {
	g.Helper()
	if to.mode != 0 {
		g.order(to.mode)
		return
	}
	g.order(tierlock.ModeShared) // asks the store whatever its health, so that it is noticed
	g.server.Kill()
	for end := time.Now().Add(10 * time.Second); g.own.Status().Chains[0].Targets[0].State != degrade.Down; {
		if time.Now().After(end) {
			g.Fatal("the store is gone and nobody notices")
		}
		l, _ := g.own.chain.TryLock(g.Context(), "other")
		_ = l.Unlock(g.Context())
	}
}

// row takes a lock on a tier, flips the chain, and tells what becomes of the lock.
func (g *ground) row(from tierlock.Mode, to flip) []string {
	g.Helper()
	g.order(from)
	id := tierlock.NewRequestID()
	l, err := g.own.chain.TryLock(g.Context(), "a", gateway.WithRequestID(id), gateway.WithoutRenew())
	switch {
	case from == tierlock.ModeOptimistic:
		if !errors.Is(err, tierlock.ErrOptimistic) || l != nil {
			g.Fatalf("%v: %v, %v", from, l, err)
		}
	case err != nil:
		g.Fatalf("%v: %v", from, err)
	case l.Grant().Tier.String() != from.String():
		g.Fatalf("%v: on tier %v", from, l.Grant().Tier)
	}
	g.flip(to)
	key, err := tierlock.ParseKey(lockKey)
	if err != nil {
		g.Fatal(err)
	}
	attached := func(p process) string {
		h, err := p.Attach(g.Context(), key, id, gateway.WithoutRenew())
		if err != nil {
			return word(err)
		}
		return held(h.IsHeld(g.Context()))
	}
	cells := []string{from.String(), to.name, held(l.IsHeld(g.Context())), attached(g.own), attached(g.far)}
	before := l.Grant().ExpiresAt
	renewed := l.Renew(g.Context(), 2*time.Minute)
	cell := word(renewed)
	if after := l.Grant().ExpiresAt; renewed == nil && !after.After(before) {
		cell = "yes, the end stays"
	}
	return append(cells, cell, word(l.Unlock(g.Context())), g.left())
}

func held(yes bool, err error) string {
	switch {
	case err != nil:
		return word(err)
	case yes:
		return "yes"
	}
	return "no"
}

func word(err error) string {
	var e *tierlock.Error
	switch {
	case err == nil:
		return "yes"
	case errors.Is(err, tierlock.ErrLost):
		return "lost"
	case errors.As(err, &e) && (e.Outcome == tierlock.SystemError || e.Outcome == tierlock.Timeout):
		return "no answer" // by which of the two depends on what the last connection met
	}
	return err.Error()
}

// left is what the lock has left behind in the process and, where it can be reached, in the
// store.
func (g *ground) left() string {
	g.Helper()
	s := g.own.Status()
	var rest []string
	if c := s.Chains[0]; c.Live != 0 || c.Local != 0 {
		rest = append(rest, fmt.Sprintf("%d live, %d local", c.Live, c.Local))
	}
	if s.InDoubt > 0 {
		rest = append(rest, "a release that goes on")
	}
	if s.Chains[0].Targets[0].State != degrade.Down {
		client := redis.NewClient(&redis.Options{Addr: g.server.Addr()})
		defer client.Close()
		if n, err := client.Exists(g.Context(), lockKey, "{"+lockKey+"}:depth").Result(); err != nil || n > 0 {
			rest = append(rest, fmt.Sprintf("%d keys, %v", n, err))
		}
	}
	if len(rest) == 0 {
		return "nothing"
	}
	return strings.Join(rest, "; ")
}

// TestStatesAsTheDocsSay runs every row of docs/states.md on a real Redis. A row that has
// changed is printed whole: with TIERLOCK_WRITE_DOCS=1 the table is written anew.
func TestStatesAsTheDocsSay(t *testing.T) {
	from := []tierlock.Mode{tierlock.ModeShared, tierlock.ModeOptimistic, tierlock.ModeLocal, tierlock.ModeBypass}
	flips := []flip{
		{"shared", tierlock.ModeShared},
		{"optimistic", tierlock.ModeOptimistic},
		{"local", tierlock.ModeLocal},
		{"bypass", tierlock.ModeBypass},
		{"reject", tierlock.ModeReject},
		{"store gone", 0},
	}
	var table strings.Builder
	table.WriteString("| acquired on | then the chain goes to | `IsHeld` | `Attach` in its process | `Attach` elsewhere | `Renew` | `Unlock` | left behind |\n|---|---|---|---|---|---|---|---|\n")
	for _, a := range from {
		g := newGround(t)
		for _, b := range flips { // the last one kills the server
			fmt.Fprintf(&table, "| %s |\n", strings.Join(g.row(a, b), " | "))
		}
	}
	page := filepath.Join(root, "docs/states.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), "| acquired on")
	if !ok {
		t.Fatalf("%s has no table", page)
	}
	_, tail, _ := strings.Cut(rest, "\n\n")
	want := head + table.String() + "\n" + tail
	if os.Getenv("TIERLOCK_WRITE_DOCS") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Errorf("docs/states.md says otherwise; this came:\n%s", table.String())
	}
}
