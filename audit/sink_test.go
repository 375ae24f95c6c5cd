package audit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/spool/powerfs"
)

// memory is a sink that keeps what it is sent, as Kafka would.
type memory struct {
	mu    sync.Mutex
	n     int // partitions; zero: not reachable
	parts map[int][]audit.Message
	dead  []audit.Message
	calls int
	// fate decides over one message; nil: all are taken.
	fate  func(call int, m audit.Message) error
	hang  bool // Send returns only when its context ends
	moved bool // keys may be where they were before
}

func newMemory(n int) *memory { return &memory{n: n, parts: map[int][]audit.Message{}} }

var errAway = errors.New("not reachable")

func (s *memory) Partitions(context.Context) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		return 0, errAway
	}
	return s.n, nil
}

func (s *memory) Send(ctx context.Context, msgs []audit.Message) []error {
	s.mu.Lock()
	hang := s.hang
	s.mu.Unlock()
	errs := make([]error, len(msgs))
	if hang {
		<-ctx.Done()
		for i := range errs {
			errs[i] = ctx.Err()
		}
		return errs
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	broken := map[int]error{}
	for i, m := range msgs {
		if errs[i] = broken[m.Partition]; errs[i] != nil && m.Dead == "" {
			continue
		}
		if s.fate != nil {
			errs[i] = s.fate(s.calls, m)
		}
		switch {
		case errs[i] != nil && !errors.Is(errs[i], audit.ErrPoison):
			broken[m.Partition] = errs[i]
		case errs[i] != nil:
		case m.Dead != "":
			s.dead = append(s.dead, m)
		default:
			s.parts[m.Partition] = append(s.parts[m.Partition], m)
		}
	}
	return errs
}

func (s *memory) set(change func(*memory)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// events parses everything in the sink, by partition, and checks what holds for every
// message: its key, its partition, its headers.
func (s *memory) events(t testing.TB) map[int][]audit.Event {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[int][]audit.Event{}
	for p, msgs := range s.parts {
		for _, m := range msgs {
			ev, err := audit.Parse(m.Value)
			if err != nil {
				t.Fatalf("%s: %v", m.Value, err)
			}
			want := ev.Key.String()
			if ev.Type.Marker() {
				want = ev.Producer
			} else if !s.moved && audit.PartitionOf(want, s.n) != p {
				t.Errorf("%s is in partition %d", want, p)
			}
			if string(m.Key) != want || header(m, "ce_id") != ev.EventID() || header(m, "ce_source") != ev.Producer ||
				header(m, "ce_type") != "tierlock."+string(ev.Type) || header(m, "ce_specversion") != "1.0" || header(m, "ce_time") == "" {
				t.Errorf("key %q, headers %q of %s", m.Key, m.Headers, m.Value)
			}
			all[p] = append(all[p], ev)
		}
	}
	return all
}

func header(m audit.Message, key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// account follows the whole sink and returns the only producer's account.
func (s *memory) account(t testing.TB) audit.Account {
	t.Helper()
	var chain audit.Chain
	for p, list := range s.events(t) {
		for i := range list {
			chain.Add(p, &list[i])
		}
	}
	all := chain.Accounts()
	if len(all) != 1 {
		t.Fatalf("%d producers", len(all))
	}
	return all[0]
}

// ofType collects the events of a type, each once.
func (s *memory) ofType(t testing.TB, want audit.Type) (list []audit.Event) {
	t.Helper()
	seen := map[uint64]bool{}
	for _, events := range s.events(t) {
		for _, ev := range events {
			if ev.Type == want && !seen[ev.Seq] {
				seen[ev.Seq] = true
				list = append(list, ev)
			}
		}
	}
	return list
}

func config(disk *powerfs.FS, sink audit.Sink) audit.Config {
	return audit.Config{Dir: "/audit", Producer: "shop-1", FS: disk, Sink: sink, Quota: 1 << 20, Segment: 16 << 10}
}

func open(t testing.TB, cfg audit.Config) *audit.Log {
	t.Helper()
	l, err := audit.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

// grant is the acquire event of a bypass grant with its own request id.
func grant(t testing.TB, i int) audit.Event {
	t.Helper()
	return audit.Acquired(tierlock.Grant{
		Chain: "coupon", Key: key(t, fmt.Sprintf("biz:coupon:lock:%d", i)), RequestID: tierlock.NewRequestID(),
		Tier: tierlock.Bypass, Store: "bypass", AcquiredAt: time.Now(),
	}, 15*time.Second, 0)
}

func record(t testing.TB, l *audit.Log, i int) audit.Event {
	t.Helper()
	ev := grant(t, i)
	if err := l.Record(t.Context(), &ev); err != nil {
		t.Fatal(err)
	}
	return ev
}

func drain(t testing.TB, l *audit.Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := l.Drain(ctx); err != nil {
		t.Fatal(err)
	}
}

func shut(t testing.TB, l *audit.Log) {
	t.Helper()
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}
