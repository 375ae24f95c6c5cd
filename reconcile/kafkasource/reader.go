package kafkasource

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock/reconcile"
)

// maxBytes bounds one fetch of one partition, and so what a reader holds in memory.
const maxBytes = 4 << 20

// repeat is how often a reader says again that there is nothing more to read.
const repeat = time.Second

// reader reads one partition in one generation.
type reader struct {
	s         *Source
	partition int
	offset    int64     // next to read
	seek      int       // how often it has been rewound
	told      time.Time // when it was told last that there is nothing more to read
	stuck     chan<- struct{}
}

// read is the goroutine of one partition: it ends with the generation, or ends it.
func (s *Source) read(ctx context.Context, m reconcile.Mark, stuck chan<- struct{}) {
	r := &reader{s: s, partition: m.Partition, offset: m.Offset, stuck: stuck}
	for wait := time.Duration(0); ctx.Err() == nil && !s.closing(); {
		err := r.follow(ctx)
		if err == nil {
			err = r.step(ctx)
		}
		switch {
		case err == nil:
			wait = 0
		case errors.Is(err, errStuck):
			return
		case ctx.Err() == nil && !s.closing():
			wait = min(max(2*wait, 100*time.Millisecond), 5*time.Second)
			s.cfg.Logger.WarnContext(ctx, "partition not read, trying again", "partition", r.partition, "wait", wait, "error", err)
			s.pause(ctx, wait)
		}
	}
}

// follow goes back to the oldest record when the partition was rewound.
func (r *reader) follow(ctx context.Context) error {
	r.s.mu.Lock()
	seek := r.s.seeks[r.partition]
	r.s.mu.Unlock()
	if seek == r.seek {
		return nil
	}
	first, _, err := r.s.bounds(ctx, r.partition)
	if err != nil {
		return err
	}
	r.offset, r.seek, r.told = first, seek, time.Time{}
	return nil
}

// step fetches once and hands over what came.
func (r *reader) step(ctx context.Context) error {
	fetch, cancel := context.WithTimeout(ctx, r.s.cfg.MaxWait+r.s.cfg.Timeout)
	defer cancel()
	asked := time.Now()
	res, err := r.s.client.Fetch(fetch, &kafka.FetchRequest{
		Topic: r.s.cfg.Topic, Partition: r.partition, Offset: r.offset, MinBytes: 1, MaxBytes: maxBytes, MaxWait: r.s.cfg.MaxWait,
	})
	if err != nil {
		return err
	}
	if closer, ok := res.Records.(io.Closer); ok {
		defer closer.Close()
	}
	if errors.Is(res.Error, kafka.OffsetOutOfRange) {
		return r.lost(ctx)
	}
	if res.Error != nil {
		return res.Error
	}
	records, err := r.records(res.Records)
	if err != nil {
		return err
	}
	b := reconcile.Batch{Records: records}
	next := r.offset
	if len(records) > 0 {
		next = records[len(records)-1].Offset + 1
	}
	caught := next >= res.HighWatermark
	if caught {
		b.CaughtUp, b.AsOf = []int{r.partition}, asked
	}
	if len(records) == 0 && (!caught || asked.Sub(r.told) < repeat) {
		return nil
	}
	if err := r.hand(ctx, b); err != nil {
		return err
	}
	r.offset = next
	if caught {
		r.told = asked
	}
	return nil
}

// records copies what a fetch brought, from the wanted offset on: a broker sends whole
// batches, which may begin before it.
func (r *reader) records(from kafka.RecordReader) ([]reconcile.Record, error) {
	var out []reconcile.Record
	for {
		rec, err := from.ReadRecord()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			if len(out) > 0 {
				return out, nil // the rest was cut off by maxBytes, or is asked for again
			}
			return nil, err
		}
		key, err := kafka.ReadAll(rec.Key)
		if err != nil {
			return nil, err
		}
		value, err := kafka.ReadAll(rec.Value)
		if err != nil {
			return nil, err
		}
		if rec.Offset >= r.offset {
			out = append(out, reconcile.Record{
				Partition: r.partition, Offset: rec.Offset, Time: rec.Time, Key: key, Value: value, Replayed: replayed(rec.Headers),
			})
		}
	}
}

// lost goes to where the partition begins, and says what cannot be read any more. A log
// that is shorter than it was, after an unclean election or because the topic was made
// anew, has other records behind its end than those that were read there.
func (r *reader) lost(ctx context.Context) error {
	first, next, err := r.s.bounds(ctx, r.partition)
	if err != nil {
		return err
	}
	loss := reconcile.Loss{Partition: r.partition, From: r.offset, To: first}
	if r.offset > next {
		loss = reconcile.Loss{Partition: r.partition, From: next, To: r.offset, Shrunk: true}
	}
	if loss.From >= loss.To {
		return nil
	}
	r.s.cfg.Logger.ErrorContext(ctx, "records lost before they were read", "partition", r.partition, "from", loss.From, "to", loss.To)
	if err := r.hand(ctx, reconcile.Batch{Lost: []reconcile.Loss{loss}}); err != nil {
		return err
	}
	r.offset, r.told = first, time.Time{}
	return nil
}

// hand gives a batch to Next. It ends the membership when nobody takes it for too long.
func (r *reader) hand(ctx context.Context, b reconcile.Batch) error {
	timer := time.NewTimer(r.s.cfg.Stuck)
	defer timer.Stop()
	for {
		select {
		case r.s.out <- delivery{Batch: b, partition: r.partition, seek: r.seek}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-r.s.done:
			return context.Canceled
		case <-timer.C:
		}
		if more := r.s.patience(); more > 0 { // it is at work all the same
			timer.Reset(more)
			continue
		}
		select {
		case r.stuck <- struct{}{}:
		default:
		}
		return errStuck
	}
}
