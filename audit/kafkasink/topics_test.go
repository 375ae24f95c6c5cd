package kafkasink_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierlock/tierlock/audit/kafkasink"
	"github.com/tierlock/tierlock/internal/servers"
)

// The topics that a daemon makes: findings are compacted, so that the last word of each
// stays; events take the broker's time, so that a host whose clock is hours ahead is not
// refused. Kafka refuses it otherwise.
func TestRealKafkaTopicsAreMadeForWhatTheyHold(t *testing.T) {
	t.Parallel()
	brokers := []string{servers.SharedKafka(t).Addr()}
	sink := newSink(t, kafkasink.Config{Brokers: brokers, Topic: "made.events", Findings: "made.findings", Partitions: 2})
	if err := sink.EnsureTopics(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := client(t, brokers[0])
	for topic, want := range map[string][2]string{
		"made.findings":   {"cleanup.policy", "compact"},
		"made.events":     {"message.timestamp.type", "LogAppendTime"},
		"made.events.dlq": {"max.message.bytes", "4194304"},
	} {
		var got string
		waitFor(t, topic+" is told of", func() bool { // the broker that is asked may hear of it later
			got = setting(t, c, topic, want[0])
			return got != notTold
		})
		if got != want[1] {
			t.Errorf("%s has %s=%s, want %s", topic, want[0], got, want[1])
		}
	}
	plain := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = "made.by.hand", 1, 1
	plain.Topics = append(plain.Topics, one)
	if res, err := plain.RequestWith(t.Context(), c); err != nil || res.Topics[0].ErrorCode != 0 {
		t.Fatal(err, res)
	}
	if err := produceAhead(t, brokers, "made.by.hand"); !errors.Is(err, kerr.InvalidTimestamp) {
		t.Errorf("from hours ahead to a topic of Kafka's defaults: %v, want a refusal", err)
	}
	if err := produceAhead(t, brokers, "made.events"); err != nil {
		t.Errorf("from hours ahead: %v", err)
	}
}

func setting(t *testing.T, c *kgo.Client, topic, name string) string {
	t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	of := kmsg.NewDescribeConfigsRequestResource()
	of.ResourceType, of.ResourceName, of.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{name}
	req.Resources = append(req.Resources, of)
	res, err := req.RequestWith(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res.Resources {
		for _, conf := range r.Configs {
			if conf.Name == name && conf.Value != nil {
				return *conf.Value
			}
		}
	}
	return notTold
}

const notTold = "(not told)"

// produceAhead writes one record as a host does whose clock is five hours ahead.
func produceAhead(t *testing.T, brokers []string, topic string) error {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordRetries(20), kgo.UnknownTopicRetries(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x"), Timestamp: time.Now().Add(5 * time.Hour)}).FirstErr()
}
