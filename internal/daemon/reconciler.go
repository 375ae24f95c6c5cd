package daemon

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/kafkasink"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/api"
	"github.com/tierlock/tierlock/internal/postgres"
	"github.com/tierlock/tierlock/reconcile"
	"github.com/tierlock/tierlock/reconcile/kafkasource"
)

// dialect is that of the one database there is now.
const dialect = reconcile.Postgres

// Reconciler is the job of tierlock reconcile with all it needs.
type Reconciler struct {
	base
	by       string          // who has begun the run; "": not known
	patience time.Duration   // for what is away at the start; zero: for ever
	sink     *kafkasink.Sink // makes the topics; nothing is sent
	source   *kafkasource.Source
	topic    *kafkasource.Findings
	dead     *kafkasource.DeadLetters
	kafka    kafkasource.Config
	db       *sql.DB                  // nil: none
	table    *reconcile.FindingsTable // nil: none
	gw       *gateway.Gateway
	job      *reconcile.Job
}

// OpenReconciler puts the job together. apply leaves the dry run; once ends it when all
// that is in Kafka has been read. Nothing remote needs to be there.
func OpenReconciler(cfg Config, version string, log *slog.Logger, apply, once bool) (*Reconciler, error) {
	return openReconciler(cfg, version, log, apply, once, "")
}

// openReconciler also says who begins the run; "" where nobody has.
func openReconciler(cfg Config, version string, log *slog.Logger, apply, once bool, by string) (*Reconciler, error) {
	r := &Reconciler{base: base{cfg: cfg, log: log, version: version}, by: by}
	if apply {
		if err := cfg.Reconcile.ruled(); err != nil {
			return nil, err
		}
	}
	if once {
		r.patience = oncePatience
	}
	for _, step := range []func() error{
		r.openMetrics, r.openDatabase, func() error { return r.openKafka(apply) }, r.openGateway,
		func() error { return r.openJob(apply, once) },
		r.listen,
	} {
		if err := step(); err != nil {
			return nil, errors.Join(err, r.release())
		}
	}
	return r, nil
}

// openDatabase makes the pool; the first question connects.
func (r *Reconciler) openDatabase() (err error) {
	if r.cfg.Reconcile.Database == nil {
		return nil
	}
	if r.db, err = r.cfg.Reconcile.Database.open(); err != nil {
		return prefixed("reconcile.database.", err)
	}
	r.opened("database", func(context.Context) error { return r.db.Close() })
	r.table, err = reconcile.SQLFindings(r.db, dialect)
	return err
}

// open makes a pool for the DSN, which is never shown.
func (d *DatabaseConfig) open() (*sql.DB, error) {
	dsn, err := readSecret("dsn", d.DSNEnv, d.DSNFile)
	if err != nil {
		return nil, err
	}
	db, err := postgres.Open(dsn)
	if err != nil { // the error would show parts of the DSN
		const rule = "does not hold a DSN of PostgreSQL, as postgres://user@host:5432/name"
		if d.DSNFile != "" {
			return nil, tierlock.Invalid("dsn_file", d.DSNFile, rule)
		}
		return nil, tierlock.Invalid("dsn_env", d.DSNEnv, rule)
	}
	return db, nil
}

// openKafka opens what the job reads from and writes to.
func (r *Reconciler) openKafka(apply bool) (err error) {
	k, c := r.cfg.Audit.Kafka, r.cfg.Reconcile
	if k == nil {
		return tierlock.Invalid("audit.kafka", "", "is required: the events are read from there")
	}
	topics, err := k.conf(c.topic(), r.log)
	if err != nil {
		return prefixed("audit.kafka.", err)
	}
	if r.sink, err = kafkasink.New(topics); err != nil {
		return prefixed("audit.", err)
	}
	r.opened("kafka topics", func(context.Context) error { return r.sink.Close() })
	r.kafka = kafkasource.Config{
		Brokers: k.Brokers, Topic: k.Topic, Group: c.group(apply), Findings: c.topic(), Dead: or(k.DLQ, or(k.Topic, kafkasink.EventsTopic)+".dlq"),
		TLS: topics.TLS, SASL: topics.SASL, Logger: r.log,
	}
	if r.source, err = kafkasource.New(r.kafka); err != nil {
		return err
	}
	r.opened("kafka source", r.source.Close)
	if r.topic, err = kafkasource.NewFindings(r.kafka); err != nil {
		return err
	}
	r.opened("findings topic", func(context.Context) error { return r.topic.Close() })
	if r.dead, err = kafkasource.NewDeadLetters(r.kafka); err != nil {
		return err
	}
	r.opened("dead letters", func(context.Context) error { return r.dead.Close() })
	return nil
}

// openGateway opens the locks that repairs run under. They are shared or refused, so they
// need no events of their own, and the daemon's spool belongs to the daemon.
func (r *Reconciler) openGateway() error {
	stores, err := r.openStores()
	if err != nil {
		return err
	}
	chains := make(map[string]gateway.Policy, len(r.cfg.Chains))
	for name, p := range r.cfg.Chains {
		p.Audit = audit.Policy{Record: audit.RecordOff, OnFull: audit.Reject, Wait: audit.WaitBypass}
		chains[name] = p
	}
	conf := gateway.Config{Chains: chains, Stores: stores, Poll: r.cfg.Switch.Poll, Prefix: r.cfg.Prefix, Logger: r.log}
	conf.Hooks = gateway.Join(r.metrics.Hooks(), gateway.Hooks{Reported: r.orders.hear})
	if conf.SwitchKeys, err = r.cfg.Switch.keys(); err != nil {
		return prefixed("switch.", err)
	}
	if conf.Switch, err = r.openSwitch(); err != nil {
		return err
	}
	if r.gw, err = gateway.New(conf); err != nil {
		return err
	}
	r.opened("gateway", r.gw.Close)
	return nil
}

func (r *Reconciler) openJob(apply, once bool) (err error) {
	c := r.cfg.Reconcile
	conf := reconcile.Config{
		Source: r.source, Findings: []reconcile.Findings{r.topic}, Rule: c.Rule, Locker: r.gw, Apply: apply, AskedBy: r.by,
		Idle: c.Idle, Quiet: c.Quiet, Lateness: c.Lateness, HookTimeout: c.HookTimeout, StoreTimeout: c.StoreTimeout, Caps: reconcile.Caps(c.Caps),
		SwitchOn: r.switchOn, DeadLetter: r.dead.Write, Logger: r.log,
	}
	if once {
		conf.Source = &readOnce{Source: r.source, patience: oncePatience, behind: map[int]bool{}}
	}
	if r.table != nil {
		conf.Findings = append(conf.Findings, r.table)
		if conf.Approvals, err = reconcile.SQLApprovals(r.db, dialect); err != nil {
			return err
		}
	}
	if conf.Hooks, err = r.openHooks(r.kafka); err != nil {
		return err
	}
	if r.job, err = reconcile.New(conf); err != nil {
		return prefixed("reconcile.", err)
	}
	return r.metrics.Observe(r.gw, nil, r.job)
}

// switchOn tells whether an operator's order lies over chain.
func (r *Reconciler) switchOn(chain string) bool {
	for _, c := range r.gw.Status().Chains {
		if c.Chain == chain {
			return c.Order.Mode != 0
		}
	}
	return false
}

func (r *Reconciler) listen() (err error) {
	r.admin, err = listen(or(r.cfg.Reconcile.Listen, defaultReport))
	return err
}

// Run works until ctx ends, or with once until everything has been read. Servers that
// are away at the start are waited for, with once no longer than a minute; nothing is
// committed before it is stored.
func (r *Reconciler) Run(ctx context.Context) error {
	health := func() api.Health {
		st := r.gw.Status()
		return troubled(healthOf(r.version, st, r.orders.health("", &st), nil), r.job.Troubles())
	}
	return r.run(ctx, health, func(ctx context.Context) error {
		r.log.InfoContext(ctx, "reconciling", slog.String("version", r.version), slog.String("admin", r.AdminAddr()))
		if err := r.prepare(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		err := r.job.Run(ctx)
		if err == nil && ctx.Err() == nil && r.job.Stats().Records == 0 {
			k := r.cfg.Audit.Kafka
			r.log.WarnContext(ctx, "nothing to read: no daemon has written there since the last run",
				slog.String("topic", or(k.Topic, kafkasink.EventsTopic)), slog.Any("brokers", k.Brokers))
		}
		return err
	})
}

// prepare makes the topics and tables that are missing, each as soon as its server is
// there. It returns nil when ctx ended first.
func (r *Reconciler) prepare(ctx context.Context) error {
	bounded := ctx
	if r.patience > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, r.patience)
		defer cancel()
	}
	var topics, tables bool
	var both sync.WaitGroup
	both.Go(func() { topics = retry(bounded, r.log, "kafka", r.sink.EnsureTopics) })
	both.Go(func() { tables = r.table == nil || retry(bounded, r.log, "database", r.createTables) })
	both.Wait()
	switch {
	case ctx.Err() != nil:
		return nil
	case !topics:
		return fmt.Errorf("kafka was not reached within %s; the log says why", r.patience)
	case !tables:
		return fmt.Errorf("the database was not reached within %s; the log says why", r.patience)
	}
	return nil
}

// createTables is one try; a server that hangs must not keep the next one from being made.
func (r *Reconciler) createTables(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, or(r.cfg.Reconcile.StoreTimeout, reconcile.DefaultStoreTimeout))
	defer cancel()
	return r.table.Create(ctx)
}

// group is the consumer group. A dry run has one of its own: what it has read and committed
// must come once more to the run that repairs.
func (r *ReconcileConfig) group(apply bool) string {
	if apply {
		return or(r.Group, kafkasource.DefaultGroup)
	}
	return or(r.Group, kafkasource.DefaultGroup) + "-dry-run"
}

// topic is the name of the findings' topic.
func (r *ReconcileConfig) topic() string { return or(r.Findings, kafkasource.FindingsTopic) }
