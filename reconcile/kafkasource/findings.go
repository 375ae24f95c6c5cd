package kafkasource

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock/reconcile"
)

// Findings implements [reconcile.Findings] with a compacted topic. A message's key is the
// finding's id, its revision and the stage of its state, as "id/revision/stage": Kafka keeps
// the last message of a key, and a member that has lost its partition without knowing it may
// write an older revision last. So every revision stays, in the partition of its id, and a
// reader keeps of each id what [reconcile.Finding.Replaces] says, whatever the order.
//
// A finding that is too large for a message is told by both ends of its members and repairs;
// see [reconcile.Finding.Omitted].
type Findings struct {
	cfg  Config
	most int // bytes of a value that the topic is known not to refuse
	writer
}

// mostFinding keeps a message under the default limit of a broker, 1 MiB.
const mostFinding = 900 << 10

// NewFindings checks cfg; it does no I/O.
func NewFindings(cfg Config) (*Findings, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	f := &Findings{cfg: cfg, most: mostFinding, writer: newWriter(&cfg, cfg.Findings)}
	f.w.Balancer = kafka.BalancerFunc(byFinding)
	return f, nil
}

// findingKey names one telling of a finding.
func findingKey(f *reconcile.Finding) []byte {
	return fmt.Appendf(nil, "%s/%d/%d", f.ID, f.Revision, f.State.Stage())
}

// byFinding puts all that is told of a finding into one partition.
func byFinding(m kafka.Message, partitions ...int) int {
	m.Key, _, _ = bytes.Cut(m.Key, []byte("/"))
	return kafka.Murmur2Balancer{}.Balance(m, partitions...)
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

// leastFinding is below what any topic is made with.
const leastFinding = 1 << 10

// Put implements [reconcile.Findings]. What the topic refuses as too large is told in half as
// much: a finding that is refused for ever would hold up its partition for ever.
func (f *Findings) Put(ctx context.Context, finding reconcile.Finding) error {
	for {
		value, err := within(finding, f.most)
		if err != nil {
			return fmt.Errorf("kafkasource: encode finding: %w", err)
		}
		err = f.write(ctx, kafka.Message{Key: findingKey(&finding), Value: value})
		if tooLarge(err) && f.most > leastFinding {
			f.most = max(min(f.most, len(value))/2, leastFinding)
			f.cfg.Logger.WarnContext(ctx, "finding is too large for its topic, telling less of it",
				"topic", f.cfg.Findings, "finding", finding.ID, "bytes", len(value), "most", f.most)
			continue
		}
		if err != nil {
			return fmt.Errorf("kafkasource: write finding: %w", err)
		}
		return nil
	}
}

// Close ends the connections. No Put may be under way.
func (f *Findings) Close() error { return f.close() }

func tooLarge(err error) bool {
	if of, many := errors.AsType[kafka.WriteErrors](err); many { // which unwraps to none of its own
		return slices.ContainsFunc(of, tooLarge)
	}
	return errors.Is(err, kafka.MessageSizeTooLarge) || errors.Is(err, kafka.RecordListTooLarge)
}

// within encodes a finding in so many bytes, or as few as it can be told in.
func within(f reconcile.Finding, most int) ([]byte, error) {
	value, err := json.Marshal(f)
	for keep := min(max(len(f.Members), len(f.Repairs)), 1024); err == nil && len(value) > most && keep > 1; keep /= 2 {
		value, err = json.Marshal(f.Brief(keep, true))
		if err == nil && len(value) > most && keep < 64 { // ids alone may be too much
			value, err = json.Marshal(f.Brief(keep, false))
		}
	}
	return value, err
}
