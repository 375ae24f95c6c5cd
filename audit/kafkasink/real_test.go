package kafkasink_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/kafkasink"
	"github.com/tierlock/tierlock/internal/demo/memkafka"
	"github.com/tierlock/tierlock/internal/servers"
)

// trail is a log with a sink of its own, and the folder it writes.
type trail struct {
	*audit.Log
	dir string
}

func openTrail(t *testing.T, cfg kafkasink.Config, hooks audit.Hooks) trail {
	t.Helper()
	cfg.Partitions, cfg.Timeout = 4, 2*time.Second
	sink := newSink(t, cfg)
	dir := t.TempDir()
	l, err := audit.Open(audit.Config{Dir: dir, Producer: "shop-1", Sink: sink, Heartbeat: time.Hour, Hooks: hooks})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return trail{l, dir}
}

// record records n grants.
func (l trail) record(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		ev, err := grant(i%8, i)
		if err == nil {
			err = l.Record(t.Context(), &ev)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// arrived drains and compares the topic with the spool: every event is there, once by its
// id in each partition, byte for byte but for prev, which the spool does not know.
func (l trail) arrived(t *testing.T, brokers []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := l.Drain(ctx); err != nil {
		t.Fatalf("drain: %v, %+v", err, l.Stats())
	}
	want := map[string]string{}
	err := audit.Dump(ctx, nil, l.dir, 0, 0, func(line []byte) error {
		id, text, err := withoutPrev(line)
		want[id] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	total := len(want)
	copies, seen := 0, map[string]bool{}
	err = memkafka.ReadAll(ctx, brokers, kafkasink.EventsTopic, func(p int, _, value []byte) error {
		id, text, err := withoutPrev(value)
		if text != want[id] {
			t.Errorf("%s: sent %s, recorded %s", id, text, want[id])
		}
		copyOf := fmt.Sprint(p, id)
		if seen[copyOf] {
			copies++ // at least once: a reader tells by the id
		}
		seen[copyOf] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for copyOf := range seen {
		var p int
		var id string
		if _, err := fmt.Sscan(copyOf, &p, &id); err != nil {
			t.Fatal(err)
		}
		found[id] = true
	}
	t.Logf("%d events, %d copies", total, copies)
	if len(found) != total || total < 100 {
		t.Errorf("%d of %d events arrived", len(found), total)
	}
}

func withoutPrev(line []byte) (id, text string, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return "", "", err
	}
	delete(fields, "prev")
	b, err := json.Marshal(fields)
	return string(fields["id"]), string(b), err
}

// With one of two brokers gone the topic has too few replicas in sync: the other refuses
// every batch, however often it is asked, until its fellow is back. One broker alone would
// not do: Kafka asks a topic of one replica for one, whatever min.insync.replicas says.
func TestRealKafkaWithoutEnoughReplicasLosesNothing(t *testing.T) {
	t.Parallel()
	broker := servers.Kafka(t)
	fellow := broker.Join(t)
	admin := client(t, broker.Addr())
	for _, topic := range []string{kafkasink.EventsTopic, kafkasink.EventsTopic + ".dlq", kafkasink.FindingsTopic} {
		createPaired(t, admin, topic)
	}
	fellow.Kill()
	var refused atomic.Int64
	l := openTrail(t, kafkasink.Config{Brokers: []string{broker.Addr()}}, audit.Hooks{Sent: func(s audit.SendInfo) {
		if errors.Is(s.Err, kafka.NotEnoughReplicas) {
			refused.Add(1)
		}
	}})
	l.record(t, 300)
	waitFor(t, "three refusals", func() bool { return refused.Load() >= 3 })
	if st := l.Stats(); st.Delivered != 0 || st.Dead != 0 || st.Backlog() == 0 {
		t.Errorf("while refused: %+v", st)
	}
	fellow.Restart()
	l.arrived(t, []string{broker.Addr()})
	if st := l.Stats(); st.Dead != 0 || st.Gaps != 0 {
		t.Errorf("%+v", st)
	}
}

// A login that is refused is tried again with the password as it is then, and a login that
// runs out while events flow is made anew: kafka-go itself does neither.
func TestRealKafkaOverTLSWithALoginThatIsRefusedAndRunsOut(t *testing.T) {
	const password = "correct-horse"
	broker := servers.SecureKafka(t, "tierlock", password, 1500*time.Millisecond)
	conf, err := kafkasink.TLSFiles{CA: broker.CA}.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, mechanism := range []string{"", "SCRAM-SHA-256"} {
		t.Run("mechanism "+mechanism, func(t *testing.T) {
			var now atomic.Pointer[string]
			var asked atomic.Int64
			say := func() (string, error) { asked.Add(1); return *now.Load(), nil }
			wrong, right := "battery", password
			now.Store(&wrong)
			l := openTrail(t, kafkasink.Config{
				Brokers: []string{broker.SecureAddr}, TLS: conf,
				SASL: kafkasink.Login{Mechanism: mechanism, Username: "tierlock", Password: say},
			}, audit.Hooks{})
			l.record(t, 150)
			waitFor(t, "three logins that are refused", func() bool { return asked.Load() > 3 })
			if st := l.Stats(); st.Delivered != 0 || st.Dead != 0 || st.Backlog() < 150 {
				t.Errorf("while refused: %+v", st)
			}
			now.Store(&right)
			before := asked.Load()
			var group sync.WaitGroup
			group.Go(func() { // longer than two logins are good for
				for range 12 {
					l.record(t, 10)
					pause := time.NewTimer(300 * time.Millisecond)
					<-pause.C
				}
			})
			group.Wait()
			if n := asked.Load() - before; n < 3 {
				t.Errorf("%d logins: none ran out", n)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := l.Drain(ctx); err != nil {
				t.Fatalf("%v, %+v", err, l.Stats())
			}
			if mechanism == "" {
				l.arrived(t, []string{broker.Addr()})
			}
			if st := l.Stats(); st.Dead != 0 || st.Gaps != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
	plain := newSink(t, kafkasink.Config{Brokers: []string{broker.SecureAddr}, Timeout: 2 * time.Second})
	if _, err := plain.Partitions(t.Context()); err == nil {
		t.Error("let in without TLS and login")
	}
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 60 s: %s", what)
		}
		tick := time.NewTimer(20 * time.Millisecond)
		<-tick.C
	}
}

func client(t *testing.T, addr string) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// createPaired makes a topic whose partitions broker 1 leads and broker 2 follows, and
// which takes nothing unless both have it.
func createPaired(t *testing.T, c *kgo.Client, topic string) {
	t.Helper()
	both := "2"
	req := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = topic, -1, -1
	for p := range int32(4) {
		at := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		at.Partition, at.Replicas = p, []int32{1, 2}
		one.ReplicaAssignment = append(one.ReplicaAssignment, at)
	}
	conf := kmsg.NewCreateTopicsRequestTopicConfig()
	conf.Name, conf.Value = "min.insync.replicas", &both
	one.Configs = append(one.Configs, conf)
	req.Topics = append(req.Topics, one)
	res, err := req.RequestWith(t.Context(), c)
	if err == nil && res.Topics[0].ErrorCode != 0 {
		err = kerr.ErrorForCode(res.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("create %s: %v", topic, err)
	}
}

func TestLoginReportsEveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	login := kafkasink.Login{Mechanism: "GSSAPI"}
	for _, field := range []string{"mechanism", "username", "password"} {
		if err := login.Validate(); err == nil || !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), "invalid "+field) {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
	if _, _, err := login.Start(t.Context()); err == nil {
		t.Error("a login of nobody")
	}
	away := errors.New("vault is sealed")
	_, _, err := kafkasink.Login{Username: "u", Password: func() (string, error) { return "", away }}.Start(t.Context())
	if !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
}
