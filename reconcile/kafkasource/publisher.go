package kafkasource

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/reconcile"
)

// The headers of a message that a repair sends.
const (
	HeaderIdempotencyKey = reconcile.HeaderIdempotencyKey // the repair's key: the same on every repeat
	HeaderAction         = "Tierlock-Action"
)

// Publisher implements [reconcile.Publisher] with one topic of the business. Messages lie in
// the partition that Java's default partitioner gives their key, acknowledged by all in-sync
// replicas. It is safe for concurrent use.
type Publisher struct{ writer }

// NewPublisher checks cfg, of which it reads how to reach the brokers, and topic, which must
// be there when the first message goes out. It does no I/O.
func NewPublisher(cfg Config, topic string) (*Publisher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if topic == "" {
		return nil, tierlock.Invalid("topic", "", "is required")
	}
	cfg = cfg.withDefaults()
	return &Publisher{newWriter(&cfg, topic)}, nil
}

// Publish implements [reconcile.Publisher].
func (p *Publisher) Publish(ctx context.Context, m reconcile.Message) error {
	err := p.write(ctx, kafka.Message{Key: []byte(m.Key), Value: m.Value, Headers: []kafka.Header{
		{Key: HeaderIdempotencyKey, Value: []byte(m.IdempotencyKey)},
		{Key: HeaderAction, Value: []byte(m.Action)},
	}})
	if err != nil {
		return fmt.Errorf("kafkasource: publish to %s: %w", p.w.Topic, err)
	}
	return nil
}

// Close ends the connections. No Publish may be under way.
func (p *Publisher) Close() error { return p.close() }
