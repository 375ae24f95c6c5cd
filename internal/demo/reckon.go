//go:build !nodemo

package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tierlock/tierlock/internal/demo/memkafka"
	"github.com/tierlock/tierlock/reconcile"
	"github.com/tierlock/tierlock/reconcile/kafkasource"
)

// reckon is the end of the story: find, show, repair, and then hold everything that was
// said against what really happened. stopWatching ends the live view.
func (s *story) reckon(ctx context.Context, stopWatching func()) (*Report, error) {
	r := &Report{Flips: []Flip{}, Policy: map[string]Policy{}}
	s.part("reconcile", "the events of both instances are read from Kafka; what overlapped is found, shown and repaired")
	over := time.Now()
	var err error
	if r.Business.OverLimitBefore, err = s.shop.overLimit(ctx); err != nil {
		return nil, err
	}
	for _, in := range s.in {
		if err := in.log.Drain(ctx); err != nil {
			return nil, err
		}
	}
	found, err := reconcile.SQLFindings(s.servers.db, s.servers.tables)
	if err != nil {
		return nil, err
	}
	for _, apply := range []bool{false, true} {
		rep, err := s.reconcile(ctx, found, apply, over)
		if err != nil {
			return nil, err
		}
		s.showReconciled(rep)
		if apply {
			r.Conflicts.Repaired = rep.Repaired
		}
	}
	findings, err := found.List(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.shop.audit(ctx, &r.Business); err != nil {
		return nil, err
	}
	pause(ctx, time.Until(over.Add(settleTime+2*orphanEvery))) // the last request's lock may still be settled
	stopWatching()
	if err := s.readBack(ctx, r); err != nil {
		return nil, err
	}
	for s.orphans.look(time.Now()) > 0 && ctx.Err() == nil {
		pause(ctx, orphanEvery)
	}
	if s.orphans.err != nil {
		return nil, s.orphans.err
	}
	s.sum(r, standing(findings))
	return r, nil
}

// reconcile runs the product's job over the whole topic, as a consumer group of its own,
// until everything up to over has been judged.
func (s *story) reconcile(ctx context.Context, found reconcile.Findings, apply bool, over time.Time) (rep reconcile.Report, err error) {
	t := &s.timetable
	group := s.servers.group
	if apply {
		group += "-apply"
	}
	source, err := kafkasource.New(kafkasource.Config{Brokers: s.servers.kafka, Topic: s.servers.topic, Group: group, MaxWait: 200 * time.Millisecond, Logger: s.log})
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, source.Close(context.WithoutCancel(ctx))) }()
	hooks, err := s.shop.hooks(s.servers.tables)
	if err != nil {
		return rep, err
	}
	job, err := reconcile.New(reconcile.Config{
		Source: source, Findings: []reconcile.Findings{found}, Rule: s.seams.Rule,
		Hooks: hooks, Locker: locker{s.in[0].gw, s.oracle, func() { s.load.requests.Add(1) }}, Apply: apply,
		Caps: reconcile.Caps{PerMinute: 1_000_000},
		Idle: t.Idle, Quiet: t.Quiet, Lateness: 200 * time.Millisecond, Tick: 50 * time.Millisecond, Logger: s.log,
	})
	if err != nil {
		return rep, err
	}
	there, err := memkafka.Count(ctx, s.servers.kafka, s.servers.topic)
	if err != nil {
		return rep, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	var work sync.WaitGroup
	var failed error
	work.Go(func() { failed = job.Run(running); stop() })
	judged := func() bool {
		st := job.Stats()
		return running.Err() != nil ||
			st.Records >= uint64(there) && st.Watermark.After(over) && st.Waiting == 0
	}
	if !s.progress(ctx, job, there, judged) {
		err = ctx.Err()
		s.view.say("the reconciliation has not judged everything in time: %+v", job.Stats())
	}
	stop()
	work.Wait()
	return job.Report(), errors.Join(err, failed)
}

// standstill is how long a replay's reconciliation may stand still before it is given up: a
// year of events is read by a machine that has been busy for ten minutes.
const standstill = time.Minute

// progress waits until the job has judged everything, for as long as it gets on: a year of
// events takes its time.
func (s *story) progress(ctx context.Context, job *reconcile.Job, there int64, judged func() bool) bool {
	type state struct {
		records  int64
		holds    uint64
		waiting  int
		repaired int
	}
	var was state
	still := s.timetable.Repair + s.timetable.Slack
	if s.replay != nil {
		still = max(still, standstill)
	}
	for !s.until(ctx, still, judged) {
		st := job.Stats()
		is := state{min(int64(st.Records), there), st.Holds, st.Waiting, st.Repaired}
		if is == was || ctx.Err() != nil {
			return false
		}
		was = is
	}
	return true
}

// readBack closes both instances, so that every event is in Kafka, and compares.
func (s *story) readBack(ctx context.Context, r *Report) error {
	if err := s.endInstances(ctx); err != nil {
		return fmt.Errorf("end the instances: %w", err)
	}
	t, err := readTrail(ctx, s.servers.kafka, s.servers.topic)
	if err != nil {
		return err
	}
	r.Audit.BypassGrants = s.ledger.tierCounts().Bypass
	t.compare(s.ledger.all(), s.ledger.tierCounts().Optimistic, &r.Audit)
	return nil
}

func (s *story) endInstances(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var errs []error
	for _, in := range s.in {
		errs = append(errs, in.closeGateway(ctx), in.log.Drain(ctx), in.close(ctx))
	}
	return errors.Join(errs...)
}

// sum fills in what remains, and judges.
func (s *story) sum(r *Report, findings []reconcile.Finding) {
	r.Requests = s.load.requests.Load()
	r.Tiers, r.Outcomes = s.ledger.tierCounts(), s.ledger.outcomeCounts()
	r.Flips = s.flips.list()
	holds := s.oracle.all()
	compareConflicts(holds, findings, &r.Conflicts)
	r.Strong = StrongReport{
		Overlaps: strongOverlaps(holds), StaleTried: int(s.load.staleTried.Load()), StaleRefused: int(s.load.staleRefused.Load()),
	}
	r.Orphans = s.orphans.found
	for name, p := range policies(s.timetable) {
		r.Policy[name] = policyOf(p)
	}
	if err := s.load.firstErr.Load(); err != nil {
		s.view.say("%d requests got an answer that is no shop's; the first: %v", s.load.unserved.Load(), *err)
	}
	r.Seconds = float64(time.Since(s.start).Milliseconds()) / 1000
	r.judge()
}
