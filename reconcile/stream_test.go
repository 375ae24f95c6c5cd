package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// stream is an in-memory source: one member that owns every partition. What it has handed
// out and what was committed outlive a job, so that a job can be stopped and another begun.
type stream struct {
	mu       sync.Mutex
	logs     map[int][]Record
	at       map[int]int
	marks    map[int]Mark
	pending  Batch
	wake     chan struct{}
	endless  bool // Next waits at the end; else io.EOF
	size     int  // records in a batch
	rewinds  int
	backward int // commits that took one back
	maxBatch int // batches until Next fails the test's way: context canceled by stop
	stop     func()
}

func newStream(partitions int) *stream {
	s := &stream{logs: map[int][]Record{}, at: map[int]int{}, marks: map[int]Mark{}, wake: make(chan struct{}, 1), size: 7}
	for p := range partitions {
		s.marks[p] = Mark{Partition: p}
		s.logs[p] = nil
	}
	return s
}

// join is what a new member gets: all partitions from their marks.
func (s *stream) join() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = Batch{}
	for _, p := range slices.Sorted(maps.Keys(s.marks)) {
		s.pending.Assigned = append(s.pending.Assigned, s.marks[p])
		s.at[p] = int(s.marks[p].Offset)
	}
	return s
}

func (s *stream) append(partition int, at time.Time, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs[partition] = append(s.logs[partition], Record{Partition: partition, Offset: int64(len(s.logs[partition])), Time: at, Value: value})
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *stream) Next(ctx context.Context) (Batch, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Batch{}, err
		}
		if b, ok := s.batch(); ok {
			return b, nil
		}
		if !s.endless {
			return Batch{}, io.EOF
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
		case <-time.After(time.Second):
			return s.idle(), nil
		}
	}
}

// idle says again that everything has been handed out.
func (s *stream) idle() (b Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range slices.Sorted(maps.Keys(s.logs)) {
		if s.at[p] == len(s.logs[p]) {
			b.CaughtUp = append(b.CaughtUp, p)
		}
	}
	return b
}

func (s *stream) batch() (Batch, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		if s.maxBatch--; s.maxBatch < 0 {
			s.stop()
			return Batch{}, true
		}
	}
	b := s.pending
	s.pending = Batch{}
	if len(b.Assigned) > 0 || len(b.Revoked) > 0 || len(b.Lost) > 0 || b.Width > 0 {
		return b, true
	}
	for _, p := range slices.Sorted(maps.Keys(s.logs)) {
		from, log := s.at[p], s.logs[p]
		if from >= len(log) {
			continue
		}
		to := min(from+s.size, len(log))
		b.Records = slices.Clone(log[from:to])
		s.at[p] = to
		if to == len(log) {
			b.CaughtUp, b.AsOf = []int{p}, time.Now()
		}
		return b, true
	}
	return b, false
}

func (s *stream) Commit(_ context.Context, m Mark) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Offset < s.marks[m.Partition].Offset {
		s.backward++
	}
	s.marks[m.Partition] = m
	return nil
}

func (s *stream) Rewind(_ context.Context, partition int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[partition] = 0
	s.rewinds++
	return nil
}

// store keeps findings in memory, by the rule of Findings.
type store struct {
	mu   sync.Mutex
	by   map[string]Finding
	puts int
	fail int // the next so many Puts fail
}

func newStore() *store { return &store{by: map[string]Finding{}} }

func (s *store) Put(_ context.Context, f Finding) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail > 0 {
		s.fail--
		return fmt.Errorf("disk full")
	}
	s.puts++
	was, known := s.by[f.ID]
	if !known || f.Replaces(&was) {
		s.by[f.ID] = f
	}
	for _, id := range f.Supersedes() {
		if old, known := s.by[id]; known {
			old.State = StateSuperseded
			s.by[id] = old
		}
	}
	return nil
}

// of counts the findings of a kind that were ever stored, standing or not.
func (s *store) of(kind Kind) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.by {
		if f.Kind == kind {
			n++
		}
	}
	return n
}

// standing are the findings of a kind that stand, by id.
func (s *store) standing(kind Kind) []Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Finding
	for _, f := range s.by {
		if f.Kind == kind && f.State != StateSuperseded && f.State != StateWithdrawn {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b Finding) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Find implements [Finder].
func (s *store) Find(_ context.Context, id string) (Finding, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, found := s.by[id]
	return f, found, nil
}

// Standing implements [Recaller].
func (s *store) Standing(_ context.Context, key tierlock.Key) ([]Finding, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail > 0 {
		s.fail--
		return nil, fmt.Errorf("disk away")
	}
	var out []Finding
	for _, f := range s.by {
		if f.Key == key && f.Kind == KindOverlap && f.State != StateSuperseded && f.State != StateWithdrawn {
			out = append(out, f)
		}
	}
	return out, nil
}

// fingerprint is everything that must be the same after a restart.
func (s *store) fingerprint(tb testing.TB) string {
	tb.Helper()
	all := s.standing(KindOverlap)
	for i := range all {
		all[i].Revision = 0
	}
	text, err := json.Marshal(all)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// producer writes events as a log does: one seq for all, prev per partition, markers to
// every partition.
type producer struct {
	name  string
	epoch uint64
	seq   uint64
	prev  map[int]uint64
	s     *stream
	lag   time.Duration // from an event's time to its place in the stream
}

func (s *stream) producer(name string) *producer {
	return &producer{name: name, epoch: 1, prev: map[int]uint64{}, s: s}
}

// encode gives ev its place in the producer's log and returns the copy for each partition.
func (p *producer) encode(ev audit.Event, partitions []int) map[int][]byte {
	p.seq++
	ev.Producer, ev.Epoch, ev.Seq = p.name, p.epoch, p.seq
	out := map[int][]byte{}
	for _, n := range partitions {
		ev.Prev = p.prev[n]
		p.prev[n] = p.seq
		out[n] = ev.AppendJSON(nil)
	}
	return out
}

func (p *producer) write(ev audit.Event) {
	partitions := slices.Sorted(maps.Keys(p.s.logs))
	if !ev.Type.Marker() {
		partitions = []int{audit.PartitionOf(ev.Key.String(), len(partitions))}
	}
	for n, text := range p.encode(ev, partitions) {
		p.s.append(n, ev.Time().Add(p.lag), text)
	}
}

func (p *producer) beat(at time.Time, tiers map[string]string) {
	p.write(audit.Event{Type: audit.TypeHeartbeat, At: at, First: 1, Last: p.seq, Tiers: tiers})
}

func (p *producer) seal(at time.Time) {
	p.write(audit.Event{Type: audit.TypeSeal, At: at, Sealed: p.epoch, Clean: true, Last: p.seq})
}

// acquireOf and endOf are the events of a hold.
func acquireOf(iv *Interval) audit.Event {
	return audit.Event{
		Type: audit.TypeAcquire, Chain: iv.Chain, Key: iv.Key, Holder: iv.Holder, Tier: iv.Tier, Store: iv.Store,
		GrantedAt: iv.GrantedAt, TTL: ttl, ClockError: iv.Error, Business: iv.Business, Switch: iv.Switch,
	}
}

func endOf(iv *Interval) audit.Event {
	ev := acquireOf(iv)
	ev.Type, ev.TTL, ev.EndedAt, ev.How, ev.Outcome = audit.TypeEnd, 0, iv.EndedAt, iv.How, iv.Outcome
	return ev
}

// replay writes the events of a history in the order in which they were, with a heartbeat
// of every producer each half second and a seal at the end, and returns when it ends.
func (s *stream) replay(all []truth) {
	type moment struct {
		at time.Time
		do func()
	}
	producers := map[string]*producer{}
	var moments []moment
	last := base
	for i := range all {
		iv := &all[i].seen
		p := producers[iv.Producer]
		if p == nil {
			p = s.producer(iv.Producer)
			producers[iv.Producer] = p
		}
		moments = append(moments, moment{all[i].from, func() { p.write(acquireOf(iv)) }})
		if !iv.EndedAt.IsZero() {
			moments = append(moments, moment{all[i].to, func() { p.write(endOf(iv)) }})
		}
		if all[i].to.After(last) {
			last = all[i].to
		}
	}
	for at := base; at.Before(last.Add(5 * time.Second)); at = at.Add(500 * time.Millisecond) {
		moments = append(moments, moment{at, func() {
			for _, name := range slices.Sorted(maps.Keys(producers)) {
				producers[name].beat(at, nil)
			}
		}})
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return a.at.Compare(b.at) })
	for _, m := range moments {
		m.do()
	}
	for _, p := range producers {
		p.seal(last.Add(6 * time.Second))
	}
}

func mustJob(tb testing.TB, cfg Config) *Job {
	tb.Helper()
	j, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return j
}
