package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock/audit"
)

// Sink implements [audit.Sink]. All methods may be called at once from any goroutine.
type Sink struct {
	cfg       Config
	addr      net.Addr
	transport *kafka.Transport
	client    *kafka.Client
	dead      atomic.Int64 // partitions of the dead-letter topic; zero: not known
}

var _ audit.Sink = (*Sink)(nil)

// New checks cfg; it does no I/O.
func New(cfg Config) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	transport := &kafka.Transport{
		ClientID: cfg.ClientID, TLS: cfg.TLS, SASL: cfg.SASL,
		DialTimeout: min(cfg.Timeout, 5*time.Second),
		// Without a list, the metadata of every topic of the cluster would be fetched.
		MetadataTopics: []string{cfg.Topic, cfg.DLQ, cfg.Findings},
	}
	addr := kafka.TCP(cfg.Brokers...)
	return &Sink{
		cfg: cfg, addr: addr, transport: transport,
		client: &kafka.Client{Addr: addr, Timeout: cfg.Timeout, Transport: transport},
	}, nil
}

// Close ends the connections. No Send may be under way.
func (s *Sink) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// Send implements [audit.Sink]. It tries once, waits for all replicas in sync (acks=all)
// and returns soon after ctx ends. Messages of one partition go in one batch; partitions
// go side by side.
func (s *Sink) Send(ctx context.Context, msgs []audit.Message) []error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	errs := make([]error, len(msgs))
	var group sync.WaitGroup
	for to, part := range s.split(msgs, errs) {
		group.Go(func() { s.deliver(ctx, to, msgs, part, errs) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, audit.ErrPoison) {
			s.refresh()
			break
		}
	}
	return errs
}

// refresh makes the next call ask who leads which partition: kafka-go itself would go on
// asking the former leader until its timer fires (kafka-go#1413).
func (s *Sink) refresh() { s.transport.CloseIdleConnections() }

// target is one partition of one topic.
type target struct {
	topic     string
	partition int
}

// split sorts messages by target, in order, and refuses those that are too large before
// anything is written.
func (s *Sink) split(msgs []audit.Message, errs []error) map[target][]int {
	parts := map[target][]int{}
	for i := range msgs {
		m := &msgs[i]
		to, most := target{s.cfg.Topic, m.Partition}, s.cfg.MaxMessage
		if m.Dead != "" {
			to, most = target{s.cfg.DLQ, m.Partition % int(max(s.dead.Load(), 1))}, max(most, deadMessageBytes/2)
		}
		if size := sizeOf(m); size > most {
			errs[i] = fmt.Errorf("%w: %d of %d bytes", audit.ErrTooLarge, size, most)
			continue
		}
		parts[to] = append(parts[to], i)
	}
	return parts
}

func sizeOf(m *audit.Message) int {
	n := len(m.Key) + len(m.Value) + len(m.Dead)
	for _, h := range m.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// deliver writes part as one batch. What the broker refuses for good is narrowed down by
// halves, in order, until the poison is alone; any other error is that of all the rest.
func (s *Sink) deliver(ctx context.Context, to target, msgs []audit.Message, part []int, errs []error) (ok bool) {
	err := s.produce(ctx, to, msgs, part)
	switch {
	case err == nil:
		return true
	case !poison(err):
		for _, i := range part {
			errs[i] = err
		}
		return false
	case len(part) == 1:
		never := audit.ErrPoison
		if errors.Is(err, kafka.MessageSizeTooLarge) || errors.Is(err, kafka.RecordListTooLarge) {
			never = audit.ErrTooLarge
		}
		errs[part[0]] = fmt.Errorf("%w: %w", never, err)
		return true
	}
	half := len(part) / 2
	if !s.deliver(ctx, to, msgs, part[:half], errs) {
		for _, i := range part[half:] {
			errs[i] = errs[part[0]]
			if errs[i] == nil || errors.Is(errs[i], audit.ErrPoison) {
				errs[i] = errBefore
			}
		}
		return false
	}
	return s.deliver(ctx, to, msgs, part[half:], errs)
}

var errBefore = errors.New("kafkasink: an earlier message of the partition was not delivered")

// poison tells whether the broker will never take the batch. Everything else, even a
// refused login, may be put right while the events wait on the disk. So may a clock: each
// try is stamped anew, and a broker refuses what comes from more than an hour ahead.
func poison(err error) bool {
	for _, never := range []kafka.Error{kafka.MessageSizeTooLarge, kafka.RecordListTooLarge, kafka.InvalidRecord} {
		if errors.Is(err, never) {
			return true
		}
	}
	return false
}

func (s *Sink) produce(ctx context.Context, to target, msgs []audit.Message, part []int) error {
	records := make([]kafka.Record, len(part))
	for i, n := range part {
		m := &msgs[n]
		records[i] = kafka.Record{Key: kafka.NewBytes(m.Key), Value: kafka.NewBytes(m.Value), Headers: s.headers(m)}
	}
	res, err := s.client.Produce(ctx, &kafka.ProduceRequest{
		Topic: to.topic, Partition: to.partition, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...),
	})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return fmt.Errorf("kafkasink: produce to %s/%d: %w", to.topic, to.partition, err)
	}
	return nil
}

// headers adds to a dead letter why it is one and where it was to go.
func (s *Sink) headers(m *audit.Message) []kafka.Header {
	all := make([]kafka.Header, 0, len(m.Headers)+5)
	for _, h := range m.Headers {
		all = append(all, kafka.Header{Key: h.Key, Value: h.Value})
	}
	if m.Dead != "" {
		all = append(all,
			kafka.Header{Key: "reason", Value: []byte(m.Dead)},
			kafka.Header{Key: "class", Value: []byte(m.DeadClass)},
			kafka.Header{Key: "attempts", Value: strconv.AppendInt(nil, int64(m.Attempts), 10)},
			kafka.Header{Key: "topic", Value: []byte(s.cfg.Topic)},
			kafka.Header{Key: "partition", Value: strconv.AppendInt(nil, int64(m.Partition), 10)})
	}
	return all
}
