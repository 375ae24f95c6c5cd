package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/api"
	"github.com/tierlock/tierlock/metrics"
)

// greetTimeout bounds one sign of life asked for at the start.
const greetTimeout = time.Second

// base is what every long-running command has: metrics, admin pages, and what was opened,
// in the order in which it is taken apart again, from the end.
type base struct {
	cfg     Config
	log     *slog.Logger
	version string

	orders     following
	metrics    *metrics.Metrics
	exposition http.Handler
	explain    http.Handler // nil: there is no gateway
	admin      net.Listener
	stopping   atomic.Bool

	loops   []func(context.Context) // of its own, run by Run
	closers []closer
}

// closer ends one thing inside ctx. Where must is false a failure is only worth a warning:
// what could not be ended politely ends with the process.
type closer struct {
	what  string
	must  bool
	close func(ctx context.Context) error
}

// opened remembers how to close what has just been opened.
func (b *base) opened(what string, end func(context.Context) error) {
	b.closers = append(b.closers, closer{what: what, close: end})
}

func (b *base) openMetrics() (err error) {
	b.metrics, b.exposition, err = metrics.Standalone()
	if err == nil {
		b.metrics.Build(b.version)
	}
	return err
}

// openStores opens every shared store, and greets each from a loop.
func (b *base) openStores() (map[string]tierlock.Backend, error) {
	stores := map[string]tierlock.Backend{}
	for name, c := range b.cfg.Stores {
		st, err := c.open(b.log)
		if err != nil {
			return nil, prefixed("stores."+name+".", err)
		}
		b.opened("store "+name, func(context.Context) error { return st.Close() })
		b.loops = append(b.loops, func(ctx context.Context) { b.greet(ctx, name, st) })
		stores[name] = st
	}
	return stores, nil
}

// greet asks a store for a sign of life until there is one, so that the log of a start
// says whether it is there. The gateway finds out by itself as soon as it is used.
func (b *base) greet(ctx context.Context, name string, st tierlock.Backend) {
	prober := st.Traits().Prober
	if prober == nil {
		return
	}
	retry(ctx, b.log, "store "+name, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, greetTimeout)
		defer cancel()
		return prober.Probe(ctx, "")
	})
}

// serveAdmin answers the admin pages until ctx ends; health is what /healthz shows.
func (b *base) serveAdmin(ctx context.Context, health func() api.Health) error {
	pages := api.Admin{
		Metrics: b.exposition,
		Health:  health,
		Explain: b.explain,
		Ready: func() string {
			if b.stopping.Load() {
				return "stopping"
			}
			return ""
		},
	}
	return api.Serve(ctx, b.admin, pages.Handler(), time.Second, b.log)
}

// run does work until ctx ends or work does, beside the loops and the admin pages, and then
// takes everything apart: not ready any more, loops ended, what was opened closed. The
// admin pages answer until the last.
func (b *base) run(ctx context.Context, health func() api.Health, work func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(ctx, func() { b.stopping.Store(true) })
	lasting := context.WithoutCancel(ctx)
	loops, endLoops := start(lasting, b.loops...)
	defer endLoops()
	var adminErr error
	admin, endAdmin := start(lasting, func(ctx context.Context) {
		adminErr = b.serveAdmin(ctx, health)
		stop() // without its admin pages nobody could look after it
	})
	defer endAdmin()

	err := work(ctx)
	b.log.InfoContext(lasting, "stopping", slog.Duration("grace", b.grace()))
	b.stopping.Store(true)
	endLoops()
	loops.Wait()
	err = errors.Join(err, b.release())
	endAdmin()
	admin.Wait()
	b.log.InfoContext(lasting, "stopped")
	return errors.Join(err, adminErr)
}

// AdminAddr is where /metrics, /healthz and /readyz are answered.
func (b *base) AdminAddr() string { return b.admin.Addr().String() }

// listen opens a local port; there is nothing to wait for.
func listen(addr string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
}

// start runs loops until end is called; the group waits for them.
func start(ctx context.Context, loops ...func(context.Context)) (group *sync.WaitGroup, end context.CancelFunc) {
	ctx, end = context.WithCancel(ctx)
	group = new(sync.WaitGroup)
	for _, loop := range loops {
		group.Go(func() { loop(ctx) })
	}
	return group, end
}

// release closes what was opened, the last first, each inside the grace.
func (b *base) release() error {
	var errs []error
	for _, c := range slices.Backward(b.closers) {
		ctx, cancel := context.WithTimeout(context.Background(), b.grace())
		err := c.close(ctx)
		cancel()
		switch {
		case err != nil && c.must:
			errs = append(errs, fmt.Errorf("close %s: %w", c.what, err))
		case err != nil:
			b.log.Warn("not closed in time", slog.String("what", c.what), slog.Any("error", err))
		}
	}
	b.closers = nil
	return errors.Join(errs...)
}

func (b *base) grace() time.Duration { return or(b.cfg.Listen.Grace, defaultGrace) }
