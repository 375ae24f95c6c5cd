package kafkasource

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

// topicWith makes a topic of one partition with these settings.
func topicWith(t *testing.T, broker, name string, settings ...string) {
	t.Helper()
	pool := &kafka.Transport{}
	defer pool.CloseIdleConnections()
	topic := kafka.TopicConfig{Topic: name, NumPartitions: 1, ReplicationFactor: 1}
	for i := 0; i < len(settings); i += 2 {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: settings[i], ConfigValue: settings[i+1]})
	}
	res, err := (&kafka.Client{Addr: kafka.TCP(broker), Transport: pool}).CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err != nil || res.Errors[name] != nil {
		t.Fatal(err, res)
	}
}

// readTopic reads what a topic holds now.
func readTopic(t *testing.T, broker, name string) (out []reconcile.Record) {
	t.Helper()
	p, err := NewPeriod(PeriodConfig{Config: Config{Brokers: []string{broker}, Topic: name}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for {
		b, err := p.Next(t.Context())
		if err != nil {
			return out
		}
		out = append(out, b.Records...)
	}
}

func newFindings(t *testing.T, broker, topic string) *Findings {
	t.Helper()
	f, err := NewFindings(Config{Brokers: []string{broker}, Findings: topic})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// crowd is one finding of n holds that tell all that a hold may tell.
func crowd(t *testing.T, n int) reconcile.Finding {
	t.Helper()
	key, err := tierlock.ParseKey("biz:coupon:lock:u1")
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	var holds []reconcile.Interval
	for i := range n {
		iv := reconcile.Interval{
			Event: fmt.Sprint("shop/1/", i), Chain: "coupon", Key: key, Holder: fmt.Sprintf("%016x", i), Tier: tierlock.Bypass, Producer: "shop" + strconv.Itoa(i%2),
			GrantedAt: begin.Add(time.Duration(i) * time.Millisecond), EndedAt: begin.Add(time.Duration(i+2) * time.Millisecond), How: audit.Released, Error: time.Millisecond,
			Business: audit.Business{Type: "coupon", ID: strings.Repeat("é", 128), Op: "claim", Delta: 1},
		}
		iv.Latest = iv.EndedAt
		holds = append(holds, iv)
	}
	f := reconcile.Overlaps(reconcile.Rule{}, holds)[0]
	f.Revision = int64(n)
	for range n - 1 {
		f.Repairs = append(f.Repairs, reconcile.Repair{Key: strings.Repeat("0", 32), Result: reconcile.ResultFailed, Error: strings.Repeat("x", 100)})
	}
	return f
}

// A finding of 10,000 holds is some 7 MB and no broker takes it: both ends of it are told,
// whatever little the topic takes, and it still names every finding that it took in.
func TestALargeFindingIsToldByItsEndsOnKafka(t *testing.T) {
	broker := servers.SharedKafka(t).Addr()
	large := crowd(t, 10_000)
	for name, c := range map[string]struct {
		settings []string
		most     int
		absorbed bool
	}{
		"large.default": {nil, 1 << 20, true},
		"large.small":   {[]string{"max.message.bytes", "20000"}, 20_000, false},
	} {
		topicWith(t, broker, name, c.settings...)
		f := newFindings(t, broker, name)
		for _, finding := range []reconcile.Finding{large, crowd(t, 3)} {
			if err := f.Put(t.Context(), finding); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		got := readTopic(t, broker, name)
		if len(got) != 2 || len(got[0].Value) > c.most || len(got[0].Value) < c.most/8 {
			t.Fatalf("%s: %d messages, the first of %d bytes", name, len(got), len(got[0].Value))
		}
		var told, whole reconcile.Finding
		if err := json.Unmarshal(got[0].Value, &told); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got[1].Value, &whole); err != nil || len(whole.Members) != 3 || whole.Omitted+whole.OmittedRepairs != 0 {
			t.Errorf("%s: a small one has %d members, %v", name, len(whole.Members), err)
		}
		if told.ID != large.ID || told.Digest != large.Digest || told.Pairs != large.Pairs || len(told.Members)+told.Omitted != 10_000 || len(told.Repairs)+told.OmittedRepairs != 9_999 ||
			len(told.Members) < 4 || told.Members[0].Holder != large.Members[0].Holder || told.Members[len(told.Members)-1].Holder != large.Members[9_999].Holder {
			t.Errorf("%s: %d members and %d omitted, %d repairs and %d omitted", name, len(told.Members), told.Omitted, len(told.Repairs), told.OmittedRepairs)
		}
		if n := len(told.Supersedes()); (n == 9_999) != c.absorbed {
			t.Errorf("%s: names %d findings as its own", name, n)
		}
		t.Logf("%s: %d bytes, %d members", name, len(got[0].Value), len(told.Members))
	}
}

// A record that is too large for the dead letters is told without its value.
func TestALargeDeadLetterIsToldOnKafka(t *testing.T) {
	broker := servers.SharedKafka(t).Addr()
	topicWith(t, broker, "large.dead", "max.message.bytes", "1000")
	d, err := NewDeadLetters(Config{Brokers: []string{broker}, Dead: "large.dead"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, n := range []int{100, 2 << 20} {
		if err := d.Write(t.Context(), reconcile.Record{Offset: 7, Key: []byte("k"), Value: make([]byte, n)}, fmt.Errorf("no event")); err != nil {
			t.Fatal(err)
		}
	}
	got := readTopic(t, broker, "large.dead")
	if len(got) != 2 || len(got[0].Value) != 100 || len(got[1].Value) != 0 || string(got[1].Key) != "k" {
		t.Fatalf("%d letters", len(got))
	}
}

// TestACompactedTopicKeepsTheHighestRevisionOnKafka: members that have lost their partition
// without knowing it write what they have found last. Whatever the cleaner leaves, a reader
// has of each finding what a table has.
func TestACompactedTopicKeepsTheHighestRevisionOnKafka(t *testing.T) {
	broker := servers.SharedKafka(t).Addr()
	const topic = "compacted.findings"
	topicWith(t, broker, topic, "cleanup.policy", "compact", "segment.bytes", "1048576", "segment.ms", "100", "min.cleanable.dirty.ratio", "0.01", "max.compaction.lag.ms", "100")
	f := newFindings(t, broker, topic)
	const ids = 20
	put := func(id int, revision int64, state reconcile.State) {
		t.Helper()
		finding := reconcile.Finding{ID: fmt.Sprint("f", id), Revision: revision, Digest: fmt.Sprint(revision), Kind: reconcile.KindOverlap, State: state}
		if err := f.Put(t.Context(), finding); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // replays tell the same again
		for id := range ids {
			put(id, 10, reconcile.StateOpen)
			put(id, 20, reconcile.StateOpen)
			put(id, 20, reconcile.StateRepaired)
		}
	}
	for id := range ids { // by who was slow
		put(id, 10, reconcile.StateOpen)
	}
	deadline := time.Now().Add(3 * time.Minute)
	for n := 0; ; n++ {
		put(1_000_000, int64(n), reconcile.StateOpen) // the cleaner leaves the open segment alone
		records := readTopic(t, broker, topic)
		of := map[string]int{}
		best := map[string]reconcile.Finding{}
		for _, r := range records {
			var got reconcile.Finding
			if err := json.Unmarshal(r.Value, &got); err != nil {
				t.Fatal(err)
			}
			if got.ID == "f1000000" {
				continue
			}
			of[string(r.Key)]++
			if was, known := best[got.ID]; !known || got.Replaces(&was) {
				best[got.ID] = got
			}
		}
		for id := range ids {
			if b := best[fmt.Sprint("f", id)]; b.Revision != 20 || b.State != reconcile.StateRepaired {
				t.Fatalf("f%d is at revision %d, %s", id, b.Revision, b.State)
			}
		}
		cleaned := true
		for _, n := range of {
			cleaned = cleaned && n == 1
		}
		if cleaned {
			t.Logf("cleaned: %d records", len(records))
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the cleaner has not come")
		}
		pause(200 * time.Millisecond)
	}
}
