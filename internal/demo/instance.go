//go:build !nodemo

package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/examples/coupon"
	"github.com/tierlock/tierlock/examples/order"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/switchcfg"
	"github.com/tierlock/tierlock/switchcfg/nacossource"
)

const (
	holdTTL  = 60 * time.Second       // long, so that a lock left behind is still there when it is looked for
	patience = 50 * time.Millisecond  // what customers wait beyond one attempt: 100 ms by default, less shows more conflicts
	dawdle   = 300 * time.Millisecond // how long a customer who cannot find the card holds everybody up
	gift     = "gift"                 // the second kind of coupons: repaired by a Go function, the first one by SQL
)

// policies are those of the two services, with the times of t.
func policies(t Timetable) map[string]gateway.Policy {
	out := map[string]gateway.Policy{order.Chain: order.Policy(), coupon.Chain: coupon.Policy()}
	for name, p := range out {
		p.TTL, p.Attempt, p.Wait = holdTTL, t.Attempt, t.Attempt+patience
		p.Ladder.SaturateIn, p.Ladder.RelaxIn, p.Ladder.SteadyIn, p.Ladder.RampEvery = t.SaturateIn, t.RelaxIn, t.SteadyIn, t.RampEvery
		out[name] = p
	}
	return out
}

// instance is one process of the shop, as far as one process can play two: its own
// connections, its own spool, its own gateway.
type instance struct {
	name    string
	gw      *gateway.Gateway
	orders  *order.Service
	coupons *coupon.Service
	gifts   *coupon.Service
	asked   *asked
	log     *audit.Log

	gateClosers []func(context.Context) error // what must end before the log
	logClosers  []func(context.Context) error
}

// scene is what all instances of one story share.
type scene struct {
	timetable Timetable
	servers   *stage
	seams     Seams
	oracle    *oracle
	ledger    *ledger
	nudge     func()       // called when a chain may have flipped
	served    atomic.Int64 // holds so far
	log       *slog.Logger
}

// open starts one instance. On an error nothing of it is left running.
func (sc *scene) open(ctx context.Context, name string) (in *instance, err error) {
	in = &instance{name: name}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start %s: %w", name, err), in.close(context.WithoutCancel(ctx)))
			in = nil
		}
	}()
	if err := sc.openLog(in); err != nil {
		return in, err
	}
	store, err := redisstore.New(redisstore.Config{Addrs: []string{sc.servers.proxy.Addr()}, Wire: sc.timetable.Wire, PoolSize: sc.timetable.Wire, Logger: sc.log})
	if err != nil {
		return in, err
	}
	in.onGateClose(func(context.Context) error { return store.Close() })
	source, err := sc.openSwitch(in)
	if err != nil {
		return in, err
	}
	in.asked = newAsked(sc.seams.store(store))
	in.gw, err = gateway.New(gateway.Config{
		Chains: policies(sc.timetable), Stores: map[string]tierlock.Backend{"main": in.asked},
		Audit: sc.seams.recorder(in.log), Switch: source, Hooks: sc.hooks(in), Logger: sc.log.With(slog.String("instance", name)),
	})
	if err != nil {
		return in, err
	}
	in.onGateClose(in.gw.Close)
	return in, sc.openServices(in)
}

func (in *instance) onGateClose(f func(context.Context) error) {
	in.gateClosers = append(in.gateClosers, f)
}

func (sc *scene) openLog(in *instance) error {
	sink, err := sc.servers.sink()
	if err != nil {
		return err
	}
	in.log, err = audit.Open(audit.Config{
		Dir: filepath.Join(sc.servers.dir, in.name), Producer: in.name, Sink: sink, Heartbeat: sc.timetable.Heartbeat,
		ClockError: time.Millisecond, // both instances read this process's clock
		Logger:     sc.log,
	})
	if err != nil {
		return errors.Join(err, sink.Close())
	}
	in.logClosers = append(in.logClosers, func(context.Context) error { return sink.Close() }, in.log.Close)
	return nil
}

func (sc *scene) openSwitch(in *instance) (switchcfg.Source, error) {
	if sc.servers.nacos == "" {
		return switchcfg.File(sc.servers.switchFile()), nil
	}
	dir := filepath.Join(sc.servers.dir, in.name+"-nacos")
	source, err := nacossource.New(nacossource.Config{
		Addr: sc.servers.nacos, DataID: sc.servers.dataID, CacheDir: filepath.Join(dir, "cache"), LogDir: filepath.Join(dir, "log"), Logger: sc.log,
	})
	if err != nil {
		return nil, err
	}
	in.onGateClose(source.Close)
	return source, nil
}

func (sc *scene) hooks(in *instance) gateway.Hooks {
	return gateway.Hooks{
		Acquired: func(info gateway.AcquireInfo) {
			sc.ledger.acquired(info)
			if info.Verdict.Outcome == tierlock.Success {
				in.asked.forget(info.Grant.RequestID)
			}
		},
		Stepped: func(gateway.StepInfo) { sc.nudge() },
		Ordered: func(gateway.OrderInfo) { sc.nudge() },
	}
}

func (sc *scene) openServices(in *instance) (err error) {
	in.orders, err = order.New(order.Config{
		Gateway: in.gw, DB: sc.servers.db, Dialect: sc.servers.dialect, Enter: sc.seams.Enter, Watch: sc.watch,
	})
	if err != nil {
		return err
	}
	cfg := coupon.Config{
		Gateway: in.gw, DB: sc.servers.db, Watch: sc.watch,
		Between: func(ctx context.Context) { pause(ctx, sc.timetable.Between) },
	}
	if in.coupons, err = coupon.New(cfg); err != nil {
		return err
	}
	cfg.Kind = gift
	in.gifts, err = coupon.New(cfg)
	return err
}

// watch has the oracle note every hold. Every hundredth customer dawdles: without one
// nobody would ever be told that somebody else holds the lock.
func (sc *scene) watch(ctx context.Context, g tierlock.Grant) (leave func()) {
	leave = sc.oracle.watch(ctx, g)
	if sc.served.Add(1)%100 == 0 {
		pause(ctx, dawdle)
	}
	return leave
}

// closeGateway ends the locks' side: after it no event comes any more.
func (in *instance) closeGateway(ctx context.Context) error { return closeAll(ctx, &in.gateClosers) }

// close ends everything, the log last.
func (in *instance) close(ctx context.Context) error {
	return errors.Join(in.closeGateway(ctx), closeAll(ctx, &in.logClosers))
}

// closeAll calls and forgets closers, the last first.
func closeAll(ctx context.Context, closers *[]func(context.Context) error) error {
	var errs []error
	for _, end := range slices.Backward(*closers) {
		errs = append(errs, end(ctx))
	}
	*closers = nil
	return errors.Join(errs...)
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
