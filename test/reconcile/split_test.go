package reconcile

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/kafkasink"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
	"github.com/tierlock/tierlock/reconcile/incident"
	"github.com/tierlock/tierlock/reconcile/kafkasource"
)

const splitPartitions = 6

// stream writes what processes would have sent, each event where its key belongs.
type stream struct {
	*testing.T
	sink  *kafkasink.Sink
	msgs  []audit.Message
	seqs  map[string]uint64
	prevs map[string]uint64
}

func newStream(t *testing.T, brokers []string) *stream {
	t.Helper()
	sink, err := kafkasink.New(kafkasink.Config{Brokers: brokers, Partitions: splitPartitions, Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	for n := 0; n != splitPartitions; { // topics that were just made are not known at once
		if n, err = sink.Partitions(t.Context()); err != nil {
			t.Log(err)
			time.Sleep(50 * time.Millisecond)
		}
	}
	return &stream{T: t, sink: sink, seqs: map[string]uint64{}, prevs: map[string]uint64{}}
}

func (s *stream) put(producer string, ev audit.Event) {
	s.seqs[producer]++
	ev.Producer, ev.Epoch, ev.Seq = producer, 1, s.seqs[producer]
	for part := range splitPartitions {
		if !ev.Type.Marker() && part != audit.PartitionOf(ev.Key.String(), splitPartitions) {
			continue
		}
		id := fmt.Sprint(producer, "/", part)
		ev.Prev = s.prevs[id]
		s.prevs[id] = ev.Seq
		s.msgs = append(s.msgs, audit.Message{Partition: part, Key: []byte(ev.Key.String()), Value: ev.AppendJSON(nil)})
	}
}

// flush sends until all is there: a topic that was just made has no leaders for a moment.
func (s *stream) flush() {
	s.Helper()
	for len(s.msgs) > 0 {
		var left []audit.Message
		for i, err := range s.sink.Send(s.Context(), s.msgs) {
			if err != nil {
				left = append(left, s.msgs[i])
			}
		}
		if s.msgs = left; s.Context().Err() != nil {
			s.Fatal("not sent")
		}
	}
}

// known is one hold as it was made.
type known struct {
	key, record, producer string
	from, to              time.Time
}

const clockError = time.Millisecond

// pairsOf looks at every two holds of a record under different keys. Of two by one clock
// nobody can tell whether it was stepped between them.
func pairsOf(holds []known) (pairs, certain int) {
	for i, a := range holds {
		for _, b := range holds[:i] {
			if a.record != b.record || a.key == b.key {
				continue
			}
			slack := 2 * (clockError + time.Microsecond)
			if a.producer == b.producer {
				slack = 0
			}
			if a.from.Before(b.to.Add(slack)) && b.from.Before(a.to.Add(slack)) {
				pairs++
			}
			if slack > 0 && a.from.Before(b.to.Add(-slack)) && b.from.Before(a.to.Add(-slack)) {
				certain++
			}
		}
	}
	return pairs, certain
}

func (s *kept) overlaps() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.by {
		if f.Kind == reconcile.KindOverlap {
			n++
		}
	}
	return n
}

// member is one of a group; leave ends it.
func member(t *testing.T, brokers []string, into *kept) (leave func()) {
	s, err := kafkasource.New(kafkasource.Config{Brokers: brokers, MaxWait: 50 * time.Millisecond, Session: 6 * time.Second})
	if err != nil {
		t.Error(err)
		return func() {}
	}
	job, err := reconcile.New(reconcile.Config{Source: s, Findings: []reconcile.Findings{into}, Tick: 50 * time.Millisecond})
	if err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var run sync.WaitGroup
	run.Go(func() {
		if err := job.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return func() {
		cancel()
		run.Wait()
		bounded, done := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer done()
		if err := s.Close(bounded); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// TestARecordUnderTwoKeysOnKafka: while members of a job come and go, each finds what its
// partitions hold and none of them what lies in two; a report of the period finds that too, each
// pair that looking at every two holds finds, and the same each time it is made.
func TestARecordUnderTwoKeysOnKafka(t *testing.T) {
	brokers := []string{servers.Kafka(t).Addr()}
	s := newStream(t, brokers)
	producers := []string{"p", "q", "r", "s"}
	begin := time.Now().Add(-20 * time.Minute).UTC().Truncate(time.Second)
	for _, p := range producers {
		s.put(p, audit.Event{Type: audit.TypeHello, At: begin.Add(-time.Minute)})
	}
	var holds []known
	rng := rand.New(rand.NewPCG(3, 6))
	at := begin
	for i := range 2000 {
		at = at.Add(time.Duration(rng.IntN(300)) * time.Millisecond)
		who := producers[i%len(producers)]
		h := known{producer: who, key: fmt.Sprint("biz:pay:lock:", rng.IntN(40)), record: fmt.Sprint("m", rng.IntN(20)), from: at, to: at.Add(time.Duration(1+rng.IntN(3000)) * time.Millisecond)}
		key, err := tierlock.ParseKey(h.key)
		if err != nil {
			t.Fatal(err)
		}
		ev := audit.Event{
			Type: audit.TypeAcquire, Chain: "pay", Key: key, Holder: fmt.Sprintf("%016x", i+1), Tier: tierlock.Shared, Store: "main", GrantedAt: h.from,
			TTL: 10 * time.Second, ClockError: clockError, Business: audit.Business{Type: "payment", ID: h.record, Delta: 1},
		}
		s.put(who, ev)
		ev.Type, ev.How, ev.EndedAt = audit.TypeEnd, audit.Released, h.to
		s.put(who, ev)
		holds = append(holds, h)
	}
	over := at.Add(time.Minute)
	for _, p := range producers {
		s.put(p, audit.Event{Type: audit.TypeSeal, At: over, Sealed: 1, First: 1, Last: s.seqs[p], Clean: true})
	}
	s.flush()

	found := &kept{by: map[string]reconcile.Finding{}}
	stop := make(chan struct{})
	var crew sync.WaitGroup
	for range 2 { // while the report reads
		crew.Go(func() {
			for {
				leave := member(t, brokers, found)
				select {
				case <-stop:
					leave()
					return
				case <-time.After(2 * time.Second):
					leave()
				}
			}
		})
	}
	first := periodOf(t, brokers, begin, over)
	for deadline := time.Now().Add(2 * time.Minute); found.overlaps() == 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("the job found nothing of what lies under one key")
			break
		}
	}
	second := periodOf(t, brokers, begin, over)
	close(stop)
	crew.Wait()

	pairs, certain := 0, 0
	for i := range first.Conflicts {
		if c := &first.Conflicts[i]; slices.Contains(c.Causes, reconcile.CauseSplitKey) {
			pairs, certain = pairs+c.Pairs, certain+c.CertainPairs
		}
	}
	if want, sure := pairsOf(holds); pairs != want || want < 500 || certain != sure || certain == want {
		t.Errorf("the report has %d pairs, %d certain; every two holds give %d, %d", pairs, certain, want, sure)
	}
	if !first.Certificate.Complete || ids(first) != ids(second) {
		t.Errorf("complete %t; the second report is the same: %t", first.Certificate.Complete, ids(first) == ids(second))
	}
	for _, f := range found.by {
		if slices.Contains(f.Causes, reconcile.CauseSplitKey) {
			t.Errorf("a member found %+v, which it cannot see as a whole", f)
		}
	}
}

func periodOf(t *testing.T, brokers []string, from, to time.Time) *incident.Report {
	t.Helper()
	p, err := kafkasource.NewPeriod(kafkasource.PeriodConfig{Config: kafkasource.Config{Brokers: brokers}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r, err := incident.Make(t.Context(), incident.Config{From: from, To: to, Author: "kim", Source: p})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ids are the conflicts of a report.
func ids(r *incident.Report) string {
	set := map[string]int{}
	for i := range r.Conflicts {
		set[r.Conflicts[i].ID] = r.Conflicts[i].Pairs
	}
	return fmt.Sprint(slices.Sorted(maps.Keys(set)), set)
}
