package kafkasource

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock/reconcile"
)

// Source implements [reconcile.Source]: one member of a consumer group. Next, Commit and
// Rewind belong to one goroutine; Close may be called from another.
type Source struct {
	cfg    Config
	client *kafka.Client
	pool   *kafka.Transport
	out    chan delivery // unbuffered: what is not taken is not prefetched for a partition we lose

	start  sync.Once
	finish sync.Once
	done   chan struct{} // closed by Close
	ended  chan struct{} // closed when the member goroutine has ended

	mu    sync.Mutex
	sign  time.Time         // of work, the last
	gen   *kafka.Generation // nil between generations
	seeks map[int]int       // owned partition → how often it was rewound
}

// delivery is a batch on its way to Next; stale ones are dropped there.
type delivery struct {
	reconcile.Batch
	partition int // -1: of no single one
	seek      int // how often the partition had been rewound when this was read
}

// New checks cfg; it does no I/O. The first Next joins the group.
func New(cfg Config) (*Source, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	pool := cfg.transport(cfg.Topic)
	return &Source{
		cfg: cfg, pool: pool, out: make(chan delivery), done: make(chan struct{}), ended: make(chan struct{}), seeks: map[int]int{},
		client: &kafka.Client{Addr: kafka.TCP(cfg.Brokers...), Transport: pool},
	}, nil
}

// Next implements [reconcile.Source]. It is io.EOF after Close.
func (s *Source) Next(ctx context.Context) (reconcile.Batch, error) {
	s.start.Do(func() { go s.member() })
	for {
		select {
		case d := <-s.out:
			if d.partition >= 0 && !s.current(d) {
				continue
			}
			return d.Batch, nil
		case <-ctx.Done():
			return reconcile.Batch{}, ctx.Err()
		case <-s.done:
			return reconcile.Batch{}, io.EOF
		}
	}
}

// Working implements [reconcile.Worker].
func (s *Source) Working() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sign = time.Now()
}

// patience is how much longer nobody has to take what is handed out.
func (s *Source) patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.sign.Add(s.cfg.Stuck))
}

func (s *Source) current(d delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seek, owned := s.seeks[d.partition]
	return owned && seek == d.seek
}

// Commit implements [reconcile.Source]. The broker checks the member but not whether the
// partition is its own, so that is checked here. A generation that is over says nothing.
func (s *Source) Commit(ctx context.Context, m reconcile.Mark) error {
	s.mu.Lock()
	gen := s.gen
	_, owned := s.seeks[m.Partition]
	s.mu.Unlock()
	if gen == nil || !owned {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	res, err := s.client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: gen.GroupID, GenerationID: int(gen.ID), MemberID: gen.MemberID,
		Topics: map[string][]kafka.OffsetCommit{s.cfg.Topic: {{Partition: m.Partition, Offset: m.Offset, Metadata: encodeMark(m)}}},
	})
	if err != nil {
		return err
	}
	for _, p := range res.Topics[s.cfg.Topic] {
		if over(p.Error) {
			return nil
		}
		if p.Error != nil {
			return p.Error
		}
	}
	return nil
}

// over tells whether err says that our generation is.
func over(err error) bool {
	return errors.Is(err, kafka.IllegalGeneration) || errors.Is(err, kafka.UnknownMemberId) || errors.Is(err, kafka.RebalanceInProgress)
}

// Rewind implements [reconcile.Source].
func (s *Source) Rewind(_ context.Context, partition int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, owned := s.seeks[partition]; owned {
		s.seeks[partition]++
	}
	return nil
}

// Close leaves the group and waits, within ctx, until all goroutines have ended.
func (s *Source) Close(ctx context.Context) error {
	s.finish.Do(func() { close(s.done) })
	s.start.Do(func() { close(s.ended) }) // it never began
	defer s.pool.CloseIdleConnections()
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send hands a batch to Next. It is false when ctx or the source ended first.
func (s *Source) send(ctx context.Context, d delivery) bool {
	select {
	case s.out <- d:
		return true
	case <-ctx.Done():
	case <-s.done:
	}
	return false
}

// closing tells whether Close has been called.
func (s *Source) closing() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// pause waits for d, or until ctx or the source ends.
func (s *Source) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-s.done:
	}
}
