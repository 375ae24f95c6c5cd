package kafkasource

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

// ofHold are the two events of one hold, of a producer of its own.
func ofHold(tb testing.TB, producer string, from time.Time) (acquire, end string) {
	tb.Helper()
	key, err := tierlock.ParseKey("biz:coupon:lock:u1")
	if err != nil {
		tb.Fatal(err)
	}
	ev := audit.Event{
		Type: audit.TypeAcquire, Chain: "coupon", Key: key, Holder: "h" + producer, Tier: tierlock.Bypass, Store: "bypass",
		GrantedAt: from, TTL: time.Minute, ClockError: time.Millisecond, Producer: producer, Epoch: 1, Seq: 1,
	}
	acquire = string(ev.AppendJSON(nil))
	ev.Type, ev.TTL, ev.EndedAt, ev.How, ev.Outcome, ev.Seq, ev.Prev = audit.TypeEnd, 0, from.Add(time.Second), audit.Released, audit.Committed, 2, 1
	return acquire, string(ev.AppendJSON(nil))
}

// readAll are the overlaps of what lies in the topic.
func readAll(tb testing.TB, brokers []string, group string) []reconcile.Finding {
	tb.Helper()
	got := &memory{by: map[string]reconcile.Finding{}}
	s := source(tb, brokers, func(c *Config) { c.Group = group })
	dead, err := NewDeadLetters(Config{Brokers: brokers})
	if err != nil {
		tb.Fatal(err)
	}
	defer dead.Close()
	job, err := reconcile.New(reconcile.Config{Source: &ending{Source: s}, Findings: []reconcile.Findings{got}, DeadLetter: dead.Write})
	if err != nil {
		tb.Fatal(err)
	}
	if err := job.Run(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	var out []reconcile.Finding
	for _, f := range got.by {
		if f.State == reconcile.StateOpen && f.Kind == reconcile.KindOverlap {
			out = append(out, f)
		}
	}
	return out
}

// An event that an older version could not read lies in the dead letters. After the upgrade
// it is put back with its id, and the finding is the one that there would have been.
func TestAReplayedLetterGivesTheSameFinding(t *testing.T) {
	t.Run("in the process", func(t *testing.T) { replayTheGrant(t, broker(t, 1)) })
	t.Run("kafka", func(t *testing.T) {
		addr := servers.Kafka(t).Addr()
		createTopic(t, addr, EventsTopic)
		createTopic(t, addr, DeadTopic)
		replayTheGrant(t, []string{addr})
	})
}

func replayTheGrant(t *testing.T, brokers []string) {
	from := time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)
	acquireP, endP := ofHold(t, "p", from)
	acquireQ, endQ := ofHold(t, "q", from.Add(500*time.Millisecond))
	produce(t, brokers, 0, acquireP, endP, endQ) // q's grant could not be read
	dead, err := NewDeadLetters(Config{Brokers: brokers})
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	bury := func(value, reason string) {
		t.Helper()
		if err := dead.Write(t.Context(), reconcile.Record{Partition: 0, Offset: 2, Key: []byte("biz:coupon:lock:u1"), Value: []byte(value)}, errors.New(reason)); err != nil {
			t.Fatal(err)
		}
	}
	bury(acquireQ, "unknown version")
	bury("{", "no JSON")
	want := readAll(t, seeded(t, acquireP, endP, acquireQ, endQ), "whole")
	if len(want) != 1 || want[0].Members[1].AcquireSeq != 1 {
		t.Fatalf("%+v", want)
	}

	replay, err := NewReplay(Config{Brokers: brokers, MaxWait: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer replay.Close()
	run := func(apply bool) (Replayed, []Letter) {
		t.Helper()
		var all []Letter
		sum, err := replay.Run(t.Context(), apply, func(v []byte) error { _, err := audit.Parse(v); return err }, func(l Letter) { all = append(all, l) })
		if err != nil {
			t.Fatal(err)
		}
		return sum, all
	}
	if sum, all := run(false); sum != (Replayed{Letters: 2, Good: 1, Bad: 1}) || all[0].Reason != "unknown version" || all[0].Fault != "" || all[1].Fault == "" {
		t.Fatalf("dry run: %+v, %+v", sum, all)
	}
	if sum, _ := run(true); sum != (Replayed{Letters: 2, Good: 1, Replayed: 1, Bad: 1}) {
		t.Fatalf("replay: %+v", sum)
	}
	if sum, all := run(true); sum != (Replayed{Letters: 1, Bad: 1}) {
		t.Fatalf("replay again: %+v, %+v: what was put back comes again", sum, all)
	}
	got := readAll(t, brokers, "mended")
	if len(got) != 1 || got[0].ID != want[0].ID || got[0].Digest != want[0].Digest {
		t.Errorf("found %+v\nwant %+v", got, want)
	}
}

// seeded is another cluster with these events.
func seeded(tb testing.TB, values ...string) []string {
	tb.Helper()
	brokers := broker(tb, 1)
	produce(tb, brokers, 0, values...)
	return brokers
}

// A letter keeps its key, value and headers, and says where it comes from. One of another
// topic, or one without an address, stays.
func TestALetterKeepsWhatItWas(t *testing.T) {
	brokers := broker(t, 2)
	pool := &kafka.Transport{}
	defer pool.CloseIdleConnections()
	w := &kafka.Writer{Addr: kafka.TCP(brokers...), Topic: DeadTopic, Transport: pool, RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond}
	defer w.Close()
	letter := func(headers ...string) kafka.Message {
		m := kafka.Message{Key: []byte("k"), Value: []byte("v")}
		for i := 0; i < len(headers); i += 2 {
			m.Headers = append(m.Headers, kafka.Header{Key: headers[i], Value: []byte(headers[i+1])})
		}
		return m
	}
	err := w.WriteMessages(t.Context(),
		letter("ce_id", "p/1/7", "reason", "r", "topic", EventsTopic, "partition", "1", "offset", "9"),
		letter("reason", "r", "topic", "elsewhere", "partition", "0"),
		letter("reason", "r", "topic", EventsTopic))
	if err != nil {
		t.Fatal(err)
	}
	replay, err := NewReplay(Config{Brokers: brokers, MaxWait: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer replay.Close()
	var faults []string
	sum, err := replay.Run(t.Context(), true, func([]byte) error { return nil }, func(l Letter) { faults = append(faults, l.Fault) })
	if err != nil || sum != (Replayed{Letters: 3, Good: 1, Replayed: 1, Bad: 2}) || !strings.Contains(faults[1], "elsewhere") || !strings.Contains(faults[2], "partition") {
		t.Fatalf("%+v, %v, %q", sum, err, faults)
	}
	client := &kafka.Client{Addr: kafka.TCP(brokers...), Transport: pool}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	res, err := client.Fetch(ctx, &kafka.FetchRequest{Topic: EventsTopic, Partition: 1, MinBytes: 1, MaxBytes: 1 << 20, MaxWait: time.Second})
	if err != nil || res.Error != nil {
		t.Fatal(err, res)
	}
	rec, err := res.Records.ReadRecord()
	if err != nil {
		t.Fatal(err)
	}
	key, _ := kafka.ReadAll(rec.Key)
	value, _ := kafka.ReadAll(rec.Value)
	has := func(name, text string) bool {
		return slices.ContainsFunc(rec.Headers, func(h kafka.Header) bool { return h.Key == name && string(h.Value) == text })
	}
	if string(key) != "k" || string(value) != "v" || len(rec.Headers) != 2 || !has("ce_id", "p/1/7") || !has(HeaderReplayed, "0/0") || !replayed(rec.Headers) {
		t.Errorf("%s = %s, headers %v", key, value, rec.Headers)
	}
	s := source(t, brokers)
	for {
		b, err := s.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Records) > 0 {
			if !b.Records[0].Replayed {
				t.Error("the source does not say that it is a replayed one")
			}
			return
		}
	}
}

func TestReplayFaults(t *testing.T) {
	if _, err := NewReplay(Config{}); !errors.Is(err, tierlock.ErrInvalid) {
		t.Errorf("no broker: %v", err)
	}
	replay, err := NewReplay(Config{Brokers: broker(t, 1), Dead: "nobody-made-it"})
	if err != nil {
		t.Fatal(err)
	}
	defer replay.Close()
	if _, err := replay.Run(t.Context(), true, func([]byte) error { return nil }, func(Letter) {}); err == nil || !strings.Contains(err.Error(), "nobody-made-it") {
		t.Errorf("no such topic: %v", err)
	}
}

// ending is a source that ends once its one partition has been read.
type ending struct {
	*Source
	end bool
}

func (e *ending) Next(ctx context.Context) (reconcile.Batch, error) {
	if e.end {
		return reconcile.Batch{}, io.EOF
	}
	b, err := e.Source.Next(ctx)
	e.end = len(b.CaughtUp) > 0
	return b, err
}

func (e *ending) Rewind(ctx context.Context, partition int) error {
	e.end = false
	return e.Source.Rewind(ctx, partition)
}
