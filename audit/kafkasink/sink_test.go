package kafkasink_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/kafkasink"
	"github.com/tierlock/tierlock/internal/servers"
)

func TestMain(m *testing.M) {
	if childMain() {
		return
	}
	net.DefaultResolver = dns.resolver() // before anybody looks up anything
	goleak.VerifyTestMain(servers.Share(m))
}

func cluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newSink(t testing.TB, cfg kafkasink.Config) *kafkasink.Sink {
	t.Helper()
	s, err := kafkasink.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// ready is a sink whose topics exist.
func ready(t *testing.T, c *kfake.Cluster) *kafkasink.Sink {
	t.Helper()
	s := newSink(t, kafkasink.Config{Brokers: c.ListenAddrs(), Partitions: 4})
	if n, err := s.Partitions(t.Context()); err != nil || n != 4 {
		t.Fatalf("%d partitions, %v", n, err)
	}
	return s
}

func message(partition, i int) audit.Message {
	return audit.Message{
		Partition: partition, Key: fmt.Appendf(nil, "key-%d", partition), Value: fmt.Appendf(nil, "value-%d", i),
		Headers: []audit.Header{{Key: "ce_id", Value: fmt.Appendf(nil, "p/1/%d", i)}},
	}
}

// read returns n records of a topic, by partition, in order of offsets.
func read(t *testing.T, brokers []string, topic string, n int) map[int32][]*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	all := map[int32][]*kgo.Record{}
	for got := 0; got < n; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d records in %s", got, n, topic)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			all[r.Partition] = append(all[r.Partition], r)
			got++
		})
	}
	return all
}

func TestSendPutsMessagesWhereTheyBelongInOrderWithTheirHeaders(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	s := ready(t, c)
	var msgs []audit.Message
	for i := range 400 {
		msgs = append(msgs, message(i%4, i))
	}
	for i, err := range s.Send(t.Context(), msgs) {
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	for p, records := range read(t, c.ListenAddrs(), kafkasink.EventsTopic, 400) {
		for i, r := range records {
			want := msgs[i*4+int(p)]
			if string(r.Value) != string(want.Value) || string(r.Key) != string(want.Key) || len(r.Headers) != 1 || string(r.Headers[0].Value) != string(want.Headers[0].Value) {
				t.Fatalf("partition %d, record %d: %s %s %v", p, i, r.Key, r.Value, r.Headers)
			}
		}
	}
}

func TestSendIsAnErrorOfOnePartitionOnlyAndAnotherTryDelivers(t *testing.T) {
	t.Parallel()
	for _, fault := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.UnknownServerError, kerr.TopicAuthorizationFailed, kerr.RequestTimedOut} {
		t.Run(fault.Message, func(t *testing.T) {
			t.Parallel()
			c := cluster(t)
			s := ready(t, c)
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Partitions: []int32{1}, Err: fault})
			msgs := []audit.Message{message(0, 0), message(1, 1), message(2, 2), message(1, 3)}
			errs := s.Send(t.Context(), msgs)
			if errs[0] != nil || errs[2] != nil || errs[1] == nil || errs[3] == nil || errors.Is(errs[1], audit.ErrPoison) {
				t.Fatalf("got %v", errs)
			}
			for _, err := range s.Send(t.Context(), []audit.Message{msgs[1], msgs[3]}) {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestSendFollowsALeaderThatMoved(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	s := ready(t, c)
	for node := range int32(3) {
		if err := c.MoveTopicPartition(kafkasink.EventsTopic, 0, node); err != nil {
			t.Fatal(err)
		}
		err := errors.New("not tried")
		for try := 0; err != nil && try < 2; try++ {
			err = s.Send(t.Context(), []audit.Message{message(0, 1)})[0]
		}
		if err != nil {
			t.Errorf("the second try after a move to %d: %v", node, err)
		}
	}
}

func TestPoisonIsFoundAloneAndTheOthersAreDeliveredInOrder(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	s := ready(t, c)
	// A broker whose topic takes less than the sink believes.
	small := "3000"
	if err := alter(t, c, kafkasink.EventsTopic, "max.message.bytes", small); err != nil {
		t.Fatal(err)
	}
	var msgs []audit.Message
	for i := range 40 {
		m := message(0, i)
		if i == 7 || i == 30 {
			m.Value = append(m.Value, strings.Repeat("x", 4000)...)
		}
		msgs = append(msgs, m)
	}
	huge := message(1, 99)
	huge.Value = make([]byte, 2_000_000) // refused without asking
	msgs = append(msgs, huge)
	for i, err := range s.Send(t.Context(), msgs) {
		if bad := i == 7 || i == 30 || i == 40; bad != errors.Is(err, audit.ErrPoison) || (!bad && err != nil) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	records := read(t, c.ListenAddrs(), kafkasink.EventsTopic, 38)[0]
	for i := 1; i < len(records); i++ {
		if a, b := string(records[i-1].Headers[0].Value), string(records[i].Headers[0].Value); number(t, a) >= number(t, b) {
			t.Errorf("%s before %s", a, b)
		}
	}
}

func number(t *testing.T, id string) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(id, "p/1/%d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func alter(t *testing.T, c *kfake.Cluster, topic, name, value string) error {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		return err
	}
	defer client.Close()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	conf := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	conf.Name, conf.Value = name, &value
	res.Configs = append(res.Configs, conf)
	req.Resources = append(req.Resources, res)
	_, err = req.RequestWith(t.Context(), client)
	return err
}

func TestDeadLettersGoToTheirTopicWithReasonAndOrigin(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	s := ready(t, c)
	m := message(3, 1)
	m.Dead, m.DeadClass, m.Attempts = "too large", audit.ClassTooLarge, 3
	if err := s.Send(t.Context(), []audit.Message{m})[0]; err != nil {
		t.Fatal(err)
	}
	for _, records := range read(t, c.ListenAddrs(), kafkasink.EventsTopic+".dlq", 1) {
		got := map[string]string{}
		for _, h := range records[0].Headers {
			got[h.Key] = string(h.Value)
		}
		if got["reason"] != "too large" || got["class"] != "too_large" || got["attempts"] != "3" || got["topic"] != kafkasink.EventsTopic || got["partition"] != "3" || got["ce_id"] != "p/1/1" {
			t.Errorf("headers %v", got)
		}
	}
	if size := *c.TopicInfo(kafkasink.EventsTopic + ".dlq").Configs["max.message.bytes"]; size != "4194304" {
		t.Errorf("the dead-letter topic takes %s bytes", size)
	}
}

func TestUnreachableBrokerIsAnErrorOfEveryMessageInTime(t *testing.T) {
	t.Parallel()
	s := newSink(t, kafkasink.Config{Brokers: []string{"127.0.0.1:1"}, Timeout: time.Second})
	start := time.Now()
	if _, err := s.Partitions(t.Context()); err == nil {
		t.Error("partitions of nothing")
	}
	for i, err := range s.Send(t.Context(), []audit.Message{message(0, 0), message(1, 1)}) {
		if err == nil || errors.Is(err, audit.ErrPoison) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestSendEndsWithItsContextThoughTheBrokerHangs(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	s := ready(t, c)
	release := make(chan struct{})
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.SleepControl(func() { <-release })
		return nil, nil, false
	})
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := s.Send(ctx, []audit.Message{message(0, 0)})[0]; err == nil || errors.Is(err, audit.ErrPoison) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestTopicsThatExistKeepTheirPartitionsAndAreWarnedAbout(t *testing.T) {
	t.Parallel()
	c := cluster(t, kfake.SeedTopics(7, kafkasink.EventsTopic))
	var log strings.Builder
	s := newSink(t, kafkasink.Config{Brokers: c.ListenAddrs(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 2 { // the second time nothing is missing
		if err := s.EnsureTopics(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Partitions(t.Context()); err != nil || n != 7 {
		t.Errorf("%d partitions, %v", n, err)
	}
	if !strings.Contains(log.String(), "partitions=7 configured=12") {
		t.Errorf("log: %s", log.String())
	}
	for _, topic := range []string{kafkasink.EventsTopic + ".dlq", kafkasink.FindingsTopic} {
		if n := len(c.PartitionInfos(topic)); n != 12 {
			t.Errorf("%s has %d partitions", topic, n)
		}
	}
}

func TestConfigReportsEveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	_, err := kafkasink.New(kafkasink.Config{
		Topic: "a b", DLQ: "a/b", Findings: "..", Partitions: -1, Replicas: -1, Timeout: -1, MaxMessage: -1,
	})
	for _, field := range []string{"brokers", "topic", "dlq", "findings", "partitions", "replicas", "timeout", "max_message"} {
		if !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), "invalid kafka."+field) {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
	if _, err := kafkasink.New(kafkasink.Config{Brokers: []string{"host"}, Topic: "t", DLQ: "t"}); !strings.Contains(fmt.Sprint(err), "kafka.dlq") || !strings.Contains(fmt.Sprint(err), "host:port") {
		t.Errorf("got %v", err)
	}
}

func TestConfigRefusesWhatItsDefaultsMakeOfTopics(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg   kafkasink.Config
		field string
	}{
		"dead letters among the events":   {kafkasink.Config{DLQ: kafkasink.EventsTopic}, "dlq"},
		"findings among the events":       {kafkasink.Config{Topic: kafkasink.FindingsTopic}, "findings"},
		"findings among the dead letters": {kafkasink.Config{Findings: kafkasink.EventsTopic + ".dlq"}, "findings"},
		"a name with no room for .dlq":    {kafkasink.Config{Topic: strings.Repeat("t", 249)}, "dlq"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.cfg.Brokers = []string{"127.0.0.1:9092"}
			_, err := kafkasink.New(c.cfg)
			if inv, ok := errors.AsType[*tierlock.InvalidError](err); !ok || inv.Field != "kafka."+c.field {
				t.Errorf("got %v, want a fault of %s", err, c.field)
			}
		})
	}
}

func TestTLSFilesThatCannotBeReadAreAnErrorThatNamesThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk.pem")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing.pem")
	for name, files := range map[string]kafkasink.TLSFiles{
		"missing authority": {CA: missing}, "no PEM": {CA: junk}, "missing certificate": {Cert: missing, Key: junk},
		"key that is none": {Cert: junk, Key: junk}, "key without certificate": {Key: junk},
	} {
		if conf, err := files.Load(); err == nil || conf != nil {
			t.Errorf("%s: %v, %v", name, conf, err)
		}
	}
	if conf, err := (kafkasink.TLSFiles{ServerName: "kafka.internal"}).Load(); err != nil || conf.ServerName != "kafka.internal" {
		t.Errorf("%v, %v", conf, err)
	}
}
