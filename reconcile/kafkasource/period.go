package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/reconcile"
)

// Period is a closed [reconcile.Source]: what the partitions held when it was opened, from
// a point in time on, read once and then io.EOF. It joins no group and commits nothing, so
// it takes nothing away from a job that runs. It belongs to one goroutine; it holds one
// fetch of one partition at a time.
type Period struct {
	cfg    PeriodConfig
	client *kafka.Client
	pool   *kafka.Transport
	opened time.Time
	told   bool // the assignment has been handed out
	spans  []Span
	next   []int64 // by place in spans: the offset to read
	empty  []int   // answers without a record in a row
	turn   int     // whose turn it is
}

// PeriodConfig of a [Period]. Group, Session, Stuck, Findings and Dead of Config are not read.
type PeriodConfig struct {
	Config
	From       time.Time // records appended before are passed over; zero: from the oldest there is
	Partitions []int     // nil: all of the topic
}

// Span is what a [Period] reads of one partition: From ≤ offset < To.
type Span struct {
	Partition int
	Oldest    int64     // the oldest record there was
	From, To  int64     // equal: nothing
	Begins    time.Time // when the first record was appended; zero: none was read yet
}

// NewPeriod checks cfg; it does no I/O.
func NewPeriod(cfg PeriodConfig) (*Period, error) {
	errs := []error{cfg.Validate()}
	for _, p := range cfg.Partitions {
		if p < 0 {
			errs = append(errs, tierlock.Invalid("partitions", fmt.Sprint(p), "want zero or more"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	cfg.Config = cfg.withDefaults()
	pool := cfg.transport(cfg.Topic)
	return &Period{cfg: cfg, pool: pool, client: &kafka.Client{Addr: kafka.TCP(cfg.Brokers...), Transport: pool}}, nil
}

// Close drops the connections.
func (p *Period) Close() error {
	p.pool.CloseIdleConnections()
	return nil
}

// Spans tells what is read of each partition, by partition. It is empty before Open.
func (p *Period) Spans() []Span { return slices.Clone(p.spans) }

// Open asks the brokers where the partitions begin and end now; what is appended later is
// not read. The first Next does it where nobody has.
func (p *Period) Open(ctx context.Context) error {
	if p.spans != nil {
		return nil
	}
	opened := time.Now()
	partitions := p.cfg.Partitions
	if partitions == nil {
		var err error
		if partitions, err = p.partitions(ctx); err != nil {
			return err
		}
	}
	var spans []Span
	for _, partition := range partitions {
		s, err := p.bounds(ctx, partition)
		if err != nil {
			return err
		}
		spans = append(spans, s)
	}
	slices.SortFunc(spans, func(a, b Span) int { return a.Partition - b.Partition })
	p.opened, p.spans, p.next, p.empty = opened, spans, make([]int64, len(spans)), make([]int, len(spans))
	for i, s := range spans {
		p.next[i] = s.From
	}
	return nil
}

// Next implements [reconcile.Source]: partitions take turns.
func (p *Period) Next(ctx context.Context) (reconcile.Batch, error) {
	if err := p.Open(ctx); err != nil {
		return reconcile.Batch{}, err
	}
	if !p.told {
		return p.assign(), nil
	}
	for range p.spans {
		i := p.turn % len(p.spans)
		p.turn++
		if p.next[i] < p.spans[i].To {
			return p.step(ctx, i)
		}
	}
	return reconcile.Batch{}, io.EOF
}

// assign hands out all partitions; those with nothing to read are caught up at once.
func (p *Period) assign() reconcile.Batch {
	p.told = true
	b := reconcile.Batch{AsOf: p.opened}
	for _, s := range p.spans {
		b.Assigned = append(b.Assigned, reconcile.Mark{Partition: s.Partition, Offset: s.From})
		if s.From >= s.To {
			b.CaughtUp = append(b.CaughtUp, s.Partition)
		}
	}
	return b
}

// mostEmpty is how many answers in a row may bring nothing of a range that should hold
// records, before it is told to be lost.
const mostEmpty = 20

// step fetches once.
func (p *Period) step(ctx context.Context, i int) (b reconcile.Batch, err error) {
	s := p.spans[i]
	var records []reconcile.Record
	out := false
	err = p.insist(ctx, func(ctx context.Context) error {
		records, out, err = p.fetch(ctx, s.Partition, p.next[i])
		return err
	})
	if err != nil {
		return b, fmt.Errorf("kafkasource: partition %d at %d: %w", s.Partition, p.next[i], err)
	}
	from, next := p.next[i], p.next[i]
	if len(records) > 0 {
		if s.Begins.IsZero() && from == s.From {
			p.spans[i].Begins = records[0].Time.UTC()
		}
		next, p.empty[i] = min(records[len(records)-1].Offset+1, s.To), 0
	} else {
		p.empty[i]++
	}
	for _, r := range records {
		if r.Offset < s.To {
			b.Records = append(b.Records, r)
		}
	}
	if out || p.empty[i] >= mostEmpty { // retention was faster, or the range is hollow
		next = s.To
		if out {
			first, _, err := (&Source{cfg: p.cfg.Config, client: p.client}).bounds(ctx, s.Partition)
			if err != nil {
				return b, err
			}
			if next = min(first, s.To); next <= from { // nor is there anything later: the log was cut off
				next = s.To
			}
		}
		if next > from {
			b.Lost = []reconcile.Loss{{Partition: s.Partition, From: from, To: next}}
		}
	}
	p.next[i] = next
	if next >= s.To {
		b.CaughtUp, b.AsOf = []int{s.Partition}, p.opened
	}
	return b, nil
}

// fetch asks for one partition's records from offset on. out: they are not there any more.
func (p *Period) fetch(ctx context.Context, partition int, offset int64) (records []reconcile.Record, out bool, err error) {
	res, err := p.client.Fetch(ctx, &kafka.FetchRequest{
		Topic: p.cfg.Topic, Partition: partition, Offset: offset, MinBytes: 1, MaxBytes: maxBytes, MaxWait: p.cfg.MaxWait,
	})
	if err != nil {
		return nil, false, err
	}
	if closer, ok := res.Records.(io.Closer); ok {
		defer closer.Close()
	}
	if errors.Is(res.Error, kafka.OffsetOutOfRange) {
		return nil, true, nil
	}
	if res.Error != nil {
		return nil, false, res.Error
	}
	records, err = (&reader{partition: partition, offset: offset}).records(res.Records)
	return records, false, err
}

// Commit implements [reconcile.Source]; there is nothing to commit.
func (p *Period) Commit(context.Context, reconcile.Mark) error { return nil }

// Rewind implements [reconcile.Source]: the partition comes again from its From.
func (p *Period) Rewind(_ context.Context, partition int) error {
	for i, s := range p.spans {
		if s.Partition == partition {
			p.next[i], p.empty[i] = s.From, 0
		}
	}
	return nil
}

// partitions lists those of the topic.
func (p *Period) partitions(ctx context.Context) (ids []int, err error) {
	err = p.insist(ctx, func(ctx context.Context) error {
		ids = nil
		res, err := p.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{p.cfg.Topic}})
		if err != nil {
			return err
		}
		for _, t := range res.Topics {
			if t.Error != nil {
				return t.Error
			}
			for _, part := range t.Partitions {
				ids = append(ids, part.ID)
			}
		}
		return nil
	})
	if err == nil && len(ids) == 0 {
		err = kafka.UnknownTopicOrPartition
	}
	if err != nil {
		return nil, fmt.Errorf("kafkasource: topic %s: %w", p.cfg.Topic, err)
	}
	return ids, nil
}

// bounds asks where to begin and to end in one partition.
func (p *Period) bounds(ctx context.Context, partition int) (s Span, err error) {
	s.Partition = partition
	err = p.insist(ctx, func(ctx context.Context) error {
		s.Oldest, s.To, err = (&Source{cfg: p.cfg.Config, client: p.client}).bounds(ctx, partition)
		if err != nil || s.Oldest == s.To {
			s.From = s.To
			return err
		}
		at := p.cfg.From
		if at.Before(time.UnixMilli(0)) {
			at = time.UnixMilli(0)
		}
		res, err := p.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
			Topics: map[string][]kafka.OffsetRequest{p.cfg.Topic: {kafka.TimeOffsetOf(partition, at)}},
		})
		if err != nil {
			return err
		}
		s.From = s.To
		for _, o := range res.Topics[p.cfg.Topic] {
			if o.Error != nil {
				return o.Error
			}
			for offset := range o.Offsets {
				if offset >= 0 && offset < s.To { // else none is so young: nothing to read
					s.From = offset
				}
			}
		}
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("kafkasource: partition %d of %s: %w", partition, p.cfg.Topic, err)
	}
	return s, nil
}

// insist tries again what a broker that moves or restarts may refuse, ten times in about
// half a minute.
func (p *Period) insist(ctx context.Context, do func(context.Context) error) error {
	const tries = 10
	wait := 100 * time.Millisecond
	for try := 1; ; try++ {
		within, cancel := context.WithTimeout(ctx, p.cfg.MaxWait+p.cfg.Timeout)
		err := do(within)
		cancel()
		if err == nil || ctx.Err() != nil || try == tries {
			return err
		}
		p.cfg.Logger.WarnContext(ctx, "broker did not answer, trying again", "try", try, "wait", wait, "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		wait = min(2*wait, 5*time.Second)
	}
}
