package main

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
)

// A made history: streamProducers processes whose clocks are off by up to the bound they
// state take holdsPerSecond holds, one in ten of them on one key.
const (
	streamProducers  = 12
	streamPartitions = 12
	holdsPerSecond   = 20_000
	hotShare         = 10                    // one hold in so many is on the hot key
	holdsPerKey      = 50                    // of the others
	meanHold         = 10 * time.Millisecond // exponential
	crashedShare     = 1000                  // one hold in so many is never ended
	streamTTL        = time.Second
	beatEvery        = 5 * time.Second
)

var streamBegin = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

// madeHold is one hold as it really was; times in nanoseconds since streamBegin.
type madeHold struct {
	from, to int64
	key      int32 // 0 is the hot one
	producer int8
	tier     tierlock.Tier
	crashed  bool
}

// madeClock is how one process tells the time.
type madeClock struct{ off, bound time.Duration }

// maker makes the same holds for the same seed, by start.
type maker struct {
	rng    *rand.Rand
	keys   int
	now    float64 // ns
	freeAt []int64 // per key: when the shared store has it free
	clocks []madeClock
}

func newMaker(seed uint64, holds int) *maker {
	m := &maker{rng: rand.New(rand.NewPCG(seed, 28)), keys: holds/holdsPerKey + 2}
	m.freeAt = make([]int64, m.keys)
	for range streamProducers {
		bound := time.Duration(500+m.rng.IntN(2000)) * time.Microsecond
		m.clocks = append(m.clocks, madeClock{off: time.Duration(m.rng.Int64N(2*int64(bound))) - bound, bound: bound})
	}
	return m
}

// next makes one hold. Shared holds of one key never overlap: where one would, the process
// has let the caller through.
func (m *maker) next() madeHold {
	m.now += m.rng.ExpFloat64() * float64(time.Second) / holdsPerSecond
	h := madeHold{from: int64(m.now), producer: int8(m.rng.IntN(streamProducers)), crashed: m.rng.IntN(crashedShare) == 0}
	h.to = h.from + int64(m.rng.ExpFloat64()*float64(meanHold)) + int64(time.Microsecond)
	if m.rng.IntN(hotShare) != 0 {
		h.key = int32(1 + m.rng.IntN(m.keys-1))
	}
	switch n := m.rng.IntN(10); {
	case n < 2:
		h.tier = tierlock.Bypass
	case n < 4:
		h.tier = tierlock.Local
	case m.freeAt[h.key] > h.from:
		h.tier = tierlock.Bypass
	default:
		h.tier = tierlock.Shared
		m.freeAt[h.key] = h.to
		if h.crashed { // the store ends it
			m.freeAt[h.key] = h.from + int64(streamTTL)
		}
	}
	return h
}

// ending is a hold whose end has not been written.
type ending struct {
	at     int64
	number int
	madeHold
}

type endings []ending

func (e endings) Len() int { return len(e) }
func (e endings) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].number, e[j].number)) < 0
}
func (e endings) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)   { *e = append(*e, x.(ending)) }
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// streamSource hands a made history to a job, as a consumer of all partitions would.
type streamSource struct {
	batches chan reconcile.Batch
	done    chan struct{} // closed by stop
	ended   sync.WaitGroup
	stop    func()
}

// startSource begins to make events of holds; stop ends that and waits.
func startSource(seed uint64, holds int) *streamSource {
	s := &streamSource{batches: make(chan reconcile.Batch, 2), done: make(chan struct{})}
	s.stop = sync.OnceFunc(func() { close(s.done); s.ended.Wait() })
	s.ended.Go(func() {
		defer close(s.batches)
		w := &streamWriter{s: s, maker: newMaker(seed, holds)}
		w.run(holds)
	})
	return s
}

// Next implements reconcile.Source.
func (s *streamSource) Next(ctx context.Context) (reconcile.Batch, error) {
	select {
	case b, more := <-s.batches:
		if !more {
			return reconcile.Batch{}, io.EOF
		}
		return b, nil
	case <-ctx.Done():
		return reconcile.Batch{}, ctx.Err()
	}
}

// Commit implements reconcile.Source: nothing is begun again.
func (s *streamSource) Commit(context.Context, reconcile.Mark) error { return nil }

// Rewind implements reconcile.Source. No event comes late, so nothing asks for it.
func (s *streamSource) Rewind(_ context.Context, partition int) error {
	return fmt.Errorf("partition %d cannot be read again: no event was late", partition)
}

// streamWriter writes events as the processes' logs would.
type streamWriter struct {
	s     *streamSource
	maker *maker
	names []string
	keys  []tierlock.Key

	seqs    [streamProducers]uint64
	prevs   [streamProducers][streamPartitions]uint64
	offsets [streamPartitions]int64
	full    [streamPartitions]streamBatch
	open    endings
	beat    int64
	stopped bool
}

// streamBatch is one fetch of a partition in the making.
type streamBatch struct {
	bytes   []byte
	records []reconcile.Record
}

const fetchBytes = 1 << 20

func (w *streamWriter) run(holds int) {
	w.names = make([]string, streamProducers)
	for i := range w.names {
		w.names[i] = fmt.Sprintf("shop-%02d", i)
	}
	w.keys = make([]tierlock.Key, w.maker.keys)
	for i := range w.keys {
		w.keys[i], _ = tierlock.ParseKey(fmt.Sprintf("biz:coupon:lock:u%d", i)) // always valid
	}
	first := reconcile.Batch{}
	for p := range streamPartitions {
		first.Assigned = append(first.Assigned, reconcile.Mark{Partition: p})
	}
	w.send(first)
	w.markers(0, audit.TypeHello)
	for number := 0; number < holds && !w.stopped; number++ {
		h := w.maker.next()
		w.until(h.from)
		w.hold(audit.TypeAcquire, number, &h)
		if !h.crashed {
			heap.Push(&w.open, ending{h.to, number, h})
		}
	}
	last := int64(w.maker.now)
	for len(w.open) > 0 && !w.stopped {
		last = w.open[0].at
		w.until(last)
	}
	w.markers(last, audit.TypeSeal)
	for p := range w.full {
		w.flush(p)
	}
}

// until writes what comes before t.
func (w *streamWriter) until(t int64) {
	for len(w.open) > 0 && w.open[0].at <= t {
		e := heap.Pop(&w.open).(ending)
		w.beats(e.at)
		w.hold(audit.TypeEnd, e.number, &e.madeHold)
	}
	w.beats(t)
}

func (w *streamWriter) beats(t int64) {
	for ; w.beat+int64(beatEvery) <= t; w.beat += int64(beatEvery) {
		w.markers(w.beat+int64(beatEvery), audit.TypeHeartbeat)
	}
}

// stamp is a real time as a producer tells it.
func (w *streamWriter) stamp(producer int8, t int64) time.Time {
	return streamBegin.Add(time.Duration(t) + w.maker.clocks[producer].off).Truncate(time.Microsecond)
}

func (w *streamWriter) hold(kind audit.Type, number int, h *madeHold) {
	ev := audit.Event{
		Type: kind, Chain: "coupon", Key: w.keys[h.key], Holder: fmt.Sprintf("%016x", number), Tier: h.tier,
		Store: "main", GrantedAt: w.stamp(h.producer, h.from), TTL: streamTTL, ClockError: w.maker.clocks[h.producer].bound,
		Business: audit.Business{Type: "coupon", ID: w.keys[h.key].String()[len("biz:coupon:lock:"):], Op: "claim", Delta: 1},
	}
	if h.tier != tierlock.Shared {
		ev.Store = h.tier.String()
	}
	if h.tier == tierlock.Bypass {
		ev.Switch = audit.Switch{Version: 42, Reason: "Redis under DDoS"}
	}
	at := h.from
	if kind == audit.TypeEnd {
		ev.TTL, ev.EndedAt, ev.How, ev.Outcome = 0, w.stamp(h.producer, h.to), audit.Released, audit.Committed
		at = h.to
	}
	w.seqs[h.producer]++
	w.append(audit.PartitionOf(ev.Key.String(), streamPartitions), h.producer, at, &ev)
}

// markers writes one of every producer to every partition.
func (w *streamWriter) markers(t int64, kind audit.Type) {
	for p := range int8(streamProducers) {
		ev := audit.Event{Type: kind, At: w.stamp(p, t), First: 1, Last: w.seqs[p]}
		if kind == audit.TypeSeal {
			ev.Sealed, ev.Clean = 1, true
		}
		w.seqs[p]++
		for part := range streamPartitions {
			w.append(part, p, t, &ev)
		}
	}
}

func (w *streamWriter) append(part int, producer int8, t int64, ev *audit.Event) {
	ev.Producer, ev.Epoch, ev.Seq, ev.Prev = w.names[producer], 1, w.seqs[producer], w.prevs[producer][part]
	w.prevs[producer][part] = ev.Seq
	b := &w.full[part]
	if b.bytes == nil {
		b.bytes = make([]byte, 0, fetchBytes)
	}
	from := len(b.bytes)
	b.bytes = ev.AppendJSON(b.bytes)
	b.records = append(b.records, reconcile.Record{
		Partition: part, Offset: w.offsets[part], Time: streamBegin.Add(time.Duration(t)), Value: b.bytes[from:len(b.bytes):len(b.bytes)],
	})
	w.offsets[part]++
	if len(b.bytes) > fetchBytes-4096 {
		w.flush(part)
	}
}

func (w *streamWriter) flush(part int) {
	if b := w.full[part]; len(b.records) > 0 {
		w.full[part] = streamBatch{}
		w.send(reconcile.Batch{Records: b.records})
	}
}

func (w *streamWriter) send(b reconcile.Batch) {
	select {
	case w.s.batches <- b:
	case <-w.s.done:
		w.stopped = true
	}
}
