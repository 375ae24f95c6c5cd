package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

// What the stream loses or moves under a job that is behind is a finding.
func TestLostAndMovedRecordsAreFindings(t *testing.T) {
	t.Parallel()
	t.Run("records deleted", func(t *testing.T) { t.Parallel(); recordsDeleted(t, broker(t, 2)) })
	t.Run("partitions added", func(t *testing.T) { t.Parallel(); partitionsAdded(t, broker(t, 2)) })
	t.Run("topic made anew", func(t *testing.T) { t.Parallel(); topicMadeAnew(t, broker(t, 2)) })
}

func TestSoakLostAndMovedRecordsAreFindingsOnKafka(t *testing.T) {
	needSoak(t)
	brokers := []string{servers.Kafka(t).Addr()}
	createTopics(t, brokers, 2)
	t.Run("records deleted", func(t *testing.T) { recordsDeleted(t, brokers) })
	afresh := func() { // what is committed goes as well
		remake(t, admin(t, brokers))
		await(t, "a topic that takes records", func() bool { return takesRecords(t, brokers) })
	}
	afresh()
	t.Run("partitions added", func(t *testing.T) { partitionsAdded(t, brokers) })
	afresh()
	t.Run("topic made anew", func(t *testing.T) { topicMadeAnew(t, brokers) })
}

func admin(tb testing.TB, brokers []string) *kgo.Client {
	tb.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// gaps are the findings of a cause, and how many records they tell of.
func (m *memory) gaps(cause string) (n int, records uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.by {
		if f.Kind == reconcile.KindGap && f.Gap.Cause == cause {
			n++
			records += f.Gap.Count
		}
	}
	return n, records
}

// begun is a memory with a job that has found the clashes of a first stretch of the stream,
// and has ended.
func begun(t *testing.T, brokers []string, f *feeder, producers []string) (found *memory, clashes int) {
	t.Helper()
	found = &memory{by: map[string]reconcile.Finding{}}
	clashes = f.stream(t.Context(), 1000, producers)
	m, leave := enter(t, brokers, "", found, nil)
	defer leave()
	found.awaits(t, clashes, f)
	had := m.commits.Load()
	await(t, "commits for all partitions", func() bool {
		f.beat(time.Now(), "shared")
		f.flush(t.Context())
		return m.commits.Load() >= had+4
	})
	return found, clashes
}

// awaits has the producers beat until so many clashes are found, and no other.
func (m *memory) awaits(t *testing.T, clashes int, feeders ...*feeder) {
	t.Helper()
	await(t, fmt.Sprint(clashes, " clashes"), func() bool {
		for _, f := range feeders {
			f.beat(time.Now(), "shared")
			f.flush(t.Context())
		}
		_, keys := m.overlaps()
		return len(keys) >= clashes
	})
	if _, keys := m.overlaps(); len(keys) > clashes {
		t.Errorf("%d clashes, want %d", len(keys), clashes)
	}
}

// DeleteRecords takes what a group has not read yet.
func recordsDeleted(t *testing.T, brokers []string) {
	producers := []string{"p", "q"}
	f := newFeeder(t, brokers, 2, producers...)
	found, clashes := begun(t, brokers, f, producers)
	f.stream(t.Context(), 1000, producers) // while the group is away
	c := admin(t, brokers)
	ends := ends(t, c, 2)
	req := kmsg.NewPtrDeleteRecordsRequest()
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = EventsTopic
	for p, end := range ends {
		part := kmsg.NewDeleteRecordsRequestTopicPartition()
		part.Partition, part.Offset = int32(p), end
		topic.Partitions = append(topic.Partitions, part)
	}
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 10_000
	res, err := c.Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range res.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			t.Fatal(err)
		}
	}
	after := f.stream(t.Context(), 500, producers)
	m, leave := enter(t, brokers, "", found, nil)
	defer leave()
	await(t, "a finding for each partition", func() bool { n, _ := found.gaps("retention"); return n == 2 })
	found.awaits(t, clashes+after, f)
	// 1000 holds have two events each; what was committed lies behind the first stretch's end.
	if _, lost := found.gaps("retention"); lost < 2000 {
		t.Errorf("told of %d records", lost)
	}
	if r := m.job.Report(); r.Complete || !slices.ContainsFunc(r.Missing, func(g reconcile.Gap) bool { return g.Cause == "retention" }) {
		t.Errorf("the report says complete: %v, missing %+v", r.Complete, r.Missing)
	}
}

// ends are the offsets behind the last records.
func ends(t *testing.T, c *kgo.Client, partitions int) []int64 {
	t.Helper()
	out := make([]int64, partitions)
	for p := range out {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = EventsTopic
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp = int32(p), -1
		topic.Partitions = append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
		res, err := c.Request(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		out[p] = res.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset
	}
	return out
}

// A topic gets more partitions under a running job, which reads them; a producer that still
// reckons with the old number puts a key's events elsewhere than another one does.
func partitionsAdded(t *testing.T, brokers []string) {
	found := &memory{by: map[string]reconcile.Finding{}}
	m, leave := enter(t, brokers, "", found, nil)
	defer leave()
	old := newFeeder(t, brokers, 2, "p", "q")
	clashes := old.stream(t.Context(), 1000, []string{"p", "q"})
	found.awaits(t, clashes, old)
	if n, _ := found.gaps("partitions"); n != 0 {
		t.Fatalf("%d findings before anything moved", n)
	}

	req := kmsg.NewPtrCreatePartitionsRequest()
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = EventsTopic, 5
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 10_000
	res, err := admin(t, brokers).Request(t.Context(), req)
	if err == nil {
		err = kerr.ErrorForCode(res.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	await(t, "all five partitions", func() bool { return m.job.Stats().Partitions == 5 })
	late := newFeeder(t, brokers, 5, "r", "s") // processes that have begun since
	more := late.stream(t.Context(), 1000, []string{"r", "s"})
	more += old.stream(t.Context(), 250, []string{"p", "q"})
	await(t, "that keys have moved", func() bool { n, _ := found.gaps("partitions"); return n > 0 })
	found.awaits(t, clashes+more, old, late)
	if m.job.Report().Complete {
		t.Error("complete, though keys lie in two places")
	}
}

// A topic that is deleted and made anew has other records at the offsets that were read.
func topicMadeAnew(t *testing.T, brokers []string) {
	found := &memory{by: map[string]reconcile.Finding{}}
	_, leave := enter(t, brokers, "", found, nil)
	defer leave()
	f := newFeeder(t, brokers, 2, "p", "q")
	clashes := f.stream(t.Context(), 1000, []string{"p", "q"})
	found.awaits(t, clashes, f)

	remake(t, admin(t, brokers))
	await(t, "a topic that takes records", func() bool { return takesRecords(t, brokers) })
	more := f.stream(t.Context(), 300, []string{"p", "q"})
	found.awaits(t, clashes+more, f)
	await(t, "that something is missing", func() bool {
		shrunk, _ := found.gaps("shrunk")
		missed, _ := found.gaps("sequence")
		return shrunk+missed > 0
	})
}

func remake(t *testing.T, c *kgo.Client) {
	t.Helper()
	gone := kmsg.NewPtrDeleteTopicsRequest()
	name := EventsTopic
	gone.TopicNames, gone.TimeoutMillis = []string{name}, 10_000
	one := kmsg.NewDeleteTopicsRequestTopic()
	one.Topic = &name
	gone.Topics = append(gone.Topics, one)
	res, err := c.Request(t.Context(), gone)
	if err == nil {
		err = kerr.ErrorForCode(res.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the topic anew", func() bool {
		made := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = EventsTopic, 2, 1
		made.Topics, made.TimeoutMillis = append(made.Topics, topic), 10_000
		res, err := c.Request(t.Context(), made)
		return err == nil && res.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode == 0
	})
}

// takesRecords writes what no job minds: a heartbeat of a process that ends at once.
func takesRecords(t *testing.T, brokers []string) bool {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for p := range int32(2) {
		ev := audit.Event{Type: audit.TypeSeal, Producer: "probe", Epoch: 1, Seq: 1, Sealed: 1, Clean: true, At: time.Now()}
		err := c.ProduceSync(ctx, &kgo.Record{Topic: EventsTopic, Partition: p, Key: []byte("probe"), Value: ev.AppendJSON(nil)}).FirstErr()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Logf("not yet: %v", err)
		}
		if err != nil {
			return false
		}
	}
	return true
}
