package daemon

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile/kafkasource"
)

// past writes events as producers would have sent them in a period that is over.
type past struct {
	*testing.T
	begin time.Time // of the period
	msgs  []kafka.Message
	seqs  map[string]uint64
	prevs map[string]uint64
	holds int
	lose  bool // the next event gets a seq and never arrives
}

const pastPartitions = 3 // as config has them

func newPast(t *testing.T) *past {
	return &past{T: t, begin: time.Now().Add(-time.Hour).UTC().Truncate(time.Second), seqs: map[string]uint64{}, prevs: map[string]uint64{}}
}

func (p *past) at(d time.Duration) time.Time { return p.begin.Add(d) }

func (p *past) put(producer string, ev audit.Event) {
	p.seqs[producer]++
	ev.Producer, ev.Epoch, ev.Seq = producer, 1, p.seqs[producer]
	key := ev.Key.String()
	if ev.Type.Marker() {
		key = producer
	}
	for part := range pastPartitions {
		if !ev.Type.Marker() && part != audit.PartitionOf(key, pastPartitions) {
			continue
		}
		id := fmt.Sprint(producer, "/", part)
		ev.Prev = p.prevs[id]
		p.prevs[id] = ev.Seq
		if !p.lose {
			p.msgs = append(p.msgs, kafka.Message{Key: []byte(key), Value: ev.AppendJSON(nil), Time: ev.Time(), WriterData: part})
		}
	}
	p.lose = false
}

// grant is one hold of the coupon chain that lasts for last; zero: nobody told its end.
func (p *past) grant(producer, id string, tier tierlock.Tier, from, last time.Duration, unsure bool) {
	p.holds++
	key, err := tierlock.ParseKey("biz:coupon:lock:" + id)
	if err != nil {
		p.Fatal(err)
	}
	ev := audit.Event{
		Type: audit.TypeAcquire, Chain: "coupon", Key: key, Holder: fmt.Sprintf("%016x", p.holds), Tier: tier, Store: tier.String(), GrantedAt: p.at(from),
		TTL: 10 * time.Second, ClockError: time.Millisecond, Business: audit.Business{Type: "coupon", ID: id, Op: "claim", Delta: 3},
	}
	if tier == tierlock.Bypass {
		ev.Switch, ev.Reason = audit.Switch{Version: 7, Reason: "store under attack"}, tierlock.ReasonForced
	}
	if unsure {
		ev.ClockError = 0
	}
	p.put(producer, ev)
	if last == 0 {
		return
	}
	ev.Type, ev.How, ev.Outcome, ev.EndedAt = audit.TypeEnd, audit.Released, audit.Committed, p.at(from+last)
	ev.Business, ev.Switch = audit.Business{}, audit.Switch{}
	p.put(producer, ev)
}

func (p *past) answer(producer, id string, from time.Duration, outcome audit.Work) {
	p.holds++
	key, _ := tierlock.ParseKey("biz:order:lock:" + id)
	ev := audit.Event{
		Type: audit.TypeOptimistic, Chain: "order", Key: key, Holder: fmt.Sprintf("%016x", p.holds), Tier: tierlock.Optimistic, Reason: tierlock.ReasonSlow,
		Outcome: outcome, GrantedAt: p.at(from), ClockError: time.Millisecond, Business: audit.Business{Type: "stock", ID: id},
	}
	if outcome != audit.Unknown {
		ev.EndedAt = p.at(from + 5*time.Millisecond)
	}
	p.put(producer, ev)
}

// What tell makes, for the tests to compare with.
const (
	pairs   = 10 // coupons claimed twice at once: certain, by bypass
	singles = 20 // bypassed alone
)

// tell is the whole story: two processes live from before the period until after it.
func (p *past) tell() *past {
	for _, shop := range []string{"shop-1", "shop-2"} {
		p.put(shop, audit.Event{Type: audit.TypeHello, At: p.at(-14 * time.Minute)})
	}
	for minute := -13; minute <= 35; minute++ {
		m := time.Duration(minute) * time.Minute
		tier, version := "shared", uint64(0)
		if minute >= 5 && minute < 20 {
			tier, version = "bypass", 7
		}
		refused := uint64(2) // before the period; 5 more in it, and 5 after
		if minute >= 10 {
			refused += 5
		}
		if minute > 30 {
			refused += 5
		}
		for _, shop := range []string{"shop-1", "shop-2"} {
			p.put(shop, audit.Event{
				Refused: audit.Refused{"order": {"system_error down": refused}},
				Type:    audit.TypeHeartbeat, At: p.at(m), First: 1, Last: p.seqs[shop], Applied: version, PolicyHash: "5d41",
				Tiers: map[string]string{"coupon": tier, "order": "shared"},
			})
		}
		p.minute(minute, m)
	}
	for _, shop := range []string{"shop-1", "shop-2"} {
		p.put(shop, audit.Event{Type: audit.TypeSeal, At: p.at(36 * time.Minute), Sealed: 1, First: 1, Last: p.seqs[shop], Clean: true})
	}
	return p
}

func (p *past) minute(minute int, m time.Duration) {
	switch minute {
	case -5, 32: // outside the period
		p.grant("shop-1", fmt.Sprint("out", minute), tierlock.Bypass, m, time.Second, false)
	case -1: // and one that reaches in
		p.grant("shop-1", "reaches", tierlock.Shared, m, 2*time.Minute, false)
	case 6:
		for i := range pairs {
			p.grant("shop-1", fmt.Sprint("u", i), tierlock.Bypass, m+time.Duration(i)*time.Second, 500*time.Millisecond, false)
			p.grant("shop-2", fmt.Sprint("u", i), tierlock.Bypass, m+time.Duration(i)*time.Second+100*time.Millisecond, 200*time.Millisecond, false)
		}
	case 8:
		for i := range singles {
			p.grant("shop-2", fmt.Sprint("s", i), tierlock.Bypass, m+time.Duration(i)*time.Second, 500*time.Millisecond, false)
		}
	case 21:
		for i := range 4 {
			p.grant("shop-1", fmt.Sprint("l", i), tierlock.Local, m, time.Second, false)
		}
		p.grant("shop-1", "l4", tierlock.Local, m, 0, false)
		p.grant("shop-1", "maybe", tierlock.Local, m, time.Second, true)
		p.grant("shop-2", "maybe", tierlock.Local, m+1200*time.Millisecond, time.Second, true)
	case 22:
		for i, outcome := range []audit.Work{audit.Committed, audit.Committed, audit.RolledBack, audit.Unknown, audit.Unknown, audit.Unknown} {
			p.answer("shop-2", fmt.Sprint("o", i), m, outcome)
		}
	case 25:
		for i := range 4 {
			p.grant("shop-2", fmt.Sprint("c", i), tierlock.Shared, m, time.Second, false)
		}
	}
}

// send makes the topics and writes what was told.
func (p *past) send(c Config) {
	p.Helper()
	conf, err := c.Audit.Kafka.conf(c.Reconcile.topic(), slog.New(slog.DiscardHandler))
	if err != nil {
		p.Fatal(err)
	}
	r := &Reconciler{base: base{cfg: c, log: slog.New(slog.DiscardHandler)}}
	if err := r.openKafka(false); err != nil {
		p.Fatal(err)
	}
	defer r.release()
	until(p.T, "the topics are there", func() bool { return r.sink.EnsureTopics(p.Context()) == nil })
	events, err := c.openEvents(slog.New(slog.DiscardHandler), time.Time{}, []int{0, 1, 2})
	if err != nil {
		p.Fatal(err)
	}
	defer events.Close()
	if err := events.Open(p.Context()); err != nil { // tries until every partition has a leader
		p.Fatal(err)
	}
	pool := &kafka.Transport{TLS: conf.TLS}
	defer pool.CloseIdleConnections()
	w := &kafka.Writer{
		Addr: kafka.TCP(c.Audit.Kafka.Brokers...), Topic: kafkasource.EventsTopic, Transport: pool, RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond,
		Balancer: kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return m.WriterData.(int) }),
	}
	defer w.Close()
	if err := w.WriteMessages(p.Context(), p.msgs...); err != nil {
		p.Fatal(err)
	}
}

// file writes c so that a command line can name it.
func (p *past) file(redis, broker, database string) string {
	return write(p.T, fmt.Sprintf(`
service: shop
stores: {main: {kind: redis, addrs: [%q], timeout: 2s}}
audit: {dir: %q, kafka: {brokers: [%q], partitions: %d}}
log: {level: error}
reconcile:
  listen: "127.0.0.1:0"
  lateness: 10ms
%schains:
  order: {class: strong, protects: "one sale of a sku at a time", on_lost: fence, attempt: 2s}
  coupon: {class: weak, protects: "one claim of a coupon per user at a time", on_lost: reconcile, local: {permits: 1}, attempt: 2s}
`, redis, p.TempDir(), broker, pastPartitions, database))
}

func (p *past) incident() string {
	return p.begin.Format(time.RFC3339) + ".." + p.at(30*time.Minute).Format(time.RFC3339)
}
