package audit

import (
	"cmp"
	"context"

	"github.com/tierlock/tierlock/audit/spool"
)

// render makes messages of a chunk and moves next over it.
func (f *forwarder) render(ctx context.Context, chunk []spool.Record, next *cursor) ([]Message, error) {
	msgs := make([]Message, 0, len(chunk))
	for _, rec := range chunk {
		producer := rec.Label
		if producer == "" { // the file's header is damaged
			producer = f.l.cfg.Producer
		}
		if producer != next.Producer {
			*next = cursor{Producer: producer}
		}
		next.fit(f.n)
		next.Next = rec.Seq + 1
		y, err := parseBody(rec.Data)
		if rec.Lost != 0 || err != nil {
			if err := f.reportDamage(ctx, rec); err != nil {
				return nil, err
			}
			continue
		}
		msgs = f.place(msgs, &y, rec, next)
	}
	return msgs, nil
}

// place appends the record's message, or one per partition for a marker.
func (f *forwarder) place(msgs []Message, y *body, rec spool.Record, next *cursor) []Message {
	first, end, key := 0, f.n, []byte(next.Producer)
	if !y.kind.Marker() {
		first = PartitionOf(string(y.key), f.n)
		end, key = first+1, y.key
	}
	headers := y.headers(next.Producer, rec.Epoch, rec.Seq)
	for p := first; p < end; p++ {
		value := y.appendJSON(make([]byte, 0, len(rec.Data)+headerBytes), next.Producer, rec.Epoch, rec.Seq, next.Prev[p])
		msgs = append(msgs, Message{Partition: p, Key: key, Value: value, Headers: headers})
		next.Prev[p] = rec.Seq
	}
	return msgs
}

// headers are those of CloudEvents in binary mode.
func (y *body) headers(producer string, epoch, seq uint64) []Header {
	id := Event{Producer: producer, Epoch: epoch, Seq: seq}
	return []Header{
		{"ce_specversion", []byte("1.0")},
		{"ce_id", []byte(id.EventID())},
		{"ce_source", []byte(producer)},
		{"ce_type", []byte("tierlock." + string(y.kind))},
		{"ce_time", y.at.UTC().AppendFormat(nil, timeFormat)},
	}
}

// reportDamage writes the gap event of a range, or of a record that is not understood.
func (f *forwarder) reportDamage(ctx context.Context, rec spool.Record) error {
	from := cmp.Or(rec.Lost, rec.Seq)
	return f.l.gap(ctx, Event{Cause: CauseDamage, From: from, To: rec.Seq, Count: rec.Seq - from + 1})
}
