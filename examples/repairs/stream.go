package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
)

// stream is a topic of one partition in memory, in the place of Kafka: the events of holds as
// a daemon writes them, and where the job has committed. Both outlive a job.
type stream struct {
	key     tierlock.Key
	about   audit.Business
	records []reconcile.Record
	seq     map[string]uint64
	mark    reconcile.Mark
	at      int
	joined  bool
}

// chain is the flow whose lock is bypassed.
const chain = "flow"

// clockError is what the producers know of their clocks: they run on one host here.
const clockError = 10 * time.Microsecond

func (s *stream) write(ev audit.Event, producer string) {
	ev.Producer, ev.Epoch, ev.Seq, ev.Prev = producer, 1, s.seq[producer]+1, s.seq[producer]
	s.seq[producer] = ev.Seq
	s.records = append(s.records, reconcile.Record{Offset: int64(len(s.records)), Value: ev.AppendJSON(nil)})
}

// hold is one hold under an order to bypass, from its grant to its end.
type hold struct {
	producer, holder string
	from, to         time.Time
}

func (s *stream) event(h hold, kind audit.Type) audit.Event {
	ev := audit.Event{
		Type: kind, Chain: chain, Key: s.key, Holder: h.holder, Tier: tierlock.Bypass, Store: "bypass", GrantedAt: h.from,
		ClockError: clockError, Switch: audit.Switch{Version: 1, Reason: "the store is down"}, Business: s.about,
	}
	if kind == audit.TypeEnd {
		ev.EndedAt, ev.How, ev.Outcome = h.to, audit.Released, audit.Committed
	} else {
		ev.TTL = time.Minute
	}
	return ev
}

// tell writes both events of each hold.
func (s *stream) tell(holds ...hold) {
	for _, kind := range []audit.Type{audit.TypeAcquire, audit.TypeEnd} {
		for _, h := range holds {
			s.write(s.event(h, kind), h.producer)
		}
	}
}

// quiet is how long every producer must have been back on the shared tier. An example does
// not wait for the usual 20 s.
const quiet = time.Millisecond

// back has every producer say, and say again, that the order is over.
func (s *stream) back() {
	for _, at := range []time.Time{time.Now(), time.Now().Add(2 * quiet)} {
		for producer := range s.seq {
			s.write(audit.Event{Type: audit.TypeHeartbeat, At: at, First: 1, Last: s.seq[producer], Tiers: map[string]string{chain: "shared"}}, producer)
		}
	}
}

// join is what a new member of the consumer group gets; from the beginning with anew.
func (s *stream) join(anew bool) *stream {
	if anew {
		s.mark = reconcile.Mark{}
	}
	s.at, s.joined = int(s.mark.Offset), false
	return s
}

// Next implements [reconcile.Source]. It ends when everything has been read.
func (s *stream) Next(ctx context.Context) (reconcile.Batch, error) {
	switch {
	case ctx.Err() != nil:
		return reconcile.Batch{}, ctx.Err()
	case !s.joined:
		s.joined = true
		return reconcile.Batch{Assigned: []reconcile.Mark{s.mark}}, nil
	case s.at == len(s.records):
		return reconcile.Batch{}, io.EOF
	}
	records := s.records[s.at:]
	s.at = len(s.records)
	return reconcile.Batch{Records: records, CaughtUp: []int{0}}, nil
}

// Commit implements [reconcile.Source].
func (s *stream) Commit(_ context.Context, m reconcile.Mark) error { s.mark = m; return nil }

// Rewind implements [reconcile.Source].
func (s *stream) Rewind(context.Context, int) error { s.at = 0; return nil }

// alone grants the shared lock of repairs to the one job there is. In a service that is the
// gateway, on a real store.
type alone struct {
	mu    sync.Mutex
	token tierlock.Token
}

// DoShared implements [reconcile.Locker].
func (l *alone) DoShared(ctx context.Context, key tierlock.Key, fn func(context.Context, tierlock.Grant) error) error {
	l.mu.Lock()
	l.token++
	g := tierlock.Grant{Key: key, Chain: chain, Tier: tierlock.Shared, Token: l.token}
	l.mu.Unlock()
	return fn(ctx, g)
}

func keyOf(about audit.Business) (tierlock.Key, error) {
	return tierlock.ParseKey(fmt.Sprintf("biz:%s:lock:%s", chain, about.ID))
}
