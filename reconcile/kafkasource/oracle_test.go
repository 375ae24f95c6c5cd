package kafkasource

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

// The oracle of package reconcile, over Kafka: holds of hosts whose clocks are up to 5 s off,
// known to be or not, crashed holders, records twice and shuffled, one host whose spool comes
// six hours late. Every overlap beyond the margin is found, and is certain where it must be; no
// pair is certain that did not overlap or of which one end is not known; what was rolled back
// puts nothing at risk; two replays find byte for byte what the job that saw it all live has.
func TestOracleOverKafka(t *testing.T) {
	t.Run("in process", func(t *testing.T) { oracle(t, broker(t, 3), 1, 500) })
	t.Run("on servers", func(t *testing.T) {
		brokers := []string{servers.Kafka(t).Addr()}
		createTopics(t, brokers, 3)
		oracle(t, brokers, 2, 500)
	})
}

func TestSoakOracleOverKafka(t *testing.T) {
	needSoak(t)
	brokers := []string{servers.Kafka(t).Addr()}
	createTopics(t, brokers, 3)
	oracle(t, brokers, 3, 50_000)
}

// host is a process. bound zero: it does not know how far its clock may be off.
type host struct {
	name       string
	off, bound time.Duration
}

var hosts = []host{
	{"good-1", 300 * time.Microsecond, time.Millisecond},
	{"good-2", -900 * time.Microsecond, time.Millisecond},
	{"good-3", 4 * time.Millisecond, 5 * time.Millisecond},
	{spooled, -200 * time.Microsecond, time.Millisecond},
	{"ahead", 5 * time.Second, 5100 * time.Millisecond},
	{"behind", -5 * time.Second, 5100 * time.Millisecond},
	{"unknown-ahead", 5 * time.Second, 0},
	{"unknown-behind", -5 * time.Second, 0},
}

const (
	spooled  = "spooled" // what it wrote comes six hours after it was
	holdsTTL = 3 * time.Second
)

// lived is one hold as it really was.
type lived struct {
	host     host
	from, to time.Time
	key      tierlock.Key
	tier     tierlock.Tier
	crashed  bool // nobody told its end
	undone   bool
}

func (a *lived) overlap(b *lived) time.Duration {
	from, to := a.from, a.to
	if b.from.After(from) {
		from = b.from
	}
	if b.to.Before(to) {
		to = b.to
	}
	return to.Sub(from)
}

// beyond tells whether they overlapped by so much that it must be certain.
func (a *lived) beyond(b *lived) bool {
	return !a.crashed && !b.crashed && a.host.bound > 0 && b.host.bound > 0 && a.overlap(b) > 2*(a.host.bound+b.host.bound)+time.Millisecond
}

// live makes holds from begin on; shared ones of one key never overlap.
func live(t *testing.T, rng *rand.Rand, begin time.Time, holds int) []lived {
	keys := max(12, holds/40)
	free := map[string]time.Time{}
	all := make([]lived, holds)
	at := begin
	for i := range all {
		at = at.Add(time.Duration(rng.IntN(720_000/keys)) * time.Microsecond)
		name := fmt.Sprintf("biz:coupon:lock:k%d", rng.IntN(keys))
		if i%2 == 0 { // few holds on a key make small findings, in which one pair too many shows
			name = fmt.Sprintf("biz:coupon:lock:quiet%d", rng.IntN(8*keys))
		}
		key, err := tierlock.ParseKey(name)
		if err != nil {
			t.Fatal(err)
		}
		h := lived{
			host: hosts[rng.IntN(len(hosts))], from: at, to: at.Add(time.Duration(1+rng.IntN(150_000)) * time.Microsecond), key: key,
			tier: []tierlock.Tier{tierlock.Shared, tierlock.Local, tierlock.Bypass}[rng.IntN(3)], crashed: rng.IntN(20) == 0,
		}
		if rng.IntN(10) == 0 {
			h.to = at.Add(time.Duration(2000+rng.IntN(1000)) * time.Millisecond)
		}
		if h.undone = !h.crashed && rng.IntN(3) == 0; h.tier == tierlock.Shared && at.Before(free[name]) {
			h.tier = tierlock.Bypass
		}
		if h.tier == tierlock.Shared {
			if free[name] = h.to; h.crashed {
				free[name] = at.Add(holdsTTL)
			}
		}
		all[i] = h
	}
	return all
}

// moment is one event on its way.
type moment struct {
	at   time.Time // real
	host host
	ev   audit.Event
}

func moments(all []lived) (out []moment) {
	for i := range all {
		h := &all[i]
		ev := audit.Event{
			Type: audit.TypeAcquire, Chain: "coupon", Key: h.key, Holder: fmt.Sprintf("h%06d", i), Tier: h.tier, Store: h.tier.String(),
			GrantedAt: h.from.Add(h.host.off), TTL: holdsTTL, ClockError: h.host.bound,
		}
		out = append(out, moment{h.from, h.host, ev})
		if h.crashed {
			continue
		}
		ev.Type, ev.TTL, ev.EndedAt, ev.How, ev.Outcome = audit.TypeEnd, 0, h.to.Add(h.host.off), audit.Released, audit.Committed
		if h.undone {
			ev.Outcome = audit.RolledBack
		}
		out = append(out, moment{h.to, h.host, ev})
	}
	slices.SortStableFunc(out, func(a, b moment) int { return a.at.Compare(b.at) })
	return out
}

// messy queues events, and a third of them again, up to twice, later and out of order.
type messy struct {
	*feeder
	rng     *rand.Rand
	pending [][][2][]byte // by partition
}

func (m *messy) write(h host, ev audit.Event) {
	m.put(h.name, ev)
	for p, pairs := range m.waiting {
		if len(pairs) == 0 || !ev.Type.Marker() && p != audit.PartitionOf(ev.Key.String(), m.partitions) {
			continue
		}
		for range m.rng.IntN(3) / 2 * (1 + m.rng.IntN(2)) {
			m.pending[p] = append(m.pending[p], pairs[len(pairs)-1])
		}
		if late := m.pending[p]; len(late) > 20 {
			m.rng.Shuffle(len(late), func(i, j int) { late[i], late[j] = late[j], late[i] })
			m.waiting[p] = append(m.waiting[p], late...)
			m.count, m.pending[p] = m.count+len(late), nil
		}
	}
}

func (m *messy) beatAll(at time.Time, late bool) {
	for _, h := range hosts {
		if late || h.name != spooled {
			m.write(h, audit.Event{Type: audit.TypeHeartbeat, At: at.Add(h.off)})
		}
	}
}

// stands keeps findings, and knows which were taken in by others.
type stands struct{ memory }

func (s *stands) Put(ctx context.Context, f reconcile.Finding) error {
	if err := s.memory.Put(ctx, f); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range f.Supersedes() {
		if was, known := s.by[id]; known {
			was.State = reconcile.StateSuperseded
			s.by[id] = was
		}
	}
	return nil
}

// overlaps are those that stand, and all of them as text but for how far somebody had read.
func (s *stands) overlaps(t *testing.T) (all []reconcile.Finding, text string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.by {
		if f.Kind == reconcile.KindOverlap && f.State != reconcile.StateSuperseded && f.State != reconcile.StateWithdrawn {
			f.Revision = 0
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b reconcile.Finding) int { return cmp.Compare(a.ID, b.ID) })
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return all, string(b)
}

func oracle(t *testing.T, brokers []string, seed uint64, holds int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 45))
	begin := time.Now().UTC().Add(-6*time.Hour - time.Duration(holds)*60*time.Millisecond).Truncate(time.Microsecond)
	all := live(t, rng, begin, holds)
	var names []string
	for _, h := range hosts {
		names = append(names, h.name)
	}
	bad := &messy{feeder: newFeeder(t, brokers, 3, names...), rng: rng, pending: make([][][2][]byte, 3)}
	var late []moment
	next := begin
	for _, m := range moments(all) {
		for ; !m.at.Before(next); next = next.Add(5 * time.Second) {
			bad.beatAll(next, false)
		}
		if m.host.name == spooled {
			late = append(late, m)
			continue
		}
		if bad.write(m.host, m.ev); bad.n > 4000 {
			bad.flush(t.Context())
		}
	}
	bad.beatAll(time.Now(), false)
	bad.flush(t.Context())

	enterAs := func(group string, into *stands) (*counted, func()) {
		return enter(t, brokers, group, nil, nil, func(c *reconcile.Config) {
			c.Rule.DefaultError = 6 * time.Second // what the hosts without a bound may be off by
			c.Findings = []reconcile.Findings{into}
		})
	}
	found := &stands{memory{by: map[string]reconcile.Finding{}}}
	job, leave := enterAs("", found)
	defer leave()
	await(t, "everything but the late spool is judged", func() bool {
		st := job.job.Stats() // the watermark passes them with the last heartbeats
		return st.Records >= uint64(bad.count) && st.OpenHolds == 0 && st.Watermark.After(all[len(all)-1].to.Add(time.Minute))
	})
	_, early := found.overlaps(t)
	for _, m := range late {
		if bad.write(m.host, m.ev); bad.n > 4000 {
			bad.flush(t.Context())
		}
	}
	bad.beatAll(time.Now(), true)
	bad.flush(t.Context())

	// Two replays at once: a new group waits seconds for others to join.
	first, second := &stands{memory{by: map[string]reconcile.Finding{}}}, &stands{memory{by: map[string]reconcile.Finding{}}}
	one, done := enterAs("replay-1", first)
	defer done()
	two, done := enterAs("replay-2", second)
	defer done()
	await(t, "the live job and both replays have the same", func() bool {
		_, a := found.overlaps(t)
		_, b := first.overlaps(t)
		_, c := second.overlaps(t)
		return a == b && b == c && a != early && min(one.job.Stats().Records, two.job.Stats().Records) >= uint64(bad.count)
	})
	if job.job.Stats().Rereads == 0 {
		t.Error("nothing was late")
	}
	overlaps, _ := found.overlaps(t)
	compareWith(t, all, overlaps)
}

// compareWith holds findings against what really happened.
func compareWith(t *testing.T, all []lived, found []reconcile.Finding) {
	t.Helper()
	in := make([]int, len(all)) // which finding a hold is in, from 1
	certain, must, risky, spared := 0, 0, 0, 0
	for n := range found {
		f := &found[n]
		members := make([]int, len(f.Members))
		for i := range f.Members {
			if _, err := fmt.Sscanf(f.Members[i].Holder, "h%d", &members[i]); err != nil {
				t.Fatal(err)
			}
			in[members[i]] = n + 1
		}
		really, sure, atRisk, surelyAtRisk := 0, 0, 0, 0
		for i := range members {
			for j := range i {
				a, b := &all[members[j]], &all[members[i]]
				stand := !a.undone && !b.undone
				if a.overlap(b) > 0 && !a.crashed && !b.crashed {
					really++
				}
				if a.beyond(b) {
					sure++
				}
				if stand {
					if atRisk++; a.beyond(b) {
						surelyAtRisk++
					}
				}
			}
		}
		if f.CertainPairs > really || f.CertainPairs < sure || f.Certain != (f.CertainPairs > 0) {
			t.Errorf("finding %s on %s: %d certain pairs, want %d to %d", f.ID, f.Key, f.CertainPairs, sure, really)
		}
		if f.AtRiskPairs > atRisk || f.AtRiskPairs < surelyAtRisk || (f.State == reconcile.StateHarmless) != (f.AtRiskPairs == 0) {
			t.Errorf("finding %s on %s is %s: %d pairs at risk, want %d to %d", f.ID, f.Key, f.State, f.AtRiskPairs, surelyAtRisk, atRisk)
		}
		certain, risky, spared = certain+f.CertainPairs, risky+f.AtRiskPairs, spared+f.Pairs-f.AtRiskPairs
	}
	byKey := map[tierlock.Key][]int{}
	for i := range all {
		byKey[all[i].key] = append(byKey[all[i].key], i)
	}
	overlaps := 0
	for _, list := range byKey {
		for n, i := range list {
			for _, j := range list[:n] {
				a, b := &all[j], &all[i]
				if a.overlap(b) <= time.Millisecond {
					continue
				}
				if overlaps++; a.beyond(b) {
					must++
				}
				if in[i] == 0 || in[i] != in[j] {
					t.Errorf("h%06d (%s at %s) and h%06d (%s at %s) overlapped by %s and are in no finding", j, a.tier, a.host.name, i, b.tier, b.host.name, a.overlap(b))
				}
			}
		}
	}
	if certain < must || must == 0 || risky == 0 || spared == 0 {
		t.Errorf("%d certain pairs, want at least %d; %d at risk, %d of work that was rolled back", certain, must, risky, spared)
	}
	t.Logf("%d holds, %d real overlaps, %d beyond the margin, %d told as certain, %d at risk, %d findings", len(all), overlaps, must, certain, risky, len(found))
}
