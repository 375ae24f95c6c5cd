package kafkasource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock/reconcile"
)

// writer sends one message at a time and knows when it is safe.
type writer struct {
	w    *kafka.Writer
	pool *kafka.Transport
}

func newWriter(cfg *Config, topic string) writer {
	pool := cfg.transport(topic)
	return writer{pool: pool, w: &kafka.Writer{
		Addr: kafka.TCP(cfg.Brokers...), Topic: topic, Transport: pool, Balancer: kafka.Murmur2Balancer{},
		RequiredAcks: kafka.RequireAll, MaxAttempts: 1, BatchSize: 1, BatchTimeout: time.Millisecond,
		ReadTimeout: cfg.Timeout, WriteTimeout: cfg.Timeout,
	}}
}

// write waits for all in-sync replicas. ctx does not cut it short, since the message would
// be written all the same; the configured timeout bounds it.
func (w *writer) write(ctx context.Context, m kafka.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.w.WriteMessages(context.WithoutCancel(ctx), m)
}

func (w *writer) close() error {
	err := w.w.Close()
	w.pool.CloseIdleConnections()
	return err
}

// Findings implements [reconcile.Findings] with a topic, keyed by finding id: compacted, it
// keeps the last revision of each. Readers keep the one with the highest (revision, stage).
type Findings struct {
	cfg Config
	writer
}

// NewFindings checks cfg; it does no I/O.
func NewFindings(cfg Config) (*Findings, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Findings{cfg: cfg, writer: newWriter(&cfg, cfg.Findings)}, nil
}

// Create makes the topic, compacted, where it is missing.
func (f *Findings) Create(ctx context.Context, partitions, replicas int) error {
	client := &kafka.Client{Addr: kafka.TCP(f.cfg.Brokers...), Transport: f.pool, Timeout: f.cfg.Timeout}
	res, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: f.cfg.Findings, NumPartitions: partitions, ReplicationFactor: replicas,
		ConfigEntries: []kafka.ConfigEntry{{ConfigName: "cleanup.policy", ConfigValue: "compact"}},
	}}})
	if err == nil {
		err = res.Errors[f.cfg.Findings]
	}
	if err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
		return fmt.Errorf("kafkasource: create topic %s: %w", f.cfg.Findings, err)
	}
	return nil
}

// Put implements [reconcile.Findings].
func (f *Findings) Put(ctx context.Context, finding reconcile.Finding) error {
	value, err := json.Marshal(finding)
	if err != nil {
		return fmt.Errorf("kafkasource: encode finding: %w", err)
	}
	if err := f.write(ctx, kafka.Message{Key: []byte(finding.ID), Value: value}); err != nil {
		return fmt.Errorf("kafkasource: write finding: %w", err)
	}
	return nil
}

// Close ends the connections. No Put may be under way.
func (f *Findings) Close() error { return f.close() }

// DeadLetters writes records that are no event as they came, each with the reason and where
// it stood in headers.
type DeadLetters struct {
	cfg Config
	writer
}

// NewDeadLetters checks cfg; it does no I/O.
func NewDeadLetters(cfg Config) (*DeadLetters, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &DeadLetters{cfg: cfg, writer: newWriter(&cfg, cfg.Dead)}, nil
}

// Write is a [reconcile.Config] DeadLetter.
func (d *DeadLetters) Write(ctx context.Context, r reconcile.Record, reason error) error {
	err := d.write(ctx, kafka.Message{Key: r.Key, Value: r.Value, Headers: []kafka.Header{
		{Key: headerReason, Value: []byte(reason.Error())},
		{Key: headerTopic, Value: []byte(d.cfg.Topic)},
		{Key: headerPartition, Value: strconv.AppendInt(nil, int64(r.Partition), 10)},
		{Key: headerOffset, Value: strconv.AppendInt(nil, r.Offset, 10)},
	}})
	if err != nil {
		return fmt.Errorf("kafkasource: write dead letter: %w", err)
	}
	return nil
}

// Close ends the connections. No Write may be under way.
func (d *DeadLetters) Close() error { return d.close() }
