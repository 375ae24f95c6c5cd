package kafkasource

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

func period(t *testing.T, cfg PeriodConfig) *Period {
	t.Helper()
	cfg.MaxWait = 50 * time.Millisecond
	p, err := NewPeriod(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// drain reads p to its end.
func drain(t *testing.T, p *Period) *seen {
	t.Helper()
	got := &seen{}
	for {
		b, err := p.Next(t.Context())
		if errors.Is(err, io.EOF) {
			slices.Sort(got.values)
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		got.take(b)
	}
}

// aPeriod is what both the stand-in and a real broker must do.
func aPeriod(t *testing.T, brokers []string) {
	begin := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	produceAt(t, brokers, 0, begin, "early", "old")
	produceAt(t, brokers, 0, begin.Add(10*time.Minute), "a")
	produceAt(t, brokers, 0, begin.Add(20*time.Minute), "b")
	produceAt(t, brokers, 1, begin, "gone")
	produceAt(t, brokers, 2, begin.Add(30*time.Minute), "c")

	p := period(t, PeriodConfig{Config: Config{Brokers: brokers}, From: begin.Add(5 * time.Minute)})
	if err := p.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	produceAt(t, brokers, 0, time.Now(), "too late") // it was closed before
	got := drain(t, p)
	if want := []string{"0/2=a", "0/3=b", "2/0=c"}; !slices.Equal(got.values, want) {
		t.Errorf("read %v, want %v", got.values, want)
	}
	if len(got.caught) != 3 || len(got.assigned) != 3 {
		t.Errorf("assigned %v, caught up %v", got.assigned, got.caught)
	}
	spans := p.Spans()
	if len(spans) != 3 || spans[0].From != 2 || spans[0].To != 4 || spans[0].Oldest != 0 || !spans[0].Begins.Equal(begin.Add(10*time.Minute)) ||
		spans[1].From != 1 || spans[1].To != 1 || !spans[1].Begins.IsZero() {
		t.Errorf("spans %+v", spans)
	}
	if err := p.Rewind(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if again := drain(t, p); !slices.Equal(again.values, []string{"0/2=a", "0/3=b"}) {
		t.Errorf("after a rewind %v", again.values)
	}

	one := period(t, PeriodConfig{Config: Config{Brokers: brokers}, Partitions: []int{2}})
	if got := drain(t, one); !slices.Equal(got.values, []string{"2/0=c"}) {
		t.Errorf("one partition: %v", got.values)
	}
}

func TestAPeriodIsReadOnceAndEnds(t *testing.T) { aPeriod(t, broker(t, 3)) }

func TestAPeriodOnARealBroker(t *testing.T) {
	servers.Need(t, "Kafka")
	brokers := []string{servers.Kafka(t).Addr()}
	createTopics(t, brokers, 3) // not the sink's: the past is made by the producers' clock here
	aPeriod(t, brokers)
}

// TestRecordsThatRetentionTakesMeanwhileAreTold: they were there when the period was opened.
func TestRecordsThatRetentionTakesMeanwhileAreTold(t *testing.T) {
	c := cluster(t, 1)
	brokers := c.ListenAddrs()
	produceAt(t, brokers, 0, time.Now().AddDate(0, 0, -30), "a", "b", "c")
	produce(t, brokers, 0, "d")
	p := period(t, PeriodConfig{Config: Config{Brokers: brokers}})
	if err := p.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.ApplyRetention()
	got := drain(t, p)
	if !slices.Equal(got.values, []string{"0/3=d"}) || !slices.Equal(got.lost, []reconcile.Loss{{Partition: 0, From: 0, To: 3}}) {
		t.Errorf("read %v, lost %v", got.values, got.lost)
	}
}

// TestAPeriodEndsThoughItsLogWasCutOff: what was at the end is not there any more after an
// unclean election, or after the topic was made anew. That is told, and asked for once.
func TestAPeriodEndsThoughItsLogWasCutOff(t *testing.T) {
	brokers := broker(t, 1)
	produce(t, brokers, 0, "a", "b", "c", "d", "e")
	p := period(t, PeriodConfig{Config: Config{Brokers: brokers}})
	if err := p.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.next[0] = 3
	if _, err := p.client.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{p.cfg.Topic}}); err != nil {
		t.Fatal(err)
	}
	made := []kafka.TopicConfig{{Topic: p.cfg.Topic, NumPartitions: 1, ReplicationFactor: 1}}
	if _, err := p.client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: made}); err != nil {
		t.Fatal(err)
	}
	var lost []reconcile.Loss
	for range 10 { // an answer that brings nothing on is the same for ever
		b, err := p.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		lost = append(lost, b.Lost...)
	}
	if _, err := p.Next(t.Context()); !errors.Is(err, io.EOF) || !slices.Equal(lost, []reconcile.Loss{{Partition: 0, From: 3, To: 5}}) {
		t.Errorf("%v, lost %v", err, lost)
	}
}

func TestAPeriodOfNothingReachable(t *testing.T) {
	_, err := NewPeriod(PeriodConfig{Config: Config{Brokers: []string{"x"}}, Partitions: []int{-1}})
	if n := len(tierlock.Invalids(err)); n != 2 {
		t.Errorf("%d faults: %v", n, err)
	}
	p := period(t, PeriodConfig{Config: Config{Brokers: []string{"127.0.0.1:1"}}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Next(ctx); err == nil {
		t.Error("no broker is no error")
	}
}
