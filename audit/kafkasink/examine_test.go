package kafkasink_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tierlock/tierlock/audit/kafkasink"
	"github.com/tierlock/tierlock/internal/servers"
)

// Examine tells what there is, and makes nothing that is not.
func TestRealKafkaIsExaminedAsItIs(t *testing.T) {
	t.Parallel()
	addr := servers.SharedKafka(t).Addr()
	conf := kafkasink.Config{Brokers: []string{addr}, Topic: "examined", Findings: "examined.findings", Partitions: 3}
	sink, err := kafkasink.New(conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	for range 2 { // were topics made by asking, the second time would find them
		x, err := sink.Examine(t.Context())
		if err != nil || x.Brokers != 1 || len(x.Topics) != 3 {
			t.Fatalf("%v, %+v", err, x)
		}
		for _, topic := range x.Topics {
			if !topic.Missing || topic.Err != nil {
				t.Errorf("before anybody made it: %+v", topic)
			}
		}
	}
	if err := sink.EnsureTopics(t.Context()); err != nil {
		t.Fatal(err)
	}
	var x kafkasink.Examination
	waitFor(t, "the topics", func() bool { // a broker hears of a topic some time after it was made
		fresh, err := kafkasink.New(conf)
		if err != nil {
			t.Fatal(err)
		}
		defer fresh.Close()
		x, err = fresh.Examine(t.Context())
		return err == nil && len(x.Topics) == 3 && !slices.ContainsFunc(x.Topics, func(s kafkasink.TopicState) bool {
			return s.Missing || s.Err != nil || s.Leaderless > 0 || s.Partitions < 3
		})
	})
	for i, compacted := range []bool{false, false, true} {
		topic := x.Topics[i]
		if topic.Missing || topic.Err != nil || topic.Partitions != 3 || topic.Replicas != 1 || topic.InSync != 1 || topic.Leaderless != 0 || topic.Compacted() != compacted {
			t.Errorf("%+v", topic)
		}
		if kept, limited := topic.Retention(); !limited || kept != 7*24*time.Hour {
			t.Errorf("%s keeps for %v", topic.Name, kept)
		}
	}
	if most := x.Topics[1].Settings["max.message.bytes"]; most != "4194304" {
		t.Errorf("dead letters of %s bytes", most)
	}
}
