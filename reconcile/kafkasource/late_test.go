package kafkasource

import (
	"maps"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

// Two clashes are repaired. Then a process that was cut off delivers a hold which began
// before the first and one that joins both to one group, each of the record that was
// clashed over. So who lost is decided anew: those that were first have lost too now and are
// given back, and what was given back is not given back again, though the finding has another
// id and other members.
func TestEarlierAndMergingMembersRepairNothingTwice(t *testing.T) { lateMembers(t, broker(t, 1)) }

func TestSoakEarlierAndMergingMembersRepairNothingTwiceOnKafka(t *testing.T) {
	needSoak(t)
	brokers := []string{servers.Kafka(t).Addr()}
	createTopics(t, brokers, 1)
	lateMembers(t, brokers)
}

func lateMembers(t *testing.T, brokers []string) {
	found, shop := &memory{by: map[string]reconcile.Finding{}}, newClaims()
	shop.by["c1"], shop.by["c2"] = 3, 3 // that of the process which is cut off as well
	f := newFeeder(t, brokers, 1, "p", "q", "cut")
	key, err := tierlock.ParseKey("biz:coupon:lock:u1")
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now().Add(-10 * time.Second)
	beat := func(producers ...string) {
		for _, p := range producers {
			f.put(p, audit.Event{Type: audit.TypeHeartbeat, At: time.Now(), Tiers: map[string]string{"coupon": "shared"}})
		}
		f.flush(t.Context())
	}
	hold := func(producer, holder, coupon string, from, to time.Duration) {
		ev := audit.Event{
			Type: audit.TypeAcquire, Chain: "coupon", Key: key, Holder: holder, Tier: tierlock.Bypass, Store: "bypass",
			GrantedAt: begin.Add(from), TTL: 15 * time.Second, ClockError: time.Millisecond,
		}
		if coupon != "" {
			ev.Business = audit.Business{Type: "coupon", ID: coupon}
		}
		f.put(producer, ev)
		ev.Type, ev.TTL, ev.EndedAt, ev.How, ev.Outcome = audit.TypeEnd, 0, begin.Add(to), audit.Released, audit.Committed
		f.put(producer, ev)
	}
	f.put("cut", audit.Event{Type: audit.TypeHello, At: begin.Add(-time.Second)})
	hold("p", "a", "c1", 0, time.Second)
	hold("q", "b", "c1", 500*time.Millisecond, 1500*time.Millisecond)
	hold("p", "c", "c2", 3*time.Second, 4*time.Second)
	hold("q", "d", "c2", 3500*time.Millisecond, 4500*time.Millisecond)
	f.flush(t.Context())

	idle := func(c *reconcile.Config) { c.Idle = 3 * time.Second } // after that nobody waits for the one that is cut off
	m, leave := enter(t, brokers, "", found, shop, idle)
	defer leave()
	await(t, "two repairs", func() bool { beat("p", "q"); return found.overlapsIn(reconcile.StateRepaired) == 2 })

	hold("cut", "earlier", "c1", -500*time.Millisecond, 700*time.Millisecond)
	hold("cut", "merging", "c2", 1200*time.Millisecond, 3200*time.Millisecond)
	await(t, "one group of all six, repaired already", func() bool {
		beat("p", "q", "cut")
		whole, ok := found.withMembers(6)
		return ok && whole.Members[0].Holder == "earlier" && whole.State == reconcile.StateRepaired
	})
	whole, _ := found.withMembers(6)
	holders := map[string]string{}
	for i := range whole.Members {
		holders[whole.Members[i].Event] = whole.Members[i].Holder
	}
	got := map[string]reconcile.Result{}
	for _, r := range whole.Repairs {
		got[holders[r.Loser]] = r.Result
	}
	want := map[string]reconcile.Result{
		"a": reconcile.ResultApplied, "b": reconcile.ResultAlready, "c": reconcile.ResultApplied, "d": reconcile.ResultAlready,
	}
	if !maps.Equal(got, want) {
		t.Errorf("repairs %v, want %v", got, want)
	}
	shop.mu.Lock()
	defer shop.mu.Unlock()
	if shop.effects != 4 || shop.by["c1"] != 1 || shop.by["c2"] != 1 || m.job.Stats().Rereads == 0 {
		t.Errorf("%d effects of four that lost, claims %v, %d rereads", shop.effects, shop.by, m.job.Stats().Rereads)
	}
}

// withMembers is a finding of so many members.
func (m *memory) withMembers(n int) (reconcile.Finding, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.by {
		if len(f.Members) == n {
			return f, true
		}
	}
	return reconcile.Finding{}, false
}
