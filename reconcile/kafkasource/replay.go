package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/segmentio/kafka-go"
)

// HeaderReplayed marks an event that came out of the dead letters: <partition>/<offset>
// there. A job takes such an event whatever its producer has sent since.
const HeaderReplayed = "Tierlock-Replayed"

// Replay brings dead letters back to the topic that they were meant for, once whatever
// could not read or take them has been mended. Key, value and headers stay, so events keep
// their ids, and the findings made of them too.
type Replay struct {
	cfg    Config
	client *kafka.Client
	pool   *kafka.Transport
}

// Letter is one dead letter.
type Letter struct {
	Partition int    `json:"partition"` // of the dead letters
	Offset    int64  `json:"offset"`
	To        int    `json:"to"`              // partition of the events
	Reason    string `json:"reason"`          // why it became one
	Class     string `json:"class,omitempty"` // of the reason: see [DeadLetters] and package audit
	Fault     string `json:"fault,omitempty"`
	value     kafka.Record
	key, body []byte
}

// Replayed counts letters.
type Replayed struct {
	Letters  int `json:"letters"`  // looked at
	Good     int `json:"good"`     // can be read now
	Replayed int `json:"replayed"` // written back
	Bad      int `json:"bad"`      // as bad as before: they stay
}

// NewReplay checks cfg: it reads Topic, Dead, Group and how to reach the brokers. It does no
// I/O.
func NewReplay(cfg Config) (*Replay, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	pool := cfg.transport(cfg.Topic, cfg.Dead)
	return &Replay{cfg: cfg, pool: pool, client: &kafka.Client{Addr: kafka.TCP(cfg.Brokers...), Transport: pool, Timeout: cfg.Timeout}}, nil
}

// Run looks at every letter that was there when it began, oldest first, from the first one
// that an earlier run has left. try says whether a letter can be read now; bad ones are
// told to each and stay. With apply the good ones are written back, acknowledged by all
// in-sync replicas.
//
// Where a run ended is kept as a commit of the group <Group>-dlq, below the first letter
// that was still bad: what lies behind that one comes again with the next run, which a job
// takes for one event.
func (r *Replay) Run(ctx context.Context, apply bool, try func(value []byte) error, each func(Letter)) (sum Replayed, err error) {
	meta, err := r.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{r.cfg.Dead}})
	if err != nil {
		return sum, fmt.Errorf("kafkasource: replay: %w", err)
	}
	if len(meta.Topics) != 1 || meta.Topics[0].Error != nil {
		return sum, fmt.Errorf("kafkasource: replay: topic %s: %w", r.cfg.Dead, kafka.UnknownTopicOrPartition)
	}
	for _, p := range meta.Topics[0].Partitions {
		if err := r.partition(ctx, p.ID, apply, try, each, &sum); err != nil {
			return sum, fmt.Errorf("kafkasource: replay %s/%d: %w", r.cfg.Dead, p.ID, err)
		}
	}
	return sum, nil
}

// Close ends the connections. No Run may be under way.
func (r *Replay) Close() error {
	r.pool.CloseIdleConnections()
	return nil
}

// partition replays one partition of the dead letters.
func (r *Replay) partition(ctx context.Context, partition int, apply bool, try func([]byte) error, each func(Letter), sum *Replayed) error {
	from, end, err := r.bounds(ctx, partition)
	if err != nil {
		return err
	}
	done := from // below it nothing is left to do
	for next := from; next < end; {
		letters, after, err := r.fetch(ctx, partition, next, end)
		if err != nil {
			return err
		}
		for i := range letters {
			l := &letters[i]
			fault, err := r.one(ctx, l, apply, try, sum)
			if err != nil {
				return errors.Join(err, r.commit(ctx, partition, from, done, apply))
			}
			if fault != nil {
				l.Fault = fault.Error()
				sum.Bad++
			} else if done == l.Offset {
				done++
			}
			each(*l)
		}
		if len(letters) == 0 && done == next { // what lay between is gone
			done = after
		}
		next = after
	}
	return r.commit(ctx, partition, from, done, apply)
}

// one looks at a letter. fault says why it stays, err why nothing can go on.
func (r *Replay) one(ctx context.Context, l *Letter, apply bool, try func([]byte) error, sum *Replayed) (fault, err error) {
	sum.Letters++
	if l.Fault != "" {
		return errors.New(l.Fault), nil
	}
	if err := try(l.body); err != nil {
		return err, nil
	}
	sum.Good++
	if !apply {
		return nil, nil
	}
	headers := []kafka.Header{{Key: HeaderReplayed, Value: fmt.Appendf(nil, "%d/%d", l.Partition, l.Offset)}}
	for _, h := range l.value.Headers {
		switch h.Key {
		case headerReason, headerClass, headerAttempts, headerTopic, headerPartition, headerOffset, headerSize, HeaderReplayed:
		default:
			headers = append(headers, h)
		}
	}
	res, err := r.client.Produce(ctx, &kafka.ProduceRequest{
		Topic: r.cfg.Topic, Partition: l.To, RequiredAcks: kafka.RequireAll,
		Records: kafka.NewRecordReader(kafka.Record{Key: kafka.NewBytes(l.key), Value: kafka.NewBytes(l.body), Headers: headers}),
	})
	if err == nil {
		err = res.Error
	}
	switch {
	case errors.Is(err, kafka.MessageSizeTooLarge) || errors.Is(err, kafka.RecordListTooLarge) || errors.Is(err, kafka.InvalidRecord):
		return err, nil // the broker still refuses it
	case err != nil:
		return nil, err
	}
	sum.Replayed++
	return nil, nil
}

// fetch reads some letters from next on, and where to go on.
func (r *Replay) fetch(ctx context.Context, partition int, next, end int64) (letters []Letter, after int64, err error) {
	fetch, cancel := context.WithTimeout(ctx, r.cfg.MaxWait+r.cfg.Timeout)
	defer cancel()
	res, err := r.client.Fetch(fetch, &kafka.FetchRequest{
		Topic: r.cfg.Dead, Partition: partition, Offset: next, MinBytes: 1, MaxBytes: maxBytes, MaxWait: r.cfg.MaxWait,
	})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return nil, 0, err
	}
	if closer, ok := res.Records.(io.Closer); ok {
		defer closer.Close()
	}
	after = next
	for {
		rec, err := res.Records.ReadRecord()
		if errors.Is(err, io.EOF) || err != nil && after > next {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		l := Letter{Partition: partition, Offset: rec.Offset, value: *rec}
		if l.key, err = kafka.ReadAll(rec.Key); err == nil {
			l.body, err = kafka.ReadAll(rec.Value)
		}
		if err != nil {
			return nil, 0, err
		}
		if rec.Offset < next || rec.Offset >= end {
			after = max(after, min(rec.Offset+1, end))
			continue
		}
		l.address(r.cfg.Topic)
		letters, after = append(letters, l), rec.Offset+1
	}
	if after == next { // the rest of the partition holds no letters
		after = end
	}
	return letters, after, nil
}

// The headers of a dead letter, as [DeadLetters] and the forwarder write them.
const (
	headerReason    = "reason"
	headerClass     = "class"    // of the reason, in a word
	headerAttempts  = "attempts" // how often it had been tried by then
	headerSize      = "size"     // of the value, where it is left out
	headerTopic     = "topic"
	headerPartition = "partition"
	headerOffset    = "offset"
)

// address reads where the letter was meant to go.
func (l *Letter) address(topic string) {
	to, told := "", ""
	for _, h := range l.value.Headers {
		switch h.Key {
		case headerReason:
			l.Reason = string(h.Value)
		case headerClass:
			l.Class = string(h.Value)
		case headerTopic:
			to = string(h.Value)
		case headerPartition:
			told = string(h.Value)
		}
	}
	n, err := strconv.ParseUint(told, 10, 31)
	l.To = int(n)
	switch {
	case to != topic:
		l.Fault = fmt.Sprintf("it was meant for topic %q", to)
	case err != nil:
		l.Fault = fmt.Sprintf("its header partition is %q", told)
	}
}

func (r *Replay) group() string { return r.cfg.Group + "-dlq" }

// bounds are where to begin, after what an earlier run has done, and the end as it is now.
func (r *Replay) bounds(ctx context.Context, partition int) (from, end int64, err error) {
	res, err := r.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{r.cfg.Dead: {kafka.FirstOffsetOf(partition), kafka.LastOffsetOf(partition)}},
	})
	if err != nil {
		return 0, 0, err
	}
	for _, p := range res.Topics[r.cfg.Dead] {
		if p.Partition == partition {
			from, end, err = p.FirstOffset, p.LastOffset, p.Error
		}
	}
	if err != nil {
		return 0, 0, err
	}
	was, err := r.client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: r.group(), Topics: map[string][]int{r.cfg.Dead: {partition}}})
	if err == nil && !errors.Is(was.Error, kafka.GroupIdNotFound) { // as long as nobody has committed
		err = was.Error
	}
	if err != nil {
		return 0, 0, err
	}
	for _, p := range was.Topics[r.cfg.Dead] {
		if p.Partition == partition && p.Error == nil {
			from = max(from, p.CommittedOffset)
		}
	}
	return from, end, nil
}

func (r *Replay) commit(ctx context.Context, partition int, from, done int64, apply bool) error {
	if !apply || done <= from {
		return nil
	}
	res, err := r.client.OffsetCommit(context.WithoutCancel(ctx), &kafka.OffsetCommitRequest{
		GroupID: r.group(), GenerationID: -1, // no member: nobody else is in this group
		Topics: map[string][]kafka.OffsetCommit{r.cfg.Dead: {{Partition: partition, Offset: done}}},
	})
	if err != nil {
		return err
	}
	for _, p := range res.Topics[r.cfg.Dead] {
		if p.Error != nil {
			return p.Error
		}
	}
	return nil
}

// replayed tells whether a record came out of the dead letters.
func replayed(headers []kafka.Header) bool {
	for _, h := range headers {
		if h.Key == HeaderReplayed {
			return true
		}
	}
	return false
}
