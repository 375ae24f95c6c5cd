package kafkasource

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock"
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
		BatchBytes:  math.MaxInt32, // how much a message may have is the broker's to say
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

// DeadLetters writes records that are no event as they came, each with the reason, its class
// ([ClassVersion] or [ClassMalformed]) and where it stood in headers. One that the topic refuses as too large is written without its value,
// whose size the header "size" tells: the record itself is where the headers say.
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
	m := kafka.Message{Key: r.Key, Value: r.Value, Headers: []kafka.Header{
		{Key: headerReason, Value: []byte(reason.Error())},
		{Key: headerClass, Value: []byte(classOf(reason))},
		{Key: headerAttempts, Value: []byte("1")}, // what is read again is as bad
		{Key: headerTopic, Value: []byte(d.cfg.Topic)},
		{Key: headerPartition, Value: strconv.AppendInt(nil, int64(r.Partition), 10)},
		{Key: headerOffset, Value: strconv.AppendInt(nil, r.Offset, 10)},
	}}
	err := d.write(ctx, m)
	if tooLarge(err) {
		m.Headers = append(m.Headers, kafka.Header{Key: headerSize, Value: strconv.AppendInt(nil, int64(len(r.Value)), 10)})
		m.Value = nil
		err = d.write(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("kafkasource: write dead letter: %w", err)
	}
	return nil
}

// The classes of dead letters that a job writes.
const (
	ClassVersion   = "version"   // an event of another version than this binary reads
	ClassMalformed = "malformed" // no event
)

func classOf(reason error) string {
	for _, fault := range tierlock.Invalids(reason) {
		if fault.Field == "v" {
			return ClassVersion
		}
	}
	return ClassMalformed
}

// Close ends the connections. No Write may be under way.
func (d *DeadLetters) Close() error { return d.close() }
