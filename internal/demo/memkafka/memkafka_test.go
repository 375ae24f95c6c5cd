package memkafka_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/internal/demo/memkafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReadsBackEveryMessageOfEveryPartitionOnce(t *testing.T) {
	s := start(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.DefaultProduceTopic("events"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	create(t, client, "events", 12)
	const n = 500
	for i := range n {
		key := fmt.Sprint(i)
		if err := client.ProduceSync(t.Context(), kgo.KeyStringRecord(key, "v"+key)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}

	if got, err := memkafka.Count(t.Context(), s.Addrs(), "events"); err != nil || got != n {
		t.Fatalf("counted %d, %v; want %d", got, err, n)
	}
	got := map[string]int{}
	partitions := map[int]bool{}
	err = memkafka.ReadAll(t.Context(), s.Addrs(), "events", func(p int, key, value []byte) error {
		if string(value) != "v"+string(key) {
			return fmt.Errorf("value %q under key %q", value, key)
		}
		got[string(key)]++
		partitions[p] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if got[fmt.Sprint(i)] != 1 {
			t.Fatalf("message %d came %d times", i, got[fmt.Sprint(i)])
		}
	}
	if len(partitions) != 12 {
		t.Fatalf("messages came from %d of 12 partitions", len(partitions))
	}
}

func TestAnAbsentTopicIsAnError(t *testing.T) {
	s := start(t)
	if err := memkafka.ReadAll(t.Context(), s.Addrs(), "nothing", func(int, []byte, []byte) error { return nil }); err == nil {
		t.Fatal("no error")
	}
}

func TestAnEmptyTopicIsReadAtOnce(t *testing.T) {
	s := start(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	create(t, client, "empty", 3)
	if err := memkafka.ReadAll(t.Context(), s.Addrs(), "empty", func(int, []byte, []byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T) *memkafka.Server {
	t.Helper()
	s, err := memkafka.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func create(t *testing.T, client *kgo.Client, topic string, partitions int32) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	ct := kmsg.NewCreateTopicsRequestTopic()
	ct.Topic, ct.NumPartitions, ct.ReplicationFactor = topic, partitions, 1
	req.Topics = append(req.Topics, ct)
	if _, err := req.RequestWith(context.Background(), client); err != nil {
		t.Fatal(err)
	}
}
