package incident

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
)

// begin is where the period of the tests begins; it lasts half an hour.
var begin = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return begin.Add(d) }

// stream is what producers would have sent, partition by partition.
type stream struct {
	tb         testing.TB
	partitions int
	records    [][]reconcile.Record
	seqs       map[string]uint64
	prevs      map[string]uint64 // by producer/partition
	holds      int
}

func newStream(tb testing.TB) *stream {
	const partitions = 3
	return &stream{
		tb: tb, partitions: partitions, records: make([][]reconcile.Record, partitions), seqs: map[string]uint64{}, prevs: map[string]uint64{},
	}
}

// put sends ev as producer's next event; it returns its seq. lost ones get a seq, and never
// arrive.
func (s *stream) put(producer string, ev audit.Event, lost bool) uint64 {
	s.seqs[producer]++
	ev.Producer, ev.Seq = producer, s.seqs[producer]
	if ev.Epoch == 0 {
		ev.Epoch = 1
	}
	for p := range s.partitions {
		if !ev.Type.Marker() && p != audit.PartitionOf(ev.Key.String(), s.partitions) {
			continue
		}
		id := fmt.Sprint(producer, "/", p)
		ev.Prev = s.prevs[id]
		s.prevs[id] = ev.Seq
		if !lost {
			s.append(p, ev.Key.String(), ev.Time(), ev.AppendJSON(nil))
		}
	}
	return ev.Seq
}

func (s *stream) append(partition int, key string, at time.Time, value []byte) {
	s.records[partition] = append(s.records[partition], reconcile.Record{
		Partition: partition, Offset: int64(len(s.records[partition])), Time: at, Key: []byte(key), Value: value,
	})
}

func (s *stream) hello(producer string, at time.Time) {
	s.put(producer, audit.Event{Type: audit.TypeHello, At: at}, false)
}

func (s *stream) seal(producer string, at time.Time) {
	s.put(producer, audit.Event{Type: audit.TypeSeal, At: at, Sealed: 1, First: 1, Last: s.seqs[producer], Clean: true}, false)
}

// beat sends a heartbeat; version 0 says that no order is in force.
func (s *stream) beat(producer string, at time.Time, tier string, version uint64) {
	s.put(producer, audit.Event{
		Type: audit.TypeHeartbeat, At: at, First: 1, Last: s.seqs[producer], Applied: version, PolicyHash: "5d41", Tiers: map[string]string{"coupon": tier},
	}, false)
}

// span is one hold of a test; it lasts from from, for as long as last says, zero: for ever.
type span struct {
	tier     tierlock.Tier
	id       string // of the coupon
	from     time.Time
	last     time.Duration
	how      audit.How
	outcome  audit.Work
	unsure   bool // no bound of the clock error
	lost     bool // its acquire never arrives
	reason   tierlock.Reason
	order    audit.Switch
	kind     string // business type, default coupon
	noRecord bool
	under    string // of the key, where that is not the coupon's
}

func key(tb testing.TB, id string) tierlock.Key {
	tb.Helper()
	k, err := tierlock.ParseKey("biz:coupon:lock:" + id)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// hold sends both ends and returns the seq of the first.
func (s *stream) hold(producer string, x span) uint64 {
	s.holds++
	if x.kind == "" {
		x.kind = "coupon"
	}
	ev := audit.Event{
		Type: audit.TypeAcquire, Chain: "coupon", Key: key(s.tb, x.id), Holder: fmt.Sprintf("%016x", s.holds), Tier: x.tier, Store: x.tier.String(),
		GrantedAt: x.from, TTL: 10 * time.Second, ClockError: time.Millisecond, Reason: x.reason, Switch: x.order,
		Business: audit.Business{Type: x.kind, ID: x.id, Op: "claim", Delta: 2},
	}
	if x.noRecord {
		ev.Business = audit.Business{}
	}
	if x.under != "" {
		ev.Key = key(s.tb, x.under)
	}
	if x.unsure {
		ev.ClockError = 0
	}
	seq := s.put(producer, ev, x.lost)
	if x.last == 0 {
		return seq
	}
	ev.Type, ev.How, ev.Outcome, ev.EndedAt, ev.Business, ev.Switch, ev.Store = audit.TypeEnd, x.how, x.outcome, x.from.Add(x.last), audit.Business{}, audit.Switch{}, ""
	if ev.How == "" {
		ev.How = audit.Released
	}
	s.put(producer, ev, false)
	return seq
}

func (s *stream) optimistic(producer, id string, at time.Time, reason tierlock.Reason, outcome audit.Work) {
	s.holds++
	ev := audit.Event{
		Type: audit.TypeOptimistic, Chain: "coupon", Key: key(s.tb, id), Holder: fmt.Sprintf("%016x", s.holds), Tier: tierlock.Optimistic, Reason: reason,
		Outcome: outcome, GrantedAt: at, ClockError: time.Millisecond, Business: audit.Business{Type: "coupon", ID: id},
	}
	if outcome != audit.Unknown {
		ev.EndedAt = at.Add(10 * time.Millisecond)
	}
	s.put(producer, ev, false)
}

// closed is the stream as a closed source that hands out a few records at a time.
type closed struct {
	records [][]reconcile.Record
	only    []int
	next    []int
	told    bool
	turn    int
	opened  time.Time
}

func (s *stream) source() *closed {
	return &closed{records: s.records, next: make([]int, s.partitions), opened: time.Now()}
}

func (c *closed) reads(p int) bool {
	for _, q := range c.only {
		if q == p {
			return true
		}
	}
	return c.only == nil
}

func (c *closed) Next(context.Context) (reconcile.Batch, error) {
	if !c.told {
		c.told = true
		var b reconcile.Batch
		for p := range c.records {
			if c.reads(p) {
				b.Assigned = append(b.Assigned, reconcile.Mark{Partition: p})
			}
		}
		return b, nil
	}
	for range c.records {
		p := c.turn % len(c.records)
		c.turn++
		if !c.reads(p) || c.next[p] >= len(c.records[p]) {
			continue
		}
		const few = 7
		to := min(c.next[p]+few, len(c.records[p]))
		b := reconcile.Batch{Records: c.records[p][c.next[p]:to]}
		if c.next[p] = to; to == len(c.records[p]) {
			b.CaughtUp, b.AsOf = []int{p}, c.opened
		}
		return b, nil
	}
	return reconcile.Batch{}, io.EOF
}

func (c *closed) Commit(context.Context, reconcile.Mark) error { return nil }

func (c *closed) Rewind(_ context.Context, p int) error {
	c.next[p] = 0
	return nil
}

func (c *closed) Close() error { return nil }

func (c *closed) Partitions() (out []Partition) {
	for p := range c.records {
		if c.reads(p) {
			out = append(out, Partition{Partition: p, To: int64(len(c.records[p]))})
		}
	}
	return out
}
