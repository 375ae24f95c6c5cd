// Package kafkasource FEEDS a reconcile job from a Kafka consumer group, and writes its
// findings and dead letters to topics of their own. It judges nothing and parses nothing.
//
// It uses kafka-go's ConsumerGroup and not its Reader: a Reader keeps prefetched messages
// across a rebalance, tells nobody that a partition is gone, commits for partitions it has
// lost, and passes over records that retention took without a word.
package kafkasource

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/hostport"
)

// The topics and the group that Tierlock uses unless told otherwise.
const (
	EventsTopic   = "tierlock.events.v1"
	DeadTopic     = "tierlock.events.v1.dlq"
	FindingsTopic = "tierlock.findings.v1"
	DefaultGroup  = "tierlock-reconcile"
)

// Config of a [Source], [Findings] and [DeadLetters]; each reads the fields it needs.
type Config struct {
	Brokers  []string // host:port; required
	Topic    string   // of the events, default EventsTopic
	Group    string   // default DefaultGroup
	Findings string   // topic, default FindingsTopic
	Dead     string   // topic, default DeadTopic

	// MaxWait of one fetch, default 500 ms. A rebalance and Close wait for it too.
	MaxWait time.Duration
	// Session is the silence after which the group drops a member, default 30 s.
	Session time.Duration
	// Stuck is how long records may wait for somebody to take them, or for a sign of work
	// ([Source.Working]), default 5 min. Then the
	// member leaves the group, so that another may have its partitions; the next Next joins
	// again.
	Stuck time.Duration
	// Timeout of one write or one question, default 10 s.
	Timeout time.Duration

	ClientID string // default "tierlock-reconcile"
	TLS      *tls.Config
	SASL     sasl.Mechanism
	Logger   *slog.Logger // nil: discard
}

// Validate reports every bad field at once.
func (c *Config) Validate() error {
	var errs []error
	if len(c.Brokers) == 0 {
		errs = append(errs, tierlock.Invalid("brokers", "", "want at least one host:port"))
	}
	for _, b := range c.Brokers {
		if !hostport.Valid(b) {
			errs = append(errs, tierlock.Invalid("brokers", b, hostport.Rule))
		}
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"max_wait", c.MaxWait}, {"session", c.Session}, {"stuck", c.Stuck}, {"timeout", c.Timeout}} {
		if d.value < 0 {
			errs = append(errs, tierlock.Invalid(d.field, d.value.String(), "want a duration of zero (the default) or more"))
		}
	}
	if c.Session > 0 && c.Session < 6*time.Second {
		errs = append(errs, tierlock.Invalid("session", c.Session.String(), "want 6s or more: brokers refuse less"))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	text := func(v *string, otherwise string) {
		if *v == "" {
			*v = otherwise
		}
	}
	text(&c.Topic, EventsTopic)
	text(&c.Group, DefaultGroup)
	text(&c.Findings, FindingsTopic)
	text(&c.Dead, DeadTopic)
	text(&c.ClientID, DefaultGroup)
	wait := func(v *time.Duration, otherwise time.Duration) {
		if *v == 0 {
			*v = otherwise
		}
	}
	wait(&c.MaxWait, 500*time.Millisecond)
	wait(&c.Session, 30*time.Second)
	wait(&c.Stuck, 5*time.Minute)
	wait(&c.Timeout, 10*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// transport is one pool of connections; its owner closes it, since kafka-go never does.
func (c *Config) transport(topics ...string) *kafka.Transport {
	return &kafka.Transport{
		ClientID: c.ClientID, TLS: c.TLS, SASL: c.SASL, DialTimeout: 3 * time.Second, MetadataTopics: topics,
	}
}

func (c *Config) dialer() *kafka.Dialer {
	return &kafka.Dialer{ClientID: c.ClientID, TLS: c.TLS, SASLMechanism: c.SASL, Timeout: 3 * time.Second, DualStack: true}
}
