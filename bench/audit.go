package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/kafkasink"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/demo/memkafka"
	"github.com/tierlock/tierlock/switchcfg"
)

// auditResult is what so many callers get while a switch orders bypass: each grant waits for
// its event on the disk, its end does not.
type auditResult struct {
	Callers int     `json:"callers"`
	Grants  float64 `json:"grants_per_s"` // taken and given back
	P50     float64 `json:"p50_us"`       // of the grant
	P99     float64 `json:"p99_us"`
	Fsyncs  uint64  `json:"fsyncs"`
	Client  float64 `json:"client_us"` // of this process's processor time, a grant and its end
	Lost    uint64  `json:"lost"`      // ends that found no room in memory
}

// auditReport is one run of audit.
type auditReport struct {
	Results []auditResult `json:"results"`
	Kafka   string        `json:"kafka"`                // where events went
	Forward float64       `json:"forward_events_per_s"` // recorded and forwarded at once
	Drain   float64       `json:"drain_events_per_s"`   // of a backlog
}

// auditBench is one run of audit.
type auditBench struct {
	*session
	span   time.Duration
	events int
	dir    string // for spools
	kafka  string
}

// record measures durable grants and the way of their events to Kafka.
func record(ctx context.Context, args []string, stdout io.Writer) (err error) {
	b := auditBench{session: newSession("audit", stdout)}
	callers := b.flags.String("callers", "1,64,512", "numbers of callers at once")
	b.flags.DurationVar(&b.span, "for", 5*time.Second, "length of each turn")
	b.flags.IntVar(&b.events, "events", 500_000, "how many to forward")
	b.flags.StringVar(&b.dir, "dir", "", "`folder` for the spools; default the system's for temporary files")
	b.flags.StringVar(&b.kafka, "kafka", "", "host:port of a broker; default one inside this process")
	var numbersOf []int
	check := func() (err error) {
		if b.span <= 0 {
			return tierlock.Invalid("for", b.span.String(), "want above 0")
		}
		numbersOf, err = numbers("callers", *callers, 1)
		return errors.Join(err, atLeastOne("events", b.events))
	}
	if err := b.startAlone(args, check); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	var r auditReport
	for _, n := range numbersOf {
		one, err := b.grants(ctx, n)
		if err != nil {
			return err
		}
		r.Results = append(r.Results, one)
	}
	if err := b.forward(ctx, &r); err != nil {
		return err
	}
	if b.json {
		return b.print(r)
	}
	fmt.Fprintf(stdout, "%-8s %12s %10s %10s %8s %8s %6s\n", "callers", "grants/s", "p50 µs", "p99 µs", "fsyncs", "cpu µs", "lost")
	for _, one := range r.Results {
		fmt.Fprintf(stdout, "%-8d %12.0f %10.0f %10.0f %8d %8.2f %6d\n", one.Callers, one.Grants, one.P50, one.P99, one.Fsyncs, one.Client, one.Lost)
	}
	fmt.Fprintf(stdout, "Kafka %s: %.0f events/s forwarded while recorded, %.0f events/s of a backlog\n", r.Kafka, r.Forward, r.Drain)
	return nil
}

// open opens a log on a folder of its own.
func (b *auditBench) open(sink audit.Sink, dir string) (*audit.Log, error) {
	return audit.Open(audit.Config{Dir: dir, Producer: "bench", Quota: 16 << 30, Sink: sink})
}

// grants lets n callers take and give back, each on keys of its own, for a while.
func (b *auditBench) grants(ctx context.Context, n int) (r auditResult, err error) {
	dir, err := os.MkdirTemp(b.dir, "tierlock-bench-spool-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	trail, err := b.open(nil, dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, trail.Close(context.WithoutCancel(ctx))) }()
	chain, gw, err := bypassing(trail)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, gw.Close(context.WithoutCancel(ctx))) }()

	hands := make([]*hand, n)
	var work sync.WaitGroup
	var stop atomic.Bool
	begin := make(chan struct{})
	for g := range hands {
		h := &hand{keys: ownKeys("k", g), took: new(histogram)}
		hands[g] = h
		work.Go(func() {
			<-begin
			for i := 0; !stop.Load(); i++ {
				h.grant(ctx, chain, i)
			}
		})
	}
	runtime.GC()
	before, spent := trail.Stats().Syncs, ownTime()
	timer := time.AfterFunc(b.span, func() { stop.Store(true) })
	defer timer.Stop()
	began := time.Now()
	close(begin)
	work.Wait()
	took := time.Since(began)
	spent = ownTime() - spent
	var all histogram
	for _, h := range hands {
		if h.first != nil {
			return r, h.first
		}
		all.add(h.took)
	}
	st := trail.Stats()
	return auditResult{
		Callers: n, Grants: math.Round(float64(all.n) / took.Seconds()),
		P50: tenth(all.at(.5)), P99: tenth(all.at(.99)), Fsyncs: st.Syncs - before,
		Client: hundredth(float64(spent.Microseconds()) / float64(max(all.n, 1))), Lost: st.Overflow,
	}, nil
}

// grant takes a lock, whose time counts, and gives it back.
func (h *hand) grant(ctx context.Context, chain *gateway.Chain, i int) {
	began := time.Now()
	l, err := chain.TryLock(ctx, h.keys[i%len(h.keys)])
	if err == nil {
		h.took.count(time.Since(began))
		err = l.Unlock(ctx)
	}
	if err != nil && h.first == nil {
		h.first = err
	}
}

// bypassing is a chain under the order to bypass; no store is asked.
func bypassing(trail *audit.Log) (*gateway.Chain, *gateway.Gateway, error) {
	policy := gateway.Weak("what is measured", gateway.Reconcile)
	policy.Attempt = patience
	gw, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{"bench": policy}, Stores: map[string]tierlock.Backend{"none": unasked{}}, Audit: trail,
	})
	if err != nil {
		return nil, nil, err
	}
	err = gw.Apply(switchcfg.Document{Version: 1, Chains: map[string]switchcfg.Directive{
		"bench": {Mode: tierlock.ModeBypass, Until: time.Now().Add(time.Hour), Reason: "measure", By: "bench"},
	}})
	chain, chainErr := gw.Chain("bench")
	if err = errors.Join(err, chainErr); err != nil {
		return nil, nil, errors.Join(err, gw.Close(context.Background()))
	}
	return chain, gw, nil
}

// unasked is a store that must not be needed.
type unasked struct{ tierlock.Backend }

func (unasked) Traits() tierlock.Traits {
	return tierlock.Traits{Store: "none", Tier: tierlock.Shared, Scope: tierlock.ScopeCluster}
}

// forward measures the way to Kafka: beside the recording, and of a backlog.
func (b *auditBench) forward(ctx context.Context, r *auditReport) (err error) {
	brokers := []string{b.kafka}
	if r.Kafka = b.kafka; b.kafka == "" {
		server, err := memkafka.Start()
		if err != nil {
			return err
		}
		defer server.Close()
		brokers, r.Kafka = server.Addrs(), "in this process"
	}
	topic := fmt.Sprintf("tierlock.bench.%d", time.Now().UnixNano())
	sink, err := kafkasink.New(kafkasink.Config{Brokers: brokers, Topic: topic, Findings: topic + ".findings"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	if r.Forward, err = b.sent(ctx, sink, false); err == nil {
		r.Drain, err = b.sent(ctx, sink, true)
	}
	return err
}

// sent tells the events a second that come to rest in the sink, counted from the first
// record on, or, late, from the end of the recording on.
func (b *auditBench) sent(ctx context.Context, sink audit.Sink, late bool) (perSecond float64, err error) {
	dir, err := os.MkdirTemp(b.dir, "tierlock-bench-spool-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	first := sink
	if late {
		first = nil
	}
	trail, err := b.open(first, dir)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = b.fill(ctx, trail)
	if late && err == nil {
		if err = trail.Close(ctx); err == nil {
			began = time.Now()
			trail, err = b.open(sink, dir)
		}
	}
	if err == nil {
		err = trail.Drain(ctx)
	}
	took := time.Since(began)
	if trail != nil {
		err = errors.Join(err, trail.Close(context.WithoutCancel(ctx)))
	}
	return math.Round(float64(b.events) / took.Seconds()), err
}

// fill records so many events, as 512 callers do.
func (b *auditBench) fill(ctx context.Context, trail *audit.Log) error {
	const callers = 512
	errs := make([]error, callers)
	var work sync.WaitGroup
	for g := range callers {
		work.Go(func() {
			key, err := tierlock.ParseKey(fmt.Sprintf("biz:bench:lock:%d", g))
			for i := g; i < b.events && err == nil; i += callers {
				ev := audit.Acquired(tierlock.Grant{
					Chain: "bench", Key: key, RequestID: tierlock.NewRequestID(), Tier: tierlock.Bypass, Store: "bypass", AcquiredAt: time.Now(),
				}, 15*time.Second, 0)
				err = trail.Record(ctx, &ev)
			}
			errs[g] = err
		})
	}
	work.Wait()
	return errors.Join(errs...)
}
