package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

// Examination is what a cluster tells of itself and of our topics.
type Examination struct {
	Brokers int
	Topics  []TopicState // of events, dead letters and findings
}

// TopicState is one topic as it is.
type TopicState struct {
	Name       string
	Missing    bool
	Partitions int
	Replicas   int // of the partition that has the fewest
	InSync     int // of the partition that has the fewest
	Leaderless int // partitions that take nothing now
	// Settings are those that an audit depends on, by name; nil where Err says why not.
	Settings map[string]string
	Err      error
}

// settings are those that Examine reads.
var settings = []string{"cleanup.policy", "min.insync.replicas", "retention.ms", "max.message.bytes", "unclean.leader.election.enable"}

// Examine asks what there is. It creates nothing.
func (s *Sink) Examine(ctx context.Context) (Examination, error) {
	names := []string{s.cfg.Topic, s.cfg.DLQ, s.cfg.Findings}
	res, err := s.client.Metadata(ctx, &kafka.MetadataRequest{Topics: names})
	if err != nil {
		s.refresh()
		return Examination{}, fmt.Errorf("kafkasink: ask for topics: %w", err)
	}
	x := Examination{Brokers: len(res.Brokers)}
	for _, name := range names {
		t := TopicState{Name: name, Missing: true}
		for i := range res.Topics {
			if res.Topics[i].Name == name {
				t = stateOf(&res.Topics[i])
			}
		}
		if !t.Missing && t.Err == nil {
			t.Settings, t.Err = s.settings(ctx, name)
		}
		x.Topics = append(x.Topics, t)
	}
	return x, nil
}

func stateOf(topic *kafka.Topic) TopicState {
	t := TopicState{Name: topic.Name, Partitions: len(topic.Partitions)}
	switch {
	case errors.Is(topic.Error, kafka.UnknownTopicOrPartition), topic.Error == nil && t.Partitions == 0:
		t.Missing = true
	case topic.Error != nil:
		t.Err = topic.Error
	}
	for i, p := range topic.Partitions {
		if i == 0 || len(p.Replicas) < t.Replicas {
			t.Replicas = len(p.Replicas)
		}
		if i == 0 || len(p.Isr) < t.InSync {
			t.InSync = len(p.Isr)
		}
		if p.Error != nil || p.Leader.Host == "" {
			t.Leaderless++
		}
	}
	return t
}

// settings reads the topic's settings as they are in force.
func (s *Sink) settings(ctx context.Context, topic string) (map[string]string, error) {
	res, err := s.client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: settings},
	}})
	if err != nil {
		return nil, fmt.Errorf("kafkasink: ask for settings of %s: %w", topic, err)
	}
	found := map[string]string{}
	for _, r := range res.Resources {
		if r.Error != nil {
			return nil, fmt.Errorf("kafkasink: ask for settings of %s: %w", topic, r.Error)
		}
		for _, e := range r.ConfigEntries {
			found[e.ConfigName] = e.ConfigValue
		}
	}
	return found, nil
}

// Compacted tells whether of each key only the last record is kept.
func (t *TopicState) Compacted() bool {
	return slices.Contains(strings.Split(t.Settings["cleanup.policy"], ","), "compact")
}

// Retention is how long records are kept; ok is false where they are kept for good.
func (t *TopicState) Retention() (kept time.Duration, ok bool) {
	ms, err := strconv.ParseInt(t.Settings["retention.ms"], 10, 64)
	if err != nil || ms < 0 || ms > math.MaxInt64/int64(time.Millisecond) {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}
