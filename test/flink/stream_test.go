package flink

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// partitions of the made topic.
const partitions = 3

// process is one producer of a made trail.
type process struct {
	name       string
	off, bound time.Duration // bound zero: it does not know how far its clock may be off
	late       bool          // what it wrote lay in its spool for hours
	fresh      bool          // what it wrote was appended just now: it is not silent
	end        string        // sealed, alive, silent, or again: it crashed halfway and came back

	epoch, seq uint64
	prev       [partitions]uint64
}

func fleet() []*process {
	return []*process{
		{name: "good-1", off: 300 * time.Microsecond, bound: time.Millisecond, fresh: true, end: "sealed"},
		{name: "good-2", off: -4 * time.Millisecond, bound: 5 * time.Millisecond, end: "alive"},
		{name: "spooled", off: -200 * time.Microsecond, bound: time.Millisecond, late: true, end: "sealed"},
		{name: "liar", off: 5 * time.Second, bound: time.Millisecond, end: "sealed"},
		{name: "unknown", off: -300 * time.Millisecond, end: "sealed"},
		{name: "dead", off: 100 * time.Microsecond, bound: time.Millisecond, end: "silent"},
		{name: "again", bound: 2 * time.Millisecond, fresh: true, end: "again"},
	}
}

// write is one event on its way into its process's log, at its real time.
type write struct {
	at time.Time
	by *process
	ev audit.Event
}

// trail is what lies in Kafka.
type trail struct {
	rng     *rand.Rand
	begin   time.Time
	writes  []write
	records [partitions][]kafka.Message
	late    [partitions][]kafka.Message // those of processes whose spool came hours later
	planted map[string]int              // what was made, by name
}

const (
	holdTTL = 3 * time.Second
	mostTTL = time.Minute
	beat    = 5 * time.Second
)

// made is a trail of so many holds, some hours old.
func made(t *testing.T, seed uint64, holds int) *trail {
	tr := &trail{rng: rand.New(rand.NewPCG(seed, 32)), begin: time.Now().UTC().Add(-3 * time.Hour).Truncate(time.Microsecond), planted: map[string]int{}}
	processes := fleet()
	at, free := tr.begin, map[string]time.Time{}
	for i := range holds {
		at = at.Add(time.Duration(tr.rng.IntN(50_000)) * time.Microsecond)
		tr.hold(t, i, processes, at, free)
	}
	end := at.Add(10 * time.Second)
	for _, p := range processes {
		tr.life(p, end)
	}
	slices.SortStableFunc(tr.writes, func(a, b write) int { return a.at.Compare(b.at) })
	for _, w := range tr.writes {
		tr.encode(w)
	}
	tr.trouble()
	return tr
}

// life writes a process's markers: it comes, gives signs, and ends in its own way.
func (tr *trail) life(p *process, end time.Time) {
	mark := func(at time.Time, ev audit.Event) {
		ev.At = at.Add(p.off)
		tr.writes = append(tr.writes, write{at, p, ev})
	}
	mark(tr.begin.Add(-time.Second), audit.Event{Type: audit.TypeHello})
	half := tr.begin.Add(end.Sub(tr.begin) / 2)
	for at := tr.begin; at.Before(end); at = at.Add(beat) {
		mark(at, audit.Event{Type: audit.TypeHeartbeat})
		if p.end == "again" && !at.Before(half) && at.Add(-beat).Before(half) {
			mark(at.Add(time.Millisecond), audit.Event{Type: audit.TypeHello}) // see encode
			mark(at.Add(2*time.Millisecond), audit.Event{Type: audit.TypeSeal, Sealed: 1})
		}
	}
	switch p.end {
	case "sealed":
		mark(end, audit.Event{Type: audit.TypeSeal, Sealed: 1, Clean: true})
	case "alive":
		mark(time.Now(), audit.Event{Type: audit.TypeHeartbeat})
	}
}

// hold makes one hold, of any sort.
func (tr *trail) hold(t *testing.T, i int, processes []*process, from time.Time, free map[string]time.Time) {
	rng := tr.rng
	p := pick(rng, processes...)
	name := fmt.Sprintf("biz:coupon:lock:k%d", rng.IntN(14))
	to := from.Add(time.Duration(1+rng.IntN(120_000)) * time.Microsecond)
	if rng.IntN(12) == 0 {
		to = from.Add(time.Duration(1500+rng.IntN(3000)) * time.Millisecond)
	}
	ev := audit.Event{
		Type: audit.TypeAcquire, Chain: "coupon", Key: key(t, name), Holder: fmt.Sprintf("h%06d", i),
		Tier:      pick(rng, tierlock.Shared, tierlock.Shared, tierlock.Shared, tierlock.Local, tierlock.Bypass, tierlock.Optimistic),
		GrantedAt: from.Add(p.off), TTL: holdTTL, ClockError: p.bound,
	}
	if ev.Tier == tierlock.Shared && from.Before(free[name]) && rng.IntN(30) > 0 { // now and then the store gives twice
		ev.Tier = tierlock.Bypass
	}
	ev.Store = ev.Tier.String()
	if ev.Tier == tierlock.Shared {
		free[name], ev.Store, ev.Exclusive, ev.Token = to, "main", true, tierlock.Token(from.UnixMicro())
	}
	if rng.IntN(3) == 0 {
		before := int64(rng.IntN(4))
		ev.Business = audit.Business{Type: "coupon", ID: name[len(name)-2:], Op: "claim", Delta: 1, Before: &before}
	}
	ev.Outcome = pick(rng, audit.Committed, audit.Committed, audit.RolledBack, audit.Unknown)
	ended := ev
	ended.Type, ended.EndedAt, ended.How, ended.TTL, ended.Business = audit.TypeEnd, to.Add(p.off), audit.Released, 0, audit.Business{}
	if ev.Tier == tierlock.Optimistic {
		ended.Type, ended.Business, ended.How = audit.TypeOptimistic, ev.Business, ""
		tr.add(to, p, ended, "optimistic")
		return
	}
	switch rng.IntN(24) {
	case 0: // nobody tells the end
		if rng.IntN(2) == 0 {
			ev.MaxHold = mostTTL
		}
		tr.add(from, p, ev, "crashed")
		return
	case 1: // the acquire is lost
		tr.add(to, p, ended, "no acquire")
		return
	case 2: // another process gives it back, and tells its own times
		q := pick(rng, processes...)
		tr.add(from, p, ev, "attached")
		ended.GrantedAt, ended.EndedAt, ended.ClockError = from.Add(q.off).Add(time.Millisecond), to.Add(q.off).Add(time.Millisecond), q.bound
		tr.add(to, q, ended, "")
		return
	case 3, 4:
		ended.How = pick(rng, audit.Lost, audit.Expired, audit.Forced)
		if rng.IntN(2) == 0 { // and then unlocked
			again := ended
			again.How, again.EndedAt = audit.Released, ended.EndedAt.Add(20*time.Millisecond)
			tr.add(to.Add(20*time.Millisecond), p, again, "ended twice")
		}
	}
	tr.add(from, p, ev, string(ended.How))
	tr.add(to, p, ended, "")
}

func (tr *trail) add(at time.Time, by *process, ev audit.Event, name string) {
	tr.writes = append(tr.writes, write{at, by, ev})
	if name != "" {
		tr.planted[name]++
	}
}

// encode gives an event its place in its process's log, and its record.
func (tr *trail) encode(w write) {
	p, ev := w.by, w.ev
	if ev.Type == audit.TypeHello {
		p.epoch++
	}
	p.seq++
	ev.Producer, ev.Epoch, ev.Seq = p.name, p.epoch, p.seq
	for _, n := range partitionsOf(&ev) {
		ev.Prev = p.prev[n]
		p.prev[n] = p.seq
		m := kafka.Message{Partition: n, Key: []byte(ev.Key.String()), Value: ev.AppendJSON(nil), Time: w.at}
		if p.fresh {
			m.Time = time.Now()
		}
		to := &tr.records[n]
		if p.late {
			to = &tr.late[n]
		}
		*to = append(*to, m)
		if ev.Type == audit.TypeAcquire && tr.rng.IntN(30) == 0 { // another event under the same id: it is no second hold
			ev.Holder = "again-" + ev.Holder
			m.Value = ev.AppendJSON(nil)
			*to = append(*to, m)
		}
	}
}

func partitionsOf(ev *audit.Event) []int {
	if !ev.Type.Marker() {
		return []int{audit.PartitionOf(ev.Key.String(), partitions)}
	}
	all := make([]int, partitions)
	for n := range all {
		all[n] = n
	}
	return all
}

// trouble is what a bad network makes of it: a fifth of all records come twice, neighbours
// change places, some are no event.
func (tr *trail) trouble() {
	for n := range partitions {
		tr.records[n], tr.late[n] = tr.mix(n, tr.records[n]), tr.mix(n, tr.late[n])
	}
}

func (tr *trail) mix(n int, in []kafka.Message) (out []kafka.Message) {
	for block := range slices.Chunk(in, 24) {
		mixed := slices.Clone(block)
		for _, m := range block {
			if tr.rng.IntN(5) == 0 {
				mixed = append(mixed, m)
			}
		}
		tr.rng.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if tr.rng.IntN(3) == 0 {
			mixed = append(mixed, kafka.Message{Partition: n, Value: tr.refused(), Time: block[0].Time})
		}
		out = append(out, mixed...)
	}
	return out
}

func (tr *trail) refused() []byte {
	at := tr.begin.Add(time.Duration(tr.rng.IntN(10)) * time.Second).Format(time.RFC3339Nano)
	return bytes.ReplaceAll(pick(tr.rng, refused...), []byte("AT"), []byte(at))
}

// refused are records that neither job may take for an event; each would be a hold that
// overlaps others of its key. AT is a time.
var refused = [][]byte{
	[]byte("no json"),
	[]byte(`{"v":2,"type":"hello","id":"x/1/1","producer":"x","epoch":1,"seq":1,"prev":0,"at":"AT"}`),
	[]byte(`{"v":1,"type":"acquire","id":"x/1/2","producer":"x","epoch":1,"seq":3,"prev":0,"chain":"coupon","key":"biz:coupon:lock:k1","holder":"hx","tier":"bypass","granted_at":"AT"}`),
	[]byte(`{"v":1,"type":"acquire","id":"x/1/4","producer":"x","epoch":1,"seq":4,"prev":0,"chain":"coupon","key":"biz coupon","holder":"hx","tier":"bypass","granted_at":"AT"}`),
	[]byte(`{"v":1,"type":"end","id":"x/1/5","producer":"x","epoch":1,"seq":5,"prev":0,"chain":"coupon","key":"biz:coupon:lock:k1","holder":"hx","tier":"bypass","how":"gone","granted_at":"AT","ended_at":"AT"}`),
}
