package audit

import (
	"cmp"
	"context"

	"github.com/tierlock/tierlock/audit/spool"
)

// render makes messages of a chunk and moves next over it.
func (f *forwarder) render(ctx context.Context, chunk []spool.Record, next *cursor) ([]Message, error) {
	msgs := make([]Message, 0, len(chunk)+2*f.all)
	size := 0
	for _, rec := range chunk {
		size += len(rec.Data) + headerBytes
	}
	room := &arena{bytes: make([]byte, 0, size), headers: make([]Header, 0, headerCount*len(chunk))}
	for _, rec := range chunk {
		producer := rec.Label
		if producer == "" { // the file's header is damaged
			producer = f.l.cfg.Producer
		}
		if producer != next.Producer {
			*next = cursor{Producer: producer}
		}
		next.fit(f.all)
		next.Keys = f.n
		next.Next = rec.Seq + 1
		y, err := parseBody(rec.Data)
		if rec.Lost != 0 || err != nil {
			if err := f.reportDamage(ctx, rec); err != nil {
				return nil, err
			}
			continue
		}
		msgs = f.place(msgs, room, &y, rec, next)
	}
	return msgs, nil
}

// place appends the record's message, or one per partition for a marker.
func (f *forwarder) place(msgs []Message, room *arena, y *body, rec spool.Record, next *cursor) []Message {
	first, end, key := 0, f.all, []byte(next.Producer)
	if !y.kind.Marker() {
		first = partitionOf(y.key, f.n)
		end, key = first+1, room.add(func(b []byte) []byte { return append(b, y.key...) })
	}
	headers := room.addHeaders(y, next.Producer, rec.Epoch, rec.Seq)
	for p := first; p < end; p++ {
		value := room.add(func(b []byte) []byte { return y.appendJSON(b, next.Producer, rec.Epoch, rec.Seq, next.Prev[p]) })
		msgs = append(msgs, Message{Partition: p, Key: key, Value: value, Headers: headers})
		next.Prev[p] = rec.Seq
	}
	return msgs
}

// arena holds the bytes of a chunk's messages in a few large pieces. It is not used again
// for the next chunk: a sink that gave up may still be reading.
type arena struct {
	bytes   []byte
	headers []Header
}

// add returns what fill appends.
func (a *arena) add(fill func([]byte) []byte) []byte {
	at := len(a.bytes)
	a.bytes = fill(a.bytes)
	return a.bytes[at:len(a.bytes):len(a.bytes)]
}

// headerCount is how many headers an event has.
const headerCount = 5

// addHeaders returns those of CloudEvents in binary mode.
func (a *arena) addHeaders(y *body, producer string, epoch, seq uint64) []Header {
	at := len(a.headers)
	a.headers = append(a.headers,
		Header{"ce_specversion", a.add(func(b []byte) []byte { return append(b, "1.0"...) })},
		Header{"ce_id", a.add(func(b []byte) []byte { return appendID(b, producer, epoch, seq) })},
		Header{"ce_source", a.add(func(b []byte) []byte { return append(b, producer...) })},
		Header{"ce_type", a.add(func(b []byte) []byte { return append(append(b, "tierlock."...), y.kind...) })},
		Header{"ce_time", a.add(func(b []byte) []byte { return appendStamp(b, y.at) })})
	return a.headers[at:len(a.headers):len(a.headers)]
}

// reportDamage writes the gap event of a range, or of a record that is not understood.
func (f *forwarder) reportDamage(ctx context.Context, rec spool.Record) error {
	from := cmp.Or(rec.Lost, rec.Seq)
	return f.l.gap(ctx, Event{Cause: CauseDamage, From: from, To: rec.Seq, Count: rec.Seq - from + 1})
}
