// Package kafkasource feeds a reconcile job from a Kafka consumer group, and writes
// findings and dead letters to topics of their own. It judges nothing.
package kafkasource

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/tierlock/tierlock/reconcile"
)

// The topics and the group that Tierlock uses unless told otherwise.
const (
	EventsTopic   = "tierlock.events.v1"
	DeadTopic     = "tierlock.events.v1.dlq"
	FindingsTopic = "tierlock.findings.v1"
	Group         = "tierlock-reconcile"
)

// Config of a [Source], [Findings] and [DeadLetters]; each reads the fields it needs.
type Config struct {
	Brokers  []string // host:port; required
	Topic    string   // of the events, default EventsTopic
	Group    string   // default "tierlock-reconcile"
	Findings string   // topic, default FindingsTopic
	Dead     string   // topic, default DeadTopic

	MaxWait  time.Duration // of one fetch, default 500 ms: it also delays rebalance and Close
	Session  time.Duration // the group drops a member after this silence, default 30 s
	Stuck    time.Duration // the member leaves the group when nobody took its records for so long, default 5 min
	ClientID string        // default "tierlock-reconcile"
	TLS      *tls.Config
	SASL     sasl.Mechanism
	Logger   *slog.Logger // nil: discard
}

// Source implements [reconcile.Source].
type Source struct{}

// New checks cfg; it does no I/O. The group is joined by the first Next.
func New(cfg Config) (*Source, error) { return nil, errors.New("kafkasource: not built yet") }

// Next implements [reconcile.Source].
func (s *Source) Next(ctx context.Context) (reconcile.Batch, error) { return reconcile.Batch{}, nil }

// Commit implements [reconcile.Source].
func (s *Source) Commit(ctx context.Context, partition int, next int64, judged time.Time) error {
	return nil
}

// Rewind implements [reconcile.Source].
func (s *Source) Rewind(ctx context.Context, partition int) error { return nil }

// Close leaves the group and waits until all goroutines have ended.
func (s *Source) Close(ctx context.Context) error { return nil }

// Findings implements [reconcile.Findings] with a compacted topic, keyed by finding id.
type Findings struct{}

// NewFindings checks cfg; it does no I/O.
func NewFindings(cfg Config) (*Findings, error) { return nil, errors.New("kafkasource: not built yet") }

// Put implements [reconcile.Findings].
func (f *Findings) Put(ctx context.Context, finding reconcile.Finding) error { return nil }

// Close ends the connections.
func (f *Findings) Close() error { return nil }

// DeadLetters writes records that are no event, each with the reason in a header.
type DeadLetters struct{}

// NewDeadLetters checks cfg; it does no I/O.
func NewDeadLetters(cfg Config) (*DeadLetters, error) {
	return nil, errors.New("kafkasource: not built yet")
}

// Write is a [reconcile.Config].DeadLetter.
func (d *DeadLetters) Write(ctx context.Context, r reconcile.Record, reason error) error { return nil }

// Close ends the connections.
func (d *DeadLetters) Close() error { return nil }
