package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/segmentio/kafka-go"
)

// deadMessageBytes is the largest message the dead-letter topic is created with: more
// than any record of the spool, so that what was too large for the events fits there.
const deadMessageBytes = 4 << 20

// Partitions implements [audit.Sink]: how many the topic of the events has. Topics that
// are missing are created.
func (s *Sink) Partitions(ctx context.Context) (int, error) {
	counts, err := s.counts(ctx)
	if err != nil {
		return 0, err
	}
	if counts[s.cfg.Topic] == 0 || counts[s.cfg.DLQ] == 0 {
		if err := s.EnsureTopics(ctx); err != nil {
			return 0, err
		}
		if counts, err = s.counts(ctx); err != nil {
			return 0, err
		}
	}
	n := counts[s.cfg.Topic]
	if n == 0 {
		return 0, fmt.Errorf("kafkasink: topic %s: %w", s.cfg.Topic, kafka.UnknownTopicOrPartition)
	}
	return n, nil
}

// EnsureTopics creates the topics of events, dead letters and findings that are missing.
// One that exists is used as it is: a number of partitions other than configured is
// logged, since keys of one topic must not move.
func (s *Sink) EnsureTopics(ctx context.Context) error {
	counts, err := s.counts(ctx)
	if err != nil {
		return err
	}
	var missing []kafka.TopicConfig
	for _, topic := range []kafka.TopicConfig{
		// Events carry their own times. By the broker's clock, a host whose clock is far
		// ahead is not refused, and retention counts from when an event came.
		s.topic(s.cfg.Topic, "message.timestamp.type", "LogAppendTime"),
		s.topic(s.cfg.DLQ, "max.message.bytes", strconv.Itoa(deadMessageBytes), "message.timestamp.type", "LogAppendTime"),
		s.topic(s.cfg.Findings, "cleanup.policy", "compact"),
	} {
		n, ok := counts[topic.Topic]
		switch {
		case !ok:
			missing = append(missing, topic)
		case n != s.cfg.Partitions && topic.Topic == s.cfg.Topic:
			s.cfg.Logger.WarnContext(ctx, "topic has another number of partitions than configured, its own is used",
				slog.String("topic", topic.Topic), slog.Int("partitions", n), slog.Int("configured", s.cfg.Partitions))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return s.create(ctx, missing)
}

func (s *Sink) topic(name string, settings ...string) kafka.TopicConfig {
	t := kafka.TopicConfig{Topic: name, NumPartitions: s.cfg.Partitions, ReplicationFactor: s.cfg.Replicas}
	for i := 0; i+1 < len(settings); i += 2 {
		t.ConfigEntries = append(t.ConfigEntries, kafka.ConfigEntry{ConfigName: settings[i], ConfigValue: settings[i+1]})
	}
	return t
}

// create tolerates that somebody else was quicker.
func (s *Sink) create(ctx context.Context, topics []kafka.TopicConfig) error {
	res, err := s.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: topics})
	if err != nil {
		s.refresh()
		return fmt.Errorf("kafkasink: create topics: %w", err)
	}
	var faults []error
	for name, err := range res.Errors {
		if err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
			faults = append(faults, fmt.Errorf("kafkasink: create topic %s: %w", name, err))
		}
	}
	s.refresh() // a topic that somebody else made is not in our metadata yet
	return errors.Join(faults...)
}

// counts is how many partitions each existing topic of ours has.
func (s *Sink) counts(ctx context.Context) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	res, err := s.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{s.cfg.Topic, s.cfg.DLQ, s.cfg.Findings}})
	if err != nil {
		s.refresh()
		return nil, fmt.Errorf("kafkasink: ask for topics: %w", err)
	}
	counts := map[string]int{}
	for _, t := range res.Topics {
		switch {
		case t.Error == nil && len(t.Partitions) > 0:
			counts[t.Name] = len(t.Partitions)
		case t.Error != nil && !errors.Is(t.Error, kafka.UnknownTopicOrPartition):
			s.refresh()
			return nil, fmt.Errorf("kafkasink: topic %s: %w", t.Name, t.Error)
		}
	}
	s.dead.Store(int64(counts[s.cfg.DLQ]))
	return counts, nil
}
