package kafkasource

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

// churn is how much of it there is.
type churn struct {
	partitions, holds int
	life              func(m *counted, over <-chan struct{}) // waits as long as a member lives
	least             int64                                  // members that must have come and gone
	// small: each part of the stream waits for a member to come, and repairs for the end of it
	// all. So nothing of it is a question of time.
	small bool
	// most is how many members come and go when all is written; whoever comes then stays until
	// all is found. On a busy machine a partition is not judged within a life, again and again.
	// 0: no end.
	most int64
}

// Two consumers join and leave all the time while events flow: they find what one that is
// left alone finds, byte for byte, and repair each clash once.
func TestFindingsDoNotDependOnWhoComesAndGoes(t *testing.T) {
	t.Parallel()
	comeAndGo(t, broker(t, 6), churn{
		partitions: 6, holds: 10_000, least: 4, small: true, most: 12,
		life: func(m *counted, over <-chan struct{}) { // until what it has done is not to be done again
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for m.commits.Load() < 2 {
				select {
				case <-over:
					return
				case <-tick.C:
				}
			}
		},
	})
}

// counted is a member's source, which counts what was committed, and its job.
type counted struct {
	*Source
	job     *reconcile.Job
	commits atomic.Int64
}

func (c *counted) Commit(ctx context.Context, m reconcile.Mark) error {
	err := c.Source.Commit(ctx, m)
	if err == nil {
		c.commits.Add(1)
	}
	return err
}

// The same at length: a million events in 24 partitions of a real Kafka, members that live
// for three seconds.
func TestSoakFindingsDoNotDependOnWhoComesAndGoesOnKafka(t *testing.T) {
	needSoak(t)
	brokers := []string{servers.Kafka(t).Addr()}
	createTopics(t, brokers, 24)
	comeAndGo(t, brokers, churn{
		partitions: 24, holds: 500_000, least: 20,
		life: func(_ *counted, over <-chan struct{}) {
			timer := time.NewTimer(3 * time.Second)
			defer timer.Stop()
			select {
			case <-over:
			case <-timer.C:
			}
		},
	})
}

func createTopics(tb testing.TB, brokers []string, partitions int) {
	tb.Helper()
	pool := &kafka.Transport{}
	defer pool.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(brokers...), Transport: pool}
	res, err := client.CreateTopics(tb.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: EventsTopic, NumPartitions: partitions, ReplicationFactor: 1}, {Topic: DeadTopic, NumPartitions: 1, ReplicationFactor: 1},
	}})
	if err != nil || res.Errors[EventsTopic] != nil {
		tb.Fatal(err, res)
	}
}

func comeAndGo(t *testing.T, brokers []string, c churn) {
	producers := []string{"p0", "p1", "p2", "p3"}
	f := newFeeder(t, brokers, c.partitions, producers...)
	began := time.Now()

	found, shop := &memory{by: map[string]reconcile.Finding{}}, newClaims()
	over, written := make(chan struct{}), make(chan struct{})
	var crew sync.WaitGroup
	var members atomic.Int64
	for range 2 {
		crew.Go(func() {
			for !closed(over) {
				m, leave := enter(t, brokers, "", found, shop)
				if n := members.Add(1); c.most > 0 && n > c.most && closed(written) {
					<-over
				} else {
					c.life(m, over)
				}
				leave()
			}
		})
	}
	defer func() {
		if !closed(over) {
			close(over)
		}
		crew.Wait()
	}()

	if c.small {
		part := 0
		f.pace = func(at time.Time) {
			if part++; part == 1 { // nothing of it can be judged yet
				return
			}
			had := members.Load()
			await(t, "another member", func() bool {
				f.beat(at, "bypass") // so that there is something to read
				f.flush(t.Context())
				return members.Load() > had
			})
		}
	}
	clashes := f.stream(t.Context(), c.holds, producers)
	close(written)
	events, wrote := f.count, time.Since(began)
	// All is written and quiet from now on: repairs may begin.
	patience := time.Now().Add(5 * time.Minute)
	enough := func() bool {
		return members.Load() >= c.least && found.overlapsIn("") >= clashes && (c.small || found.overlapsIn(reconcile.StateRepaired) == clashes)
	}
	for !enough() {
		f.beat(time.Now(), "shared")
		f.flush(t.Context())
		if time.Now().After(patience) {
			text, n := found.fingerprint(t)
			t.Fatalf("%d of %d clashes found, %d repaired by %d members; %.2000s", n, clashes, found.overlapsIn(reconcile.StateRepaired), members.Load(), text)
		}
		pause(200 * time.Millisecond)
	}
	close(over)
	crew.Wait()
	took := time.Since(began)
	_, leave := enter(t, brokers, "", found, shop)
	await(t, "what is left to repair", func() bool {
		f.beat(time.Now(), "shared")
		f.flush(t.Context())
		return found.overlapsIn(reconcile.StateRepaired) == clashes
	})
	leave()

	alone := &memory{by: map[string]reconcile.Finding{}}
	began = time.Now()
	_, leave = enter(t, brokers, "alone", alone, nil)
	for alone.overlapsIn("") < clashes {
		if time.Since(began) > 5*time.Minute {
			t.Fatalf("left alone: %d of %d clashes", alone.overlapsIn(""), clashes)
		}
		pause(50 * time.Millisecond)
	}
	leave()
	want, n := alone.fingerprint(t)
	got, m := found.fingerprint(t)
	t.Logf("%d events written in %v; %d members found and repaired %d clashes in %v; one alone found %d in %v",
		events, wrote.Round(time.Millisecond), members.Load(), m, took.Round(time.Millisecond), n, time.Since(began).Round(time.Millisecond))
	if got != want || n != clashes || m != clashes {
		t.Errorf("%d clashes; members found %d, one alone %d; the same: %v", clashes, m, n, got == want)
	}
	shop.mu.Lock()
	defer shop.mu.Unlock()
	if shop.effects != clashes || len(shop.by) != clashes {
		t.Errorf("%d repairs on %d coupons, want one each of %d", shop.effects, len(shop.by), clashes)
	}
}

// enter starts a job on a new member; leave ends both. With a shop it repairs there.
func enter(t *testing.T, brokers []string, group string, into *memory, shop *claims, change ...func(*reconcile.Config)) (m *counted, leave func()) {
	t.Helper()
	s, err := New(Config{Brokers: brokers, Group: group, MaxWait: 50 * time.Millisecond, Session: 6 * time.Second})
	if err != nil {
		t.Error(err)
		return nil, func() {}
	}
	m = &counted{Source: s}
	cfg := reconcile.Config{
		Source: m, Findings: []reconcile.Findings{into}, Tick: 50 * time.Millisecond, Quiet: time.Second,
		Caps: reconcile.Caps{PerMinute: 1 << 20},
	}
	if shop != nil {
		cfg.Hooks, cfg.Locker, cfg.Apply = map[string]reconcile.Hook{"coupon": shop.hook()}, granting{}, true
	}
	for _, c := range change {
		c(&cfg)
	}
	m.job, err = reconcile.New(cfg)
	if err != nil {
		t.Error(err)
		return nil, func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var run sync.WaitGroup
	run.Go(func() {
		if err := m.job.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return m, func() {
		cancel()
		run.Wait()
		bounded, done := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer done()
		if err := s.Close(bounded); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// pause lets real servers work.
func pause(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}
