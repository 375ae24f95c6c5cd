package kafkasource

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
)

// needSoak leaves a long test out, unless it is wanted.
func needSoak(tb testing.TB) {
	tb.Helper()
	if os.Getenv("TIERLOCK_SOAK") == "" {
		tb.Skip("left out: takes long; run make soak")
	}
}

// feeder writes events as the logs of several producers do: one seq for all of a
// producer's, prev per partition, markers to every partition. It belongs to one goroutine.
type feeder struct {
	tb         testing.TB
	client     *kafka.Client
	partitions int
	seqs       map[string]uint64
	prevs      map[string][]uint64
	waiting    [][][2][]byte      // keys and values by partition
	n          int                // of them
	count      int                // written so far
	pace       func(at time.Time) // called after each part of a stream; nil: as fast as it goes
}

func newFeeder(tb testing.TB, brokers []string, partitions int, producers ...string) *feeder {
	tb.Helper()
	pool := &kafka.Transport{MetadataTopics: []string{EventsTopic}}
	tb.Cleanup(pool.CloseIdleConnections)
	f := &feeder{
		tb: tb, client: &kafka.Client{Addr: kafka.TCP(brokers...), Transport: pool, Timeout: time.Minute}, partitions: partitions,
		seqs: map[string]uint64{}, prevs: map[string][]uint64{}, waiting: make([][][2][]byte, partitions),
	}
	for _, name := range producers {
		f.prevs[name] = make([]uint64, partitions)
	}
	return f
}

// put queues ev; flush sends what is queued, each partition in order.
func (f *feeder) put(producer string, ev audit.Event) {
	f.seqs[producer]++
	ev.Producer, ev.Epoch, ev.Seq = producer, 1, f.seqs[producer]
	first, end, key := 0, f.partitions, producer
	if !ev.Type.Marker() {
		key = ev.Key.String()
		first = audit.PartitionOf(key, f.partitions)
		end = first + 1
	}
	for p := first; p < end; p++ {
		ev.Prev = f.prevs[producer][p]
		f.prevs[producer][p] = ev.Seq
		f.waiting[p] = append(f.waiting[p], [2][]byte{[]byte(key), ev.AppendJSON(nil)})
		f.n++
		f.count++
	}
}

func (f *feeder) flush(ctx context.Context) {
	f.tb.Helper()
	var all sync.WaitGroup
	for p, pairs := range f.waiting {
		if len(pairs) > 0 {
			all.Go(func() { f.produce(ctx, p, pairs) })
		}
		f.waiting[p] = nil
	}
	all.Wait()
	f.n = 0
}

// produce asks again until the partition has taken all: a topic that was just made refuses
// for a moment.
func (f *feeder) produce(ctx context.Context, partition int, pairs [][2][]byte) {
	for patience := time.Now().Add(time.Minute); ctx.Err() == nil; pause(50 * time.Millisecond) {
		records := make([]kafka.Record, len(pairs))
		for i, kv := range pairs {
			records[i] = kafka.Record{Key: kafka.NewBytes(kv[0]), Value: kafka.NewBytes(kv[1])}
		}
		res, err := f.client.Produce(ctx, &kafka.ProduceRequest{
			Topic: EventsTopic, Partition: partition, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...),
		})
		if err == nil {
			err = res.Error
		}
		switch {
		case err == nil:
			return
		case time.Now().After(patience):
			f.tb.Errorf("produce to partition %d: %v", partition, err)
			return
		}
	}
}

// beat writes one heartbeat of every producer, which reports tier for the chain.
func (f *feeder) beat(at time.Time, tier string) {
	for producer := range f.prevs {
		f.put(producer, audit.Event{Type: audit.TypeHeartbeat, At: at, Tiers: map[string]string{"coupon": tier}})
	}
}

const (
	spacing  = time.Millisecond      // from one grant to the next
	holdFor  = 20 * time.Millisecond // and how long each lasts
	keys     = 5_000                 // each is free again long before it is taken once more
	perClash = 250                   // one hold of so many has a rival
)

// stream writes holds bypass holds, one after the other in the stream's time, and among
// them clashes: two producers on one key at once, both for the same coupon. Its time ends
// now. It returns how many clashes there are.
func (f *feeder) stream(ctx context.Context, holds int, producers []string) (clashes int) {
	f.tb.Helper()
	at := time.Now().Add(-time.Duration(holds) * spacing)
	type end struct {
		producer string
		ev       audit.Event
	}
	var ends []end
	hold := func(producer string, i int, key tierlock.Key, biz audit.Business) {
		ev := audit.Event{
			Type: audit.TypeAcquire, Chain: "coupon", Key: key, Holder: fmt.Sprintf("%s-%d", producer, i), Tier: tierlock.Bypass, Store: "bypass",
			GrantedAt: at, TTL: 15 * time.Second, ClockError: time.Millisecond, Business: biz,
		}
		f.put(producer, ev)
		ev.Type, ev.TTL, ev.EndedAt, ev.How, ev.Outcome = audit.TypeEnd, 0, at.Add(holdFor), audit.Released, audit.Committed
		ends = append(ends, end{producer, ev})
	}
	for i := 0; i < holds && ctx.Err() == nil; i++ {
		for len(ends) > 0 && !ends[0].ev.EndedAt.After(at) {
			f.put(ends[0].producer, ends[0].ev)
			ends = ends[1:]
		}
		key, err := tierlock.ParseKey(fmt.Sprintf("biz:coupon:lock:u%d", i%keys))
		if err != nil {
			f.tb.Fatal(err)
		}
		one := producers[i%len(producers)]
		if i%perClash == perClash-1 {
			biz := audit.Business{Type: "coupon", ID: fmt.Sprintf("c%d", i)}
			hold(one, i, key, biz)
			hold(producers[(i+1)%len(producers)], i, key, biz)
			clashes++
		} else {
			hold(one, i, key, audit.Business{})
		}
		if i%1000 == 0 {
			f.beat(at, "bypass")
		}
		if f.n >= 4000 {
			f.flush(ctx)
			if f.pace != nil {
				f.pace(at)
			}
		}
		at = at.Add(spacing)
	}
	for _, e := range ends {
		f.put(e.producer, e.ev)
	}
	f.flush(ctx)
	return clashes
}

// claims is a business in which a coupon may be claimed once, and a clash has claimed it
// twice. It gives a claim back once for each repair's key.
type claims struct {
	mu      sync.Mutex
	by      map[string]int // coupon → claims; absent: two
	applied map[string]bool
	effects int
}

func newClaims() *claims { return &claims{by: map[string]int{}, applied: map[string]bool{}} }

func (c *claims) of(coupon string) int {
	if n, known := c.by[coupon]; known {
		return n
	}
	return 2
}

func (c *claims) hook() reconcile.Hook {
	return reconcile.Hook{
		Action: "give_back",
		Check: reconcile.CheckFunc(func(_ context.Context, k reconcile.Case) (int64, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return int64(c.of(k.Business.ID) - 1), nil
		}),
		Repair: giveBack{c},
	}
}

type giveBack struct{ c *claims }

func (g giveBack) Repair(_ context.Context, k reconcile.Case) (reconcile.Result, error) {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	switch n := g.c.of(k.Business.ID); {
	case g.c.applied[k.ID]:
		return reconcile.ResultAlready, nil
	case n <= 1:
		return reconcile.ResultClean, nil
	default:
		g.c.by[k.Business.ID], g.c.applied[k.ID] = n-1, true
		g.c.effects++
		return reconcile.ResultApplied, nil
	}
}

func (g giveBack) Applied(_ context.Context, k reconcile.Case) (bool, error) {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	return g.c.applied[k.ID], nil
}

// granting is a Locker whose lock is always free.
type granting struct{}

func (granting) DoShared(ctx context.Context, key tierlock.Key, fn func(context.Context, tierlock.Grant) error) error {
	return fn(ctx, tierlock.Grant{Key: key, Tier: tierlock.Shared, Token: 1})
}

// fingerprint is everything of the overlaps found that must not depend on who read what
// when: all but how far somebody had read, and what became of repairs.
func (m *memory) fingerprint(tb testing.TB) (text string, n int) {
	tb.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []reconcile.Finding
	for _, f := range m.by {
		if f.Kind != reconcile.KindOverlap {
			tb.Errorf("%s where nothing is missing: %+v", f.Kind, f.Gap)
			continue
		}
		f.Revision, f.State, f.Repairs = 0, "", nil
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b reconcile.Finding) int { return cmp.Compare(a.ID, b.ID) })
	b, err := json.Marshal(all)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b), len(all)
}

// overlapsIn counts the overlaps that are in a state; in any with "".
func (m *memory) overlapsIn(s reconcile.State) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.by {
		if f.Kind == reconcile.KindOverlap && (s == "" || f.State == s) {
			n++
		}
	}
	return n
}
