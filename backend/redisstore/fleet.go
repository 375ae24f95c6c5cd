package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
)

// retireAfter is how long a node that serves nothing any more keeps its connections: what
// is on them has ended by its own deadline long before.
const retireAfter = 2 * time.Second

// fleet is servers whose roles change: those that sentinels watch, or a Cluster. What is
// known of them is one chart, read without a lock and replaced as a whole by scout.
type fleet struct {
	cfg   *Config
	probe tierlock.Key // stem of the keys that probes use
	chart atomic.Pointer[chart]
	scout scout
	halt  atomic.Bool // it was told that the whole Cluster is down

	mu      sync.Mutex           // guards what follows; not held over I/O
	nodes   map[string]*node     // by address
	pointed map[string]time.Time // when a server last pointed to this address
	retired []retired            // in the order of their ends
	closed  bool
}

// retired is a node that is to be closed at a time.
type retired struct {
	*node
	at time.Time
}

func newFleet(cfg *Config, probe tierlock.Key) *fleet {
	f := &fleet{cfg: cfg, probe: probe, nodes: map[string]*node{}, pointed: map[string]time.Time{}}
	f.scout.init(cfg)
	f.scout.install, f.scout.rest = f.install, f.bury
	return f
}

// known is the chart; where there is none yet, the first look is waited for.
func (f *fleet) known(within bound) (*chart, error) {
	if c := f.chart.Load(); c != nil {
		return c, nil
	}
	if err := f.scout.await(within.context()); err != nil {
		return nil, err
	}
	if c := f.chart.Load(); c != nil {
		return c, nil
	}
	return nil, &tierlock.Fault{Reason: tierlock.ReasonDown, Err: f.scout.lastError()}
}

func (f *fleet) place(within bound, key tierlock.Key) (place, error) {
	c, err := f.known(within)
	if err != nil {
		return place{}, err
	}
	s := c.shardOf(key)
	if s == nil {
		f.scout.hint()
		return place{}, &tierlock.Fault{Reason: tierlock.ReasonDown, Err: errUnassigned}
	}
	return place{node: s.node}, nil
}

var errUnassigned = errors.New("no server has the slot of this key")

// elsewhere looks again after faults that another server may not have, and follows where a
// Cluster points. Sentinels point nowhere: the next question goes to the next master.
func (f *fleet) elsewhere(ctx context.Context, key tierlock.Key, from place, fault error, turn int) (place, error) {
	if stale(fault) {
		f.scout.hint()
	}
	if !f.cfg.Cluster {
		return place{}, fault
	}
	if wholeIsDown(fault) && !f.halt.Swap(true) {
		f.cfg.Logger.WarnContext(ctx, "redis cluster serves no key at all: a slot has no server and cluster-require-full-coverage is yes, or this side has no majority; with no, a lost shard takes its own keys alone",
			slog.String("addr", from.node.addr), slog.Any("error", fault))
	}
	p := pointerIn(fault, from.node.addr)
	if p.kind == pointsNowhere {
		return place{}, fault
	}
	if p.kind == pointsLater && turn > 0 || turn >= maxPointers {
		if err := pause(ctx, f.cfg.Timeout/4, turn); err != nil {
			return place{}, &tierlock.Fault{Reason: err.Reason, Err: fault}
		}
	}
	if p.kind == pointsLater {
		to, err := f.place(till{ctx}, key)
		to.alone, to.bare = true, true
		return to, err
	}
	n := f.pointedAt(p.addr)
	if n == nil {
		return place{}, &tierlock.Fault{Reason: tierlock.ReasonBroken, Err: net.ErrClosed}
	}
	return place{node: n, asking: p.kind == pointsOnce, alone: true, bare: from.bare}, nil
}

// pointedAt is the node at an address that a server named; nil when the store is closed.
func (f *fleet) pointedAt(addr string) *node {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.pointed[addr] = time.Now()
	return f.nodeLocked(addr)
}

func (f *fleet) nodeLocked(addr string) *node {
	n := f.nodes[addr]
	if n == nil {
		n = newNode(f.cfg, addr)
		f.nodes[addr] = n
	}
	return n
}

// install makes a chart of what was seen, and retires the nodes that are not on it.
func (f *fleet) install(r report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.chart.Load()
	if f.closed || old.same(r) {
		return
	}
	next := newChart(r, old, f.nodeLocked, f.probe)
	keep := map[*node]bool{}
	for _, s := range next.shards {
		keep[s.node] = true
	}
	now := time.Now()
	for addr, n := range f.nodes {
		if keep[n] || now.Sub(f.pointed[addr]) < retireAfter {
			continue
		}
		delete(f.nodes, addr)
		delete(f.pointed, addr)
		f.retired = append(f.retired, retired{n, now.Add(retireAfter)})
	}
	next.forget(old, now)
	f.chart.Store(next)
	if old != nil {
		next.tell(f.cfg.Logger, old)
	}
}

// bury closes the nodes whose time is over.
func (f *fleet) bury(now time.Time) {
	for {
		f.mu.Lock()
		if len(f.retired) == 0 || now.Before(f.retired[0].at) {
			f.mu.Unlock()
			return
		}
		n := f.retired[0].node
		f.retired = f.retired[1:]
		f.mu.Unlock()
		_ = n.close() // whatever its connections say at their end
	}
}

func (f *fleet) serving(target string) []*node {
	c := f.chart.Load()
	if c == nil {
		return nil
	}
	var all []*node
	for _, s := range c.shards {
		if target == "" || s.name == target {
			all = append(all, s.node)
		}
	}
	return all
}

// probes are a key for each shard of target. A target that is no more has none: its keys
// are well where they are now.
func (f *fleet) probes(ctx context.Context, target string) ([]tierlock.Key, error) {
	c, err := f.known(till{ctx})
	if err != nil {
		return nil, err
	}
	var keys []tierlock.Key
	for _, s := range c.shards {
		if target == "" || s.name == target {
			keys = append(keys, s.probe)
		}
	}
	if target == "" && !c.whole {
		f.scout.hint()
		return nil, &tierlock.Fault{Reason: tierlock.ReasonDown, Err: errUnassigned}
	}
	return keys, nil
}

// Target names the shard that serves key; empty while none is known.
func (f *fleet) Target(key tierlock.Key) string {
	if c := f.chart.Load(); c != nil {
		if s := c.shardOf(key); s != nil {
			return s.name
		}
	}
	return ""
}

func (f *fleet) close() error {
	f.scout.close()
	f.mu.Lock()
	f.closed = true
	nodes, old := f.nodes, f.retired
	f.nodes, f.retired = nil, nil
	f.mu.Unlock()
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.close())
	}
	for _, r := range old {
		_ = r.close()
	}
	return errors.Join(errs...)
}
