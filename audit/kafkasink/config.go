package kafkasink

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/hostport"
)

// The names every part of a system must agree on.
const (
	EventsTopic   = "tierlock.events.v1"
	FindingsTopic = "tierlock.findings.v1"
)

// Config of a [Sink]. Zero means the stated default.
type Config struct {
	Brokers    []string       // host:port; required
	Topic      string         // default EventsTopic
	DLQ        string         // dead letters, default Topic + ".dlq"
	Findings   string         // created beside the others, default FindingsTopic
	Partitions int            // of topics that are created, default 12; existing ones keep theirs
	Replicas   int            // of topics that are created, default the broker's
	Timeout    time.Duration  // of one Send, default 10 s
	MaxMessage int            // bytes of key, value and headers; more is poison; default 1,000,000, under the broker's own 1 MiB for a batch
	ClientID   string         // default "tierlock"
	TLS        *tls.Config    // nil: plain; see TLSFiles
	SASL       sasl.Mechanism // nil: none
	Logger     *slog.Logger   // nil: discard
}

// Validate reports every fault at once.
func (c *Config) Validate() error {
	var faults []error
	refuse := func(field string, value any, rule string) {
		faults = append(faults, tierlock.Invalid("kafka."+field, fmt.Sprint(value), rule))
	}
	if len(c.Brokers) == 0 {
		refuse("brokers", "", "want at least one host:port")
	}
	for _, b := range c.Brokers {
		if !hostport.Valid(b) {
			refuse("brokers", b, hostport.Rule)
		}
	}
	full := c.withDefaults() // a default can clash, or grow too long, as well
	for _, topic := range []struct{ field, name string }{{"topic", full.Topic}, {"dlq", full.DLQ}, {"findings", full.Findings}} {
		told := topic.field == "dlq" && c.DLQ == "" && !topicName(full.Topic)
		if !topicName(topic.name) && !told {
			refuse(topic.field, topic.name, "want 1 to 249 of a-z A-Z 0-9 _ . -")
		}
	}
	if full.DLQ == full.Topic {
		refuse("dlq", full.DLQ, "must not be the topic of the events")
	}
	if full.Findings == full.Topic || full.Findings == full.DLQ {
		refuse("findings", full.Findings, "must not be the topic of the events or of the dead letters")
	}
	if c.Partitions < 0 || c.Partitions > 10000 {
		refuse("partitions", c.Partitions, "want 1 to 10000")
	}
	if c.Replicas < 0 {
		refuse("replicas", c.Replicas, "want at least 1")
	}
	if c.Timeout < 0 {
		refuse("timeout", c.Timeout, "want more than 0")
	}
	if c.MaxMessage < 0 {
		refuse("max_message", c.MaxMessage, "want more than 0")
	}
	return errors.Join(faults...)
}

func topicName(s string) bool {
	if len(s) > 249 || s == "." || s == ".." {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '.' && c != '-' {
			return false
		}
	}
	return s != ""
}

func (c Config) withDefaults() Config {
	c.Topic = cmp.Or(c.Topic, EventsTopic)
	c.DLQ = cmp.Or(c.DLQ, c.Topic+".dlq")
	c.Findings = cmp.Or(c.Findings, FindingsTopic)
	c.Partitions = cmp.Or(c.Partitions, 12)
	c.Replicas = cmp.Or(c.Replicas, -1)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.MaxMessage = cmp.Or(c.MaxMessage, 1_000_000)
	c.ClientID = cmp.Or(c.ClientID, "tierlock")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// TLSFiles names what a broker's TLS needs; every field may be empty.
type TLSFiles struct {
	CA         string // PEM; empty: the system's
	Cert, Key  string // PEM; empty: no client certificate
	ServerName string // empty: the broker's host
}

// Load reads the files. One that cannot be read or holds no PEM is an error that names it.
func (f TLSFiles) Load() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("kafkasink: read certificate authority: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, tierlock.Invalid("kafka.tls.ca", f.CA, "holds no certificate in PEM")
		}
	}
	if f.Cert != "" || f.Key != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("kafkasink: load client certificate: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}
