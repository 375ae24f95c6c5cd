package kafkasource

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock/reconcile"
)

// member keeps the source in its group until it is closed. A group that fails is left and
// joined again.
func (s *Source) member() {
	defer close(s.ended)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with ctx, so with this function at the latest
		defer cancel()
		select {
		case <-s.done:
		case <-ctx.Done():
		}
	}()
	for ctx.Err() == nil {
		if err := s.join(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.WarnContext(ctx, "consumer group left, joining again", "group", s.cfg.Group, "error", err)
			s.pause(ctx, time.Second)
		}
	}
}

// errStuck says that nobody took records for Config.Stuck.
var errStuck = errors.New("kafkasource: records not taken in time")

// join lives through generations of the group, until one fails.
func (s *Source) join(ctx context.Context) error {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: s.cfg.Group, Brokers: s.cfg.Brokers, Dialer: s.cfg.dialer(), Topics: []string{s.cfg.Topic},
		HeartbeatInterval: min(3*time.Second, s.cfg.Session/3), SessionTimeout: s.cfg.Session, RebalanceTimeout: s.cfg.Session,
		JoinGroupBackoff: time.Second, StartOffset: kafka.FirstOffset, WatchPartitionChanges: true, Timeout: s.cfg.Timeout,
	})
	if err != nil {
		return err
	}
	defer group.Close() //nolint:errcheck // it never fails
	for {
		gen, err := group.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			// kafka-go goes on trying by itself, with its own backoff.
			s.cfg.Logger.WarnContext(ctx, "consumer group not joined yet", "group", s.cfg.Group, "error", err)
			continue
		}
		if err := s.generation(ctx, group, gen); err != nil {
			return err
		}
	}
}

// generation serves the partitions of one generation until it ends, and then says that
// they are gone. kafka-go joins the next one only after every reader has ended, so nothing
// of this one can come after the next one's assignment.
func (s *Source) generation(ctx context.Context, group *kafka.ConsumerGroup, gen *kafka.Generation) error {
	over, stuck := make(chan struct{}), make(chan struct{}, 1)
	gen.Start(func(ctx context.Context) { <-ctx.Done(); close(over) })

	marks, lost, err := s.marks(ctx, gen)
	if err != nil {
		s.cfg.Logger.WarnContext(ctx, "committed offsets not read", "group", s.cfg.Group, "error", err)
		return err // closing the group ends the generation
	}
	width, err := s.width(ctx)
	if err != nil {
		s.cfg.Logger.WarnContext(ctx, "number of partitions not known", "topic", s.cfg.Topic, "error", err)
		return err
	}
	s.own(gen, marks)
	if s.announce(over, reconcile.Batch{Assigned: marks, Lost: lost, Width: width}) {
		for _, m := range marks {
			gen.Start(func(ctx context.Context) { s.read(ctx, m, stuck) })
		}
	}
	select {
	case <-over:
	case <-s.done:
		return nil
	}
	s.own(nil, nil)
	select {
	case <-stuck:
		_ = group.Close() // others may have the partitions while our caller is away
		err = errStuck
	default:
	}
	var revoked []int
	for _, m := range marks {
		revoked = append(revoked, m.Partition)
	}
	s.send(ctx, delivery{Batch: reconcile.Batch{Revoked: revoked}, partition: -1})
	return err
}

// announce tells Next what is ours. It is false when the generation was over before
// anybody heard.
func (s *Source) announce(over <-chan struct{}, b reconcile.Batch) bool {
	select {
	case s.out <- delivery{Batch: b, partition: -1}:
		return true
	case <-over:
	case <-s.done:
	}
	return false
}

// own sets what Commit and Rewind may touch.
func (s *Source) own(gen *kafka.Generation, marks []reconcile.Mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gen = gen
	clear(s.seeks)
	for _, m := range marks {
		s.seeks[m.Partition] = 0
	}
}

// marks reads where the partitions of gen were committed, with what Commit has put beside
// the offsets. A partition without a commit begins with its oldest record, and so does one
// that ends before what was read of it: see Loss.Shrunk.
func (s *Source) marks(ctx context.Context, gen *kafka.Generation) (marks []reconcile.Mark, lost []reconcile.Loss, err error) {
	var partitions []int
	for _, a := range gen.Assignments[s.cfg.Topic] {
		partitions = append(partitions, a.ID)
	}
	if len(partitions) == 0 {
		return nil, nil, nil
	}
	slices.Sort(partitions)
	committed, err := s.committed(ctx, gen.GroupID, partitions)
	if err != nil {
		return nil, nil, err
	}
	extents, err := s.extents(ctx, partitions)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range committed {
		m, is := decodeMark(p.Partition, p.CommittedOffset, p.Metadata), extents[p.Partition]
		switch reached := max(m.Offset, m.Read); {
		case p.CommittedOffset < 0:
			m.Offset = is.first
		case reached > is.next:
			m = reconcile.Mark{Partition: p.Partition, Offset: is.first, Read: is.next}
			lost = append(lost, reconcile.Loss{Partition: p.Partition, From: is.next, To: reached, Shrunk: true})
		}
		marks = append(marks, m)
	}
	return marks, lost, nil
}

func (s *Source) committed(ctx context.Context, group string, partitions []int) ([]kafka.OffsetFetchPartition, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	res, err := s.client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{s.cfg.Topic: partitions}})
	if err != nil {
		return nil, err
	}
	if res.Error != nil {
		return nil, res.Error
	}
	for _, p := range res.Topics[s.cfg.Topic] {
		if p.Error != nil {
			return nil, p.Error
		}
	}
	return res.Topics[s.cfg.Topic], nil
}

// width is how many partitions the topic has now: what the pool knows may be older than the
// assignment.
func (s *Source) width(ctx context.Context) (int, error) {
	s.pool.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	res, err := s.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{s.cfg.Topic}})
	if err != nil {
		return 0, err
	}
	for _, t := range res.Topics {
		if t.Name == s.cfg.Topic {
			return len(t.Partitions), t.Error
		}
	}
	return 0, kafka.UnknownTopicOrPartition
}

// extent is the oldest offset of a partition, and the one after its newest.
type extent struct{ first, next int64 }

func (s *Source) extents(ctx context.Context, partitions []int) (map[int]extent, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	var ask []kafka.OffsetRequest
	for _, p := range partitions {
		ask = append(ask, kafka.FirstOffsetOf(p), kafka.LastOffsetOf(p))
	}
	res, err := s.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{s.cfg.Topic: ask}})
	if err != nil {
		return nil, err
	}
	out := map[int]extent{}
	for _, p := range res.Topics[s.cfg.Topic] {
		if p.Error != nil {
			return nil, p.Error
		}
		out[p.Partition] = extent{p.FirstOffset, p.LastOffset}
	}
	for _, p := range partitions {
		if _, told := out[p]; !told {
			return nil, kafka.UnknownTopicOrPartition
		}
	}
	return out, nil
}

// bounds are the oldest offset of a partition, and the one after its newest.
func (s *Source) bounds(ctx context.Context, partition int) (first, next int64, err error) {
	all, err := s.extents(ctx, []int{partition})
	return all[partition].first, all[partition].next, err
}
