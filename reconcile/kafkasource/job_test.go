package kafkasource

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

// memory keeps findings by id, by the rule of reconcile.Findings.
type memory struct {
	mu sync.Mutex
	by map[string]reconcile.Finding
}

func (m *memory) Put(_ context.Context, f reconcile.Finding) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, known := m.by[f.ID]; !known || f.Replaces(&was) {
		m.by[f.ID] = f
	}
	return nil
}

func (m *memory) overlaps() (certain int, keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.by {
		if f.Kind == reconcile.KindOverlap && f.State == reconcile.StateOpen {
			keys = append(keys, f.Key.String())
			if f.Certain {
				certain++
			}
		}
	}
	slices.Sort(keys)
	return certain, keys
}

// writeConflicts has two producers overlap once on each of n keys, and beat until the
// windows are over, each event in the partition of its key.
func writeConflicts(tb testing.TB, brokers []string, partitions, n int) {
	tb.Helper()
	pool := &kafka.Transport{}
	defer pool.CloseIdleConnections()
	w := &kafka.Writer{
		Addr: kafka.TCP(brokers...), Topic: EventsTopic, Transport: pool, RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond,
		Balancer: kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return m.WriterData.(int) }),
	}
	defer w.Close()
	var msgs []kafka.Message
	seqs, prevs := map[string]uint64{}, map[string]map[int]uint64{"p": {}, "q": {}}
	put := func(producer string, ev audit.Event) {
		seqs[producer]++
		ev.Producer, ev.Epoch, ev.Seq = producer, 1, seqs[producer]
		for part := range partitions {
			if !ev.Type.Marker() && part != audit.PartitionOf(ev.Key.String(), partitions) {
				continue
			}
			ev.Prev = prevs[producer][part]
			prevs[producer][part] = ev.Seq
			msgs = append(msgs, kafka.Message{Key: []byte(ev.Key.String()), Value: ev.AppendJSON(nil), WriterData: part})
		}
	}
	begin := time.Now().Add(-time.Minute)
	for i := range n {
		key, err := tierlock.ParseKey(fmt.Sprintf("biz:coupon:lock:u%d", i))
		if err != nil {
			tb.Fatal(err)
		}
		at := begin.Add(time.Duration(i) * 10 * time.Millisecond)
		for _, who := range []string{"p", "q"} {
			ev := audit.Event{
				Type: audit.TypeAcquire, Chain: "coupon", Key: key, Holder: fmt.Sprintf("%s%d", who, i), Tier: tierlock.Bypass, Store: "bypass",
				GrantedAt: at, TTL: 15 * time.Second, ClockError: time.Millisecond,
			}
			put(who, ev)
			ev.Type, ev.EndedAt, ev.How = audit.TypeEnd, at.Add(50*time.Millisecond), audit.Released
			put(who, ev)
		}
	}
	for at := begin; at.Before(begin.Add(30 * time.Second)); at = at.Add(5 * time.Second) {
		put("p", audit.Event{Type: audit.TypeHeartbeat, At: at.Add(30 * time.Second)})
		put("q", audit.Event{Type: audit.TypeHeartbeat, At: at.Add(30 * time.Second)})
	}
	if err := w.WriteMessages(tb.Context(), msgs...); err != nil {
		tb.Fatal(err)
	}
}

// run starts a job on a member of the group; stop ends both.
func run(t *testing.T, brokers []string, into *memory) (j *reconcile.Job, stop func()) {
	t.Helper()
	s := source(t, brokers)
	j, err := reconcile.New(reconcile.Config{Source: s, Findings: []reconcile.Findings{into}, Tick: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := j.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return j, sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	timeout := time.After(2 * time.Minute) // for machines that are busy with other tests
	for tick := time.Tick(20 * time.Millisecond); !holds(); {
		select {
		case <-tick:
		case <-timeout:
			t.Fatalf("%s has not come", what)
		}
	}
}

// Members come and go while a job works; together they find every conflict, and no other.
func membersComeAndGo(t *testing.T, brokers []string, partitions int) {
	const n = 200
	found := &memory{by: map[string]reconcile.Finding{}}
	one, stopOne := run(t, brokers, found)
	defer stopOne()
	await(t, "the first assignment", func() bool { return one.Stats().Partitions == partitions })
	writeConflicts(t, brokers, partitions, n)
	two, stopTwo := run(t, brokers, found)
	defer stopTwo()
	await(t, "a share for the second member", func() bool { return two.Stats().Partitions > 0 })
	stopOne()
	await(t, "everything for the second member", func() bool { return two.Stats().Partitions == partitions })
	await(t, "every conflict", func() bool { _, keys := found.overlaps(); return len(keys) >= n })
	certain, keys := found.overlaps()
	if len(keys) != n || certain != n || len(slices.Compact(keys)) != n {
		t.Fatalf("%d findings on %d keys, %d certain; want %d of each", len(keys), len(slices.Compact(keys)), certain, n)
	}
	for _, f := range found.by {
		if f.Kind != reconcile.KindOverlap {
			t.Errorf("%s where nothing is missing: %+v", f.Kind, f.Gap)
		}
	}
	stopTwo()

	again := &memory{by: map[string]reconcile.Finding{}} // what is committed is not read again
	three, stopThree := run(t, brokers, again)
	defer stopThree()
	await(t, "everything for the third member", func() bool { return three.Stats().Partitions == partitions })
	await(t, "the last heartbeats", func() bool { return three.Stats().Records > 0 })
	if _, keys := again.overlaps(); len(keys) > n/2 {
		t.Errorf("a restart judged %d of %d groups again", len(keys), n)
	}
}

func TestMembersComeAndGo(t *testing.T) { membersComeAndGo(t, broker(t, 4), 4) }

func TestMembersComeAndGoOnKafka(t *testing.T) {
	brokers := []string{servers.Kafka(t).Addr()}
	pool := &kafka.Transport{}
	defer pool.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(brokers...), Transport: pool}
	res, err := client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: EventsTopic, NumPartitions: 4, ReplicationFactor: 1}, {Topic: DeadTopic, NumPartitions: 1, ReplicationFactor: 1},
	}})
	if err != nil || res.Errors[EventsTopic] != nil {
		t.Fatal(err, res)
	}
	membersComeAndGo(t, brokers, 4)
	t.Run("findings and dead letters", func(t *testing.T) { writersWork(t, brokers) })
}
