package kafkasource

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(servers.Share(m)) }

// broker is an in-process Kafka with one events topic, and the topics this package writes.
func broker(tb testing.TB, partitions int32) []string { return cluster(tb, partitions).ListenAddrs() }

func cluster(tb testing.TB, partitions int32) *kfake.Cluster {
	tb.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, EventsTopic), kfake.SeedTopics(1, DeadTopic))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// produce writes values to one partition.
func produce(tb testing.TB, brokers []string, partition int, values ...string) {
	tb.Helper()
	produceAt(tb, brokers, partition, time.Now(), values...)
}

func produceAt(tb testing.TB, brokers []string, partition int, at time.Time, values ...string) {
	tb.Helper()
	pool := &kafka.Transport{}
	defer pool.CloseIdleConnections()
	w := &kafka.Writer{
		Addr: kafka.TCP(brokers...), Topic: EventsTopic, Transport: pool, RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond,
		Balancer: kafka.BalancerFunc(func(kafka.Message, ...int) int { return partition }),
	}
	defer w.Close()
	var msgs []kafka.Message
	for _, v := range values {
		msgs = append(msgs, kafka.Message{Key: []byte("k"), Value: []byte(v), Time: at})
	}
	if err := w.WriteMessages(tb.Context(), msgs...); err != nil {
		tb.Fatal(err)
	}
}

func source(tb testing.TB, brokers []string, change ...func(*Config)) *Source {
	tb.Helper()
	cfg := Config{Brokers: brokers, MaxWait: 50 * time.Millisecond, Session: 6 * time.Second}
	for _, c := range change {
		c(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return s
}

// seen is what a test has taken out of a source.
type seen struct {
	mu       sync.Mutex
	assigned map[int]reconcile.Mark
	values   []string
	caught   map[int]bool
	lost     []reconcile.Loss
}

// until takes batches until enough holds.
func (g *seen) until(tb testing.TB, s *Source, enough func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	for !g.locked(enough) {
		b, err := s.Next(ctx)
		if err != nil {
			tb.Fatalf("%v; so far %d values, assigned %v, caught up %v", err, len(g.values), g.assigned, g.caught)
		}
		g.take(b)
	}
}

func (g *seen) locked(f func() bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return f()
}

func (g *seen) take(b reconcile.Batch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.assigned == nil {
		g.assigned, g.caught = map[int]reconcile.Mark{}, map[int]bool{}
	}
	for _, p := range b.Revoked {
		delete(g.assigned, p)
	}
	for _, m := range b.Assigned {
		g.assigned[m.Partition] = m
	}
	for _, r := range b.Records {
		g.values = append(g.values, fmt.Sprintf("%d/%d=%s", r.Partition, r.Offset, r.Value))
		g.caught[r.Partition] = false
	}
	for _, p := range b.CaughtUp {
		g.caught[p] = true
	}
	g.lost = append(g.lost, b.Lost...)
}

func TestReadsFromTheBeginningAndCatchesUp(t *testing.T) {
	brokers := broker(t, 2)
	produce(t, brokers, 0, "a", "b")
	produce(t, brokers, 1, "c")
	s, got := source(t, brokers), &seen{}
	got.until(t, s, func() bool { return len(got.values) == 3 && got.caught[0] && got.caught[1] })
	slices.Sort(got.values)
	if want := []string{"0/0=a", "0/1=b", "1/0=c"}; !slices.Equal(got.values, want) {
		t.Fatalf("read %v, want %v", got.values, want)
	}
	produce(t, brokers, 1, "d")
	got.until(t, s, func() bool { return len(got.values) == 4 && got.caught[1] })
}

func TestCommitBringsBackTheMark(t *testing.T) {
	brokers := broker(t, 1)
	produce(t, brokers, 0, "a", "b", "c")
	first, got := source(t, brokers), &seen{}
	got.until(t, first, func() bool { return len(got.values) == 3 })
	mark := reconcile.Mark{Partition: 0, Offset: 1, Judged: time.Date(2026, 11, 29, 10, 0, 0, 123456000, time.UTC), Read: 3}
	if err := first.Commit(t.Context(), mark); err != nil {
		t.Fatal(err)
	}
	if err := first.Commit(t.Context(), reconcile.Mark{Partition: 7, Offset: 9}); err != nil {
		t.Fatalf("a partition that is not ours: %v", err)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, again := source(t, brokers), &seen{}
	again.until(t, second, func() bool { return len(again.values) == 2 })
	if again.assigned[0] != mark || again.values[0] != "0/1=b" {
		t.Fatalf("assigned %+v, read %v; want %+v from b", again.assigned[0], again.values, mark)
	}
}

func TestRewindReadsAgain(t *testing.T) {
	brokers := broker(t, 1)
	produce(t, brokers, 0, "a", "b")
	s, got := source(t, brokers), &seen{}
	got.until(t, s, func() bool { return len(got.values) == 2 })
	if err := s.Rewind(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	produce(t, brokers, 0, "c")
	got.until(t, s, func() bool { return len(got.values) == 5 && got.caught[0] })
	if want := []string{"0/0=a", "0/1=b", "0/0=a", "0/1=b", "0/2=c"}; !slices.Equal(got.values, want) {
		t.Fatalf("read %v, want %v", got.values, want)
	}
}

// Records that retention takes before they are read are told, not passed over.
func TestRetentionIsTold(t *testing.T) {
	c := cluster(t, 1)
	brokers := c.ListenAddrs()
	produceAt(t, brokers, 0, time.Now().AddDate(0, -1, 0), "a", "b", "c")
	produce(t, brokers, 0, "d")
	first, got := source(t, brokers), &seen{}
	got.until(t, first, func() bool { return len(got.values) == 4 })
	if err := first.Commit(t.Context(), reconcile.Mark{Offset: 1, Read: 1}); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.ApplyRetention()
	second, again := source(t, brokers), &seen{}
	again.until(t, second, func() bool { return len(again.values) == 1 })
	if want := []reconcile.Loss{{Partition: 0, From: 1, To: 3}}; !slices.Equal(again.lost, want) {
		t.Fatalf("lost %v, want %v", again.lost, want)
	}
}

// Two members share the partitions; what one has is taken from the other first, and a
// member that has lost a partition cannot commit for it.
func TestTwoMembersShare(t *testing.T) {
	brokers := broker(t, 4)
	for p := range 4 {
		produce(t, brokers, p, "x")
	}
	one, a := source(t, brokers), &seen{}
	a.until(t, one, func() bool { return len(a.assigned) == 4 && len(a.values) == 4 })

	two, b := source(t, brokers), &seen{}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			batch, err := one.Next(ctx)
			if err != nil {
				return
			}
			a.take(batch)
		}
	})
	b.until(t, two, func() bool { return len(b.assigned) == 2 && len(b.values) == 2 })
	timeout := time.After(10 * time.Second)
	for tick := time.Tick(10 * time.Millisecond); !a.locked(func() bool { return len(a.assigned) == 2 }); {
		select {
		case <-tick:
		case <-timeout:
			t.Fatalf("the first member keeps %v", a.assigned)
		}
	}
	cancel()
	wg.Wait()
	for p := range 4 {
		_, first := a.assigned[p]
		if _, second := b.assigned[p]; first == second {
			t.Fatalf("partition %d: first %v, second %v", p, first, second)
		}
	}
	for p := range b.assigned { // the first member's commit for it must not move it
		if err := one.Commit(t.Context(), reconcile.Mark{Partition: p, Offset: 1, Read: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := one.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until(t, two, func() bool { return len(b.assigned) == 4 })
	for p, m := range b.assigned {
		if m.Offset != 0 {
			t.Errorf("partition %d was committed at %d by a member that had lost it", p, m.Offset)
		}
	}
}

// A member whose records nobody takes gives its partitions up, and comes back by itself.
func TestStuckMemberLeaves(t *testing.T) {
	brokers := broker(t, 1)
	produce(t, brokers, 0, "a")
	stuck, a := source(t, brokers, func(c *Config) { c.Stuck = 300 * time.Millisecond }), &seen{}
	a.until(t, stuck, func() bool { return len(a.assigned) == 1 }) // and takes no record

	other, b := source(t, brokers), &seen{}
	b.until(t, other, func() bool { return len(b.values) == 1 })
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.until(t, stuck, func() bool { return len(a.assigned) == 1 && len(a.values) == 1 })
}

// One that says that it is at work keeps them.
func TestAMemberAtWorkStays(t *testing.T) {
	brokers := broker(t, 1)
	produce(t, brokers, 0, "a")
	atWork, a := source(t, brokers, func(c *Config) { c.Stuck = 2 * time.Second }), &seen{}
	a.until(t, atWork, func() bool { return len(a.assigned) == 1 }) // and takes no record
	for began := time.Now(); time.Since(began) < 5*time.Second; pause(10 * time.Millisecond) {
		atWork.Working()
	}
	b, err := atWork.Next(t.Context())
	if err != nil || len(b.Revoked) > 0 || len(b.Records) != 1 {
		t.Errorf("%+v, %v; want the record that has waited", b, err)
	}
}

func TestDeadLettersAndFindings(t *testing.T) { writersWork(t, broker(t, 1)) }

func writersWork(t *testing.T, brokers []string) {
	t.Helper()
	dead, err := NewDeadLetters(Config{Brokers: brokers})
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	bad := reconcile.Record{Partition: 0, Offset: 41, Key: []byte("k"), Value: []byte("{")}
	if err := dead.Write(t.Context(), bad, fmt.Errorf("not one JSON object")); err != nil {
		t.Fatal(err)
	}
	m := readOne(t, brokers, DeadTopic)
	headers := map[string]string{}
	for _, h := range m.Headers {
		headers[h.Key] = string(h.Value)
	}
	if string(m.Value) != "{" || headers["reason"] != "not one JSON object" || headers["class"] != ClassMalformed || headers["attempts"] != "1" || headers["offset"] != "41" || headers["topic"] != EventsTopic {
		t.Fatalf("dead letter %s with %v", m.Value, headers)
	}

	findings, err := NewFindings(Config{Brokers: brokers})
	if err != nil {
		t.Fatal(err)
	}
	defer findings.Close()
	for range 2 { // the second finds it there
		if err := findings.Create(t.Context(), 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := findings.Put(t.Context(), reconcile.Finding{ID: "f1", Kind: reconcile.KindGap, State: reconcile.StateOpen}); err != nil {
		t.Fatal(err)
	}
	if m := readOne(t, brokers, FindingsTopic); string(m.Key) != "f1/0/0" {
		t.Fatalf("finding %s under key %s", m.Value, m.Key)
	}
}

func readOne(tb testing.TB, brokers []string, topic string) kafka.Message {
	tb.Helper()
	conn, err := kafka.DialLeader(tb.Context(), "tcp", brokers[0], topic, 0)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	m, err := conn.ReadMessage(1 << 20)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func TestConfigFaultsAreToldAtOnce(t *testing.T) {
	_, err := New(Config{Brokers: []string{"nowhere"}, Session: time.Second, MaxWait: -1})
	for _, field := range []string{"brokers", "session", "max_wait"} {
		if err == nil || !strings.Contains(err.Error(), "invalid "+field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

func TestMarkSurvives(t *testing.T) {
	m := reconcile.Mark{Partition: 3, Offset: 10, Judged: time.UnixMicro(1764496800123456).UTC(), Read: 12}
	if got := decodeMark(3, 10, encodeMark(m)); got != m {
		t.Fatalf("%+v, want %+v", got, m)
	}
	for _, text := range []string{"", "other", "tierlock/1 x 3", "tierlock/1 5 3"} {
		if got := decodeMark(0, 10, text); got != (reconcile.Mark{Offset: 10}) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
