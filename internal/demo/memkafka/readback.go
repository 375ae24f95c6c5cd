package memkafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Count is how many messages topic holds now.
func Count(ctx context.Context, brokers []string, topic string) (n int64, err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", topic, err)
	}
	defer client.Close()
	first, err := offsets(ctx, client, topic, earliest)
	if err != nil {
		return 0, err
	}
	ends, err := offsets(ctx, client, topic, latest)
	for p, end := range ends {
		n += end - first[p]
	}
	return n, err
}

// ReadAll calls fn with every message that topic held when the call began, each partition
// from its first offset in order. It works on any Kafka. fn's slices are the client's:
// copy what is kept.
func ReadAll(ctx context.Context, brokers []string, topic string, fn func(partition int, key, value []byte) error) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return fmt.Errorf("read back %s: %w", topic, err)
	}
	defer client.Close()
	first, err := offsets(ctx, client, topic, earliest)
	if err != nil {
		return err
	}
	ends, err := offsets(ctx, client, topic, latest)
	if err != nil {
		return err
	}
	at := map[int32]kgo.Offset{}
	left := 0
	for p, end := range ends {
		if first[p] < end {
			at[p] = kgo.NewOffset().At(first[p])
			left++
		}
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: at})
	for left > 0 {
		fetches, err := poll(ctx, client)
		if err != nil {
			return fmt.Errorf("read back %s: %d partitions unfinished: %w", topic, left, err)
		}
		var errs []error
		fetches.EachError(func(_ string, p int32, err error) { errs = append(errs, fmt.Errorf("partition %d: %w", p, err)) })
		fetches.EachRecord(func(r *kgo.Record) {
			end := ends[r.Partition]
			if r.Offset < end {
				errs = append(errs, fn(int(r.Partition), r.Key, r.Value))
			}
			if r.Offset == end-1 {
				left--
			}
		})
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("read back %s: %w", topic, err)
		}
	}
	return nil
}

// The times at which Kafka answers with the first offset, and with the next to be written.
const (
	earliest = -2
	latest   = -1
)

// offsets asks for each partition's offset at a time. A partition that cannot tell is an
// error: taken for empty, its events would count as lost.
func offsets(ctx context.Context, client *kgo.Client, topic string, at int64) (map[int32]int64, error) {
	meta := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = &topic
	meta.Topics = append(meta.Topics, mt)
	got, err := meta.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("read back %s: %w", topic, err)
	}
	list := kmsg.NewPtrListOffsetsRequest()
	list.ReplicaID = -1
	lt := kmsg.NewListOffsetsRequestTopic()
	lt.Topic = topic
	for _, t := range got.Topics {
		for _, p := range t.Partitions {
			lp := kmsg.NewListOffsetsRequestTopicPartition()
			lp.Partition, lp.Timestamp = p.Partition, at
			lt.Partitions = append(lt.Partitions, lp)
		}
	}
	if len(lt.Partitions) == 0 {
		return nil, fmt.Errorf("read back %s: the topic is not there", topic)
	}
	list.Topics = append(list.Topics, lt)
	out := map[int32]int64{}
	for _, shard := range client.RequestSharded(ctx, list) {
		if shard.Err != nil {
			return nil, fmt.Errorf("read back %s: %w", topic, shard.Err)
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("read back %s, partition %d: %w", topic, p.Partition, err)
				}
				out[p.Partition] = p.Offset
			}
		}
	}
	return out, nil
}

// silence is how long a broker that owes messages may send none.
const silence = time.Minute

// poll waits for messages. There is no bound on the whole: a year of trace is long.
func poll(ctx context.Context, client *kgo.Client) (kgo.Fetches, error) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	fetches := client.PollFetches(ctx)
	return fetches, ctx.Err()
}
