package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/kafkasink"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/api"
	"github.com/tierlock/tierlock/internal/signals"
)

// System is a whole daemon.
type System struct {
	base
	audit *audit.Log // nil: nothing is recorded
	gw    *gateway.Gateway
	data  net.Listener
}

// Open puts a daemon together. Nothing that is remote needs to be there: it is tried again
// until it is. What is local must: a spool that another process has, a port that is
// taken and a configuration that is wrong are errors. Run it, or Close it.
func Open(cfg Config, version string, log *slog.Logger) (*System, error) {
	s := &System{base: base{cfg: cfg, log: log, version: version}}
	for _, step := range []func() error{s.openMetrics, s.openAudit, s.openGateway, s.listen} {
		if err := step(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// openAudit opens the spool and, where there is a Kafka, what forwards it.
func (s *System) openAudit() error {
	if s.cfg.Audit.Dir == "" {
		return nil
	}
	conf := audit.Config{
		Dir: s.cfg.Audit.Dir, Producer: s.cfg.producer(), Linger: s.cfg.Audit.Linger, Heartbeat: s.cfg.Audit.Heartbeat,
		Quota: s.cfg.Audit.Quota, Logger: s.log, Hooks: s.metrics.AuditHooks(),
	}
	var err error
	if conf.Digest, err = s.cfg.Audit.Digest.load(); err != nil {
		return prefixed("audit.", err)
	}
	sink, err := s.cfg.openSink(s.log)
	if err != nil {
		return err
	}
	if sink != nil {
		s.opened("kafka", func(context.Context) error { return sink.Close() })
		s.loops = append(s.loops, func(ctx context.Context) { retry(ctx, s.log, "kafka", sink.EnsureTopics) })
		conf.Sink = sink
		s.adoptOrphans(conf)
	}
	log, err := audit.Open(conf)
	if err != nil {
		return fmt.Errorf("open the spool: %w", err)
	}
	s.audit = log
	// It forwards within the grace; what Kafka does not take by then stays for the next start.
	s.closers = append(s.closers, closer{what: "spool", must: true, close: log.Close})
	return nil
}

// openSink opens what forwards events; nil where no Kafka is configured.
func (c *Config) openSink(log *slog.Logger) (*kafkasink.Sink, error) {
	if c.Audit.Kafka == nil {
		return nil, nil
	}
	conf, err := c.Audit.Kafka.conf(c.Reconcile.topic(), log)
	if err != nil {
		return nil, prefixed("audit.kafka.", err)
	}
	sink, err := kafkasink.New(conf)
	return sink, prefixed("audit.", err)
}

// openGateway opens stores and switch, and the gateway over them.
func (s *System) openGateway() error {
	stores, err := s.openStores()
	if err != nil {
		return err
	}
	conf := gateway.Config{
		Chains: s.cfg.Chains, Stores: stores, LastGood: s.cfg.Switch.LastGood, Poll: s.cfg.Switch.Poll,
		Prefix: s.cfg.Prefix, Hooks: gateway.Join(s.metrics.Hooks(), gateway.Hooks{Reported: s.orders.hear}), Logger: s.log,
		Instance: s.cfg.producer(),
	}
	if conf.SwitchKeys, err = s.cfg.Switch.keys(); err != nil {
		return prefixed("switch.", err)
	}
	if s.audit != nil {
		conf.Audit = s.audit
	}
	if file := s.cfg.Signals.File; file != "" {
		recorder, err := signals.Open(signals.Config{Path: file, MaxBytes: s.cfg.Signals.MaxBytes, Chains: s.cfg.Chains, Logger: s.log})
		if err != nil {
			return err
		}
		s.opened("signals", func(context.Context) error { return recorder.Close() })
		conf.Hooks = gateway.Join(conf.Hooks, recorder.Hooks())
	}
	if conf.Switch, err = s.openSwitch(); err != nil {
		return err
	}
	if s.gw, err = gateway.New(conf); err != nil {
		return err
	}
	s.explain = s.gw.ExplainHandler()
	s.opened("gateway", s.gw.Close)
	return s.metrics.Observe(s.gw, s.audit, nil)
}

func (s *System) listen() (err error) {
	if s.data, err = listen(or(s.cfg.Listen.Data, defaultData)); err == nil {
		s.admin, err = listen(or(s.cfg.Listen.Admin, defaultAdmin))
	}
	return err
}

// DataAddr is where the five methods are answered.
func (s *System) DataAddr() string { return s.data.Addr().String() }

// Run answers until ctx ends or a listener fails, and then takes the system apart: not
// ready any more, requests under way answered, gateway closed, spool flushed and drained
// as far as the grace allows, the rest closed. The admin pages answer until the last. A
// clean end is nil, also where Kafka or a store could not be reached.
func (s *System) Run(ctx context.Context) error {
	methods := api.New(api.Config{Gateway: s.gw, Logger: s.log, Remote: s.cfg.Listen.Remote, Admin: s.AdminAddr()}).Handler()
	health := func() api.Health {
		st := s.gw.Status()
		return healthOf(s.version, st, s.orders.health(s.cfg.producer(), &st), s.audit)
	}
	return s.run(ctx, health, func(ctx context.Context) error {
		s.log.InfoContext(ctx, "serving", slog.String("version", s.version), slog.String("data", s.DataAddr()), slog.String("admin", s.AdminAddr()))
		return api.Serve(ctx, s.data, methods, s.grace(), s.log)
	})
}

// Close takes a system apart that was never run.
func (s *System) Close() error {
	for _, ln := range []net.Listener{s.data, s.admin} {
		if ln != nil {
			_ = ln.Close()
		}
	}
	return s.release()
}
