package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/localfallback"
	"github.com/tierlock/tierlock/switchcfg"
)

// Gateway takes and keeps the locks of one process. Make one per process; all methods may
// be called at once from any goroutine.
type Gateway struct {
	prefix string
	chains map[string]*Chain
	stores map[string]*store
	audit  audit.Recorder
	news   newsWriter
	hooks  Hooks
	log    *slog.Logger

	locks    registry
	lines    lines
	events   events
	watchdog watchdog
	ledger   ledger
	applied  applied
	faults   hookFaults

	start  func(func(context.Context)) // runs a loop until Close
	stop   context.CancelFunc
	loops  sync.WaitGroup
	calls  atomic.Int64 // under way
	closed atomic.Bool
	quiet  chan struct{} // buffered: the last call has left a closed gateway
	done   sync.Once
}

// New checks cfg, reporting every fault at once, and starts the gateway's own loops. It
// does no I/O: an unreachable store shows in the first answers, not here.
func New(cfg Config) (*Gateway, error) {
	recorded := cfg.Audit != nil
	cfg = cfg.withDefaults()
	if err := cfg.check(recorded); err != nil {
		return nil, err
	}
	g := &Gateway{
		prefix: cfg.Prefix, chains: map[string]*Chain{}, stores: map[string]*store{},
		audit: cfg.Audit, news: noNews{}, hooks: cfg.Hooks, log: cfg.Logger, quiet: make(chan struct{}, 1),
		faults: hookFaults{began: time.Now()},
	}
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	g.start = func(loop func(context.Context)) { g.loops.Go(func() { loop(ctx) }) }
	g.ledger = ledger{gw: g, room: ledgerRoom, wake: make(chan struct{}, 1), idle: make(chan struct{}, 1), entries: map[owner]*entry{}}
	g.watchdog = watchdog{gw: g, wake: make(chan struct{}, 1), batch: map[renewal]*renewalBatch{}}
	if err := g.build(cfg); err != nil {
		stop()
		g.shut()
		return nil, err
	}
	if d, ok := cfg.Audit.(interface{ Describe(func() audit.Status) }); ok {
		d.Describe(g.describe)
	}
	if n, ok := cfg.Audit.(newsWriter); ok {
		g.news = n
	}
	g.start(g.sense)
	g.start(g.watchdog.run)
	g.start(g.ledger.run)
	if cfg.Switch != nil {
		g.start(func(ctx context.Context) { g.follow(ctx, cfg) })
	}
	return g, nil
}

// build makes the stores and chains of a checked cfg.
func (g *Gateway) build(cfg Config) (err error) {
	if g.applied.policies, err = hashPolicies(cfg.Chains); err != nil {
		return err
	}
	for name, b := range cfg.Stores {
		s := &store{granter: newGranter(b), name: name, gw: g, targets: map[string]*target{}}
		s.refresh()
		g.stores[name] = s
	}
	for name, p := range cfg.Chains {
		s := g.stores[p.Store]
		s.strong = s.strong || p.Ladder.Class == degrade.ClassStrong
		if s.attempt == 0 || p.Attempt < s.attempt {
			s.attempt = p.Attempt
		}
		table, err := localfallback.NewTable(localfallback.Config{Permits: p.Local.Permits, Keys: p.Local.Keys})
		if err != nil {
			return err
		}
		c := &Chain{
			gw: g, name: name, prefix: cfg.Prefix + ":" + name + ":lock:", policy: p, store: s, ladders: map[string]*ladder{},
			table: table, local: newGranter(table), bypass: newGranter(localfallback.Bypass{}),
		}
		c.current.Store(&c.policy)
		g.chains[name] = c
	}
	for _, c := range g.chains { // after all are counted: the sensor keeps part of its wire for strong ones
		if c.store.traits.Sharder == nil {
			c.ladderOf(tierlock.Key{})
		}
	}
	return nil
}

// follow keeps the switch document up to date until ctx ends.
func (g *Gateway) follow(ctx context.Context, cfg Config) {
	reported := func(r switchcfg.Report) {
		g.applied.withheld.Store(r.Withheld)
		if hook := cfg.Hooks.Reported; hook != nil {
			tell(g, "reported", hook, r)
		}
	}
	err := switchcfg.Follow(ctx, cfg.Switch, switchcfg.FollowConfig{
		Poll: cfg.Poll, LastGood: cfg.LastGood, Instance: cfg.Instance, Keys: cfg.SwitchKeys, Logger: g.log, Report: reported,
	}, g.Apply)
	if err != nil && ctx.Err() == nil {
		g.log.Error("switch not followed any more", "error", err)
	}
}

// Chain returns the flow of that name, or ErrInvalid, which lists those there are.
func (g *Gateway) Chain(name string) (*Chain, error) {
	if c := g.chains[name]; c != nil {
		return c, nil
	}
	return nil, tierlock.Invalid("chain", name, "is not configured; there are "+names(g.chains))
}

// enter counts a call in, unless the gateway is closed; who entered leaves.
//
// The race with Close, step by step: a call (1) counts itself, (2) reads closed; Close (3)
// sets closed, (4) reads the count. If 2 read false, then 1 came before 3 and hence
// before 4, so Close waits for this call.
func (g *Gateway) enter() bool {
	g.calls.Add(1)
	if g.closed.Load() {
		g.leave()
		return false
	}
	return true
}

func (g *Gateway) leave() {
	if g.calls.Add(-1) == 0 && g.closed.Load() {
		poke(g.quiet)
	}
}

// Close refuses new calls with ErrClosed, waits inside ctx for those under way and for what
// is in doubt, and ends the gateway's loops. It leaves held locks to their holders, who may
// still unlock them, and to their ttl: nobody renews them any more. It closes neither
// stores nor recorder. The error is ctx's, if something was left undone; what is on
// the wire to a store that hangs is then waited for, up to 2 s. A second Close waits for the
// first and returns nil.
func (g *Gateway) Close(ctx context.Context) (err error) {
	g.closed.Store(true)
	g.done.Do(func() {
		err = g.settled(ctx)
		g.stop()
		g.shut()
	})
	return err
}

// settled waits for calls under way, then for the ledger.
func (g *Gateway) settled(ctx context.Context) error {
	for g.calls.Load() > 0 {
		select {
		case <-g.quiet:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := g.ledger.drained(ctx); err != nil {
		return errors.Join(err, errors.New("gateway: locks in doubt are left to their ttl"))
	}
	return nil
}

// shut waits for the loops, which have been told to end.
func (g *Gateway) shut() {
	g.loops.Wait()
	for _, s := range g.stores {
		s.close()
	}
	for _, c := range g.chains {
		c.table.Close()
	}
}
