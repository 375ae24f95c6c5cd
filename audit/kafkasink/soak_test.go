package kafkasink_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/kafkasink"
	"github.com/tierlock/tierlock/internal/servers"
)

func needSoak(t *testing.T) {
	t.Helper()
	if os.Getenv("TIERLOCK_SOAK") == "" {
		t.Skip("left out: takes minutes; run make soak")
	}
}

// Three real brokers, and every partition has another leader every two seconds.
func TestSoakLeadersThatMoveLoseNoOrderOnKafka(t *testing.T) {
	needSoak(t)
	one := servers.Kafka(t)
	two, three := one.Join(t), one.Join(t)
	brokers := []string{one.Addr(), two.Addr(), three.Addr()}
	c := client(t, one.Addr())
	for _, topic := range []string{kafkasink.EventsTopic, kafkasink.EventsTopic + ".dlq", kafkasink.FindingsTopic} {
		createSpread(t, c, topic, 12)
	}
	over := make(chan struct{})
	var mover sync.WaitGroup
	moves := 0
	mover.Go(func() {
		for tick := time.Tick(2 * time.Second); ; moves++ {
			select {
			case <-over:
				return
			case <-tick:
				if err := moveLeaders(t.Context(), c, moves+1, 12); err != nil {
					t.Errorf("move %d: %v", moves, err)
				}
			}
		}
	})
	inOrder(t, brokers, 12, 1_000_000, 10_000, func() {
		close(over)
		mover.Wait()
		t.Logf("%d times all leaders moved", moves)
	})
	if moves < 5 {
		t.Errorf("leaders moved %d times only", moves)
	}
}

// replicas are the brokers of a partition in the order in which they should lead it.
func replicas(partition, round int) []int32 {
	at := int32(partition + round)
	return []int32{at%3 + 1, (at+1)%3 + 1, (at+2)%3 + 1}
}

// createSpread makes a topic that three brokers hold, each leading a third of it.
func createSpread(t *testing.T, c *kgo.Client, topic string, partitions int) {
	t.Helper()
	two := "2"
	req := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = topic, -1, -1
	for p := range partitions {
		at := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		at.Partition, at.Replicas = int32(p), replicas(p, 0)
		one.ReplicaAssignment = append(one.ReplicaAssignment, at)
	}
	conf := kmsg.NewCreateTopicsRequestTopicConfig()
	conf.Name, conf.Value = "min.insync.replicas", &two
	one.Configs = append(one.Configs, conf)
	req.Topics, req.TimeoutMillis = append(req.Topics, one), 20_000
	res, err := req.RequestWith(t.Context(), c)
	if err == nil {
		err = kerr.ErrorForCode(res.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("create %s: %v", topic, err)
	}
}

// moveLeaders makes another replica the one that should lead, and has it elected.
func moveLeaders(ctx context.Context, c *kgo.Client, round, partitions int) error {
	assign := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	assign.TimeoutMillis = 20_000
	topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	topic.Topic = kafkasink.EventsTopic
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.TimeoutMillis = 20_000
	chosen := kmsg.NewElectLeadersRequestTopic()
	chosen.Topic = kafkasink.EventsTopic
	for p := range partitions {
		part := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		part.Partition, part.Replicas = int32(p), replicas(p, round)
		topic.Partitions = append(topic.Partitions, part)
		chosen.Partitions = append(chosen.Partitions, int32(p))
	}
	assign.Topics, elect.Topics = append(assign.Topics, topic), append(elect.Topics, chosen)
	res, err := assign.RequestWith(ctx, c)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(res.ErrorCode); err != nil {
		return err
	}
	elected, err := elect.RequestWith(ctx, c)
	if err != nil {
		return err
	}
	for _, p := range elected.Topics {
		for _, one := range p.Partitions {
			if err := kerr.ErrorForCode(one.ErrorCode); err != nil && !errors.Is(err, kerr.ElectionNotNeeded) && !errors.Is(err, kerr.PreferredLeaderNotAvailable) {
				return err
			}
		}
	}
	return nil
}

// Kafka is away until the spool has no room left, with what a process of 50 events a second
// makes in four hours: memory stays flat, what ends is written all the same, and afterwards
// everything arrives, five times as fast as new events come meanwhile.
func TestSoakAnOutageUntilTheQuotaLosesNothingOnKafka(t *testing.T) {
	needSoak(t)
	const quota, arrival = 256 << 20, 2000 // bytes; events a second while it drains
	broker := servers.Kafka(t)
	sink := newSink(t, kafkasink.Config{Brokers: []string{broker.Addr()}, Timeout: 5 * time.Second})
	dir := t.TempDir()
	l, err := audit.Open(audit.Config{Dir: dir, Producer: "shop-1", Sink: sink, Heartbeat: time.Second, Quota: quota})
	if err != nil {
		t.Fatal(err)
	}
	acked := make([]uint64, 0, 4<<20)
	for i, all := 0, acked[:cap(acked)]; i < len(all); i++ { // what they take is taken before anything is measured
		all[i] = uint64(i)
	}
	var recorded []audit.Event
	fill := func(n int) (full bool) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for g := range 64 {
			all.Go(func() {
				for i := range n / 64 {
					ev, err := grant(g*100+i%100, i)
					if err == nil {
						err = l.Record(t.Context(), &ev)
					}
					mu.Lock()
					switch {
					case errors.Is(err, audit.ErrFull):
						full = true
					case err != nil:
						t.Errorf("record: %v", err)
					default:
						name, _ := strconv.ParseUint(ev.ID.Fingerprint(), 16, 64)
						acked = append(acked, name)
						if len(recorded) < 1000 {
							recorded = append(recorded, ev)
						}
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		return full
	}
	fill(20_000)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if err := l.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	broker.Kill()
	fill(20_000)
	before := rss(t)
	for !fill(20_000) {
	}
	outage := len(acked)
	grown := rss(t) - before
	st := l.Stats()
	t.Logf("the outage: %d events, %d MiB on the disk of %d, RSS grew by %d MiB, %d failed sends",
		st.Backlog(), st.Bytes>>20, st.Quota>>20, grown>>20, st.SendErrors)
	if grown > 50<<20 {
		t.Errorf("RSS grew by %d MiB", grown>>20)
	}
	if st.Bytes < quota*9/10 || st.Bytes > quota || st.Dead != 0 {
		t.Errorf("%+v", st)
	}
	for i := range recorded { // what was begun can be ended, though the disk takes nothing new
		end := recorded[i]
		end.Type, end.EndedAt, end.How = audit.TypeEnd, time.Now(), audit.Released
		if err := l.Record(t.Context(), &end); err != nil {
			t.Fatalf("end %d on a full disk: %v", i, err)
		}
	}
	broker.Restart()
	begin, backlog := time.Now(), st.Backlog()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	late := 0
	for l.Stats().Backlog() > 5*arrival { // while new ones come
		<-tick.C
		had := len(acked)
		fill(arrival/10/64*64 + 64)
		late += len(acked) - had
		if ctx.Err() != nil {
			t.Fatalf("not drained: %+v", l.Stats())
		}
	}
	took := time.Since(begin)
	rate := float64(backlog) / took.Seconds()
	t.Logf("drained %d events in %v, %.0f a second, while %d new ones came, %.0f a second; %.0f times as fast as they had come over four hours",
		backlog, took.Round(time.Millisecond), rate, late, float64(late)/took.Seconds(), rate/(float64(outage)/(4*3600)))
	if rate < 5*float64(late)/took.Seconds() {
		t.Errorf("drained %.0f events a second while %.0f came", rate, float64(late)/took.Seconds())
	}
	if err := l.Drain(ctx); err != nil {
		t.Errorf("drain: %v, %+v", err, l.Stats())
	}
	if err := l.Close(ctx); err != nil {
		t.Error(err)
	}
	names := make(map[string]string, len(acked))
	for _, name := range acked {
		names[fmt.Sprintf("%016x", name)] = "" // what each said would take what is measured
	}
	checkArrived(ctx, t, []string{broker.Addr()}, names, 0)
}

// rss is what this process has in memory, in bytes.
func rss(t *testing.T) int64 {
	t.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("left out: the memory of a process is told on Linux only: %v", err)
	}
	pages, err := strconv.ParseInt(string(bytes.Fields(text)[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
