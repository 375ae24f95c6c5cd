package reconcile

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// oracleHost is one process of a hard history.
type oracleHost struct {
	name       string
	off, bound time.Duration // bound zero: it does not know how far its clock may be off
	late       bool          // what it wrote comes six hours later, with nothing in between
}

// oracleRule is told what the hosts without a bound may be off by.
var oracleRule = Rule{DefaultError: 6 * time.Second}

var oracleHosts = []*oracleHost{
	{name: "good-1", off: 300 * time.Microsecond, bound: time.Millisecond},
	{name: "good-2", off: -900 * time.Microsecond, bound: time.Millisecond},
	{name: "good-3", off: 4 * time.Millisecond, bound: 5 * time.Millisecond},
	{name: "spooled", off: -200 * time.Microsecond, bound: time.Millisecond, late: true},
	{name: "ahead", off: 5 * time.Second, bound: 5100 * time.Millisecond},
	{name: "behind", off: -5 * time.Second, bound: 5100 * time.Millisecond},
	{name: "unknown-ahead", off: 5 * time.Second},
	{name: "unknown-behind", off: -5 * time.Second},
}

// hardHistory makes holds from begin on: of every tier, some crashed; shared ones of one
// key never overlap. Keys are few, so that many do.
func hardHistory(tb testing.TB, rng *rand.Rand, begin time.Time, holds int) []truth {
	tb.Helper()
	free := map[string]time.Time{}
	var out []truth
	at := begin
	for i := range holds {
		at = at.Add(time.Duration(rng.IntN(60_000)) * time.Microsecond)
		host := oracleHosts[rng.IntN(len(oracleHosts))]
		name := fmt.Sprintf("biz:coupon:lock:k%d", rng.IntN(12))
		from, to := at, at.Add(time.Duration(1+rng.IntN(150_000))*time.Microsecond)
		if rng.IntN(10) == 0 {
			to = from.Add(time.Duration(2000+rng.IntN(2000)) * time.Millisecond)
		}
		tier := []tierlock.Tier{tierlock.Shared, tierlock.Local, tierlock.Bypass}[rng.IntN(3)]
		if tier == tierlock.Shared && from.Before(free[name]) {
			tier = tierlock.Bypass
		}
		iv := Interval{
			Chain: "coupon", Key: key(tb, name), Holder: fmt.Sprintf("h%06d", i), Tier: tier, Store: tier.String(), Producer: host.name, Epoch: 1,
			GrantedAt: from.Add(host.off).Truncate(time.Microsecond), Error: host.bound,
			EndedAt: to.Add(host.off).Truncate(time.Microsecond), How: audit.Released, Outcome: outcomeOf(i),
		}
		if rng.IntN(20) == 0 { // its process crashed and nobody ended it
			iv.EndedAt, iv.How, iv.Outcome = time.Time{}, "", ""
		}
		if tier == tierlock.Shared {
			if free[name] = to; iv.EndedAt.IsZero() {
				free[name] = from.Add(max(ttl, to.Sub(from))) // until then its store has it
			}
		}
		iv.Latest = iv.EndedAt
		if iv.EndedAt.IsZero() {
			iv.Latest = iv.GrantedAt.Add(ttl)
		}
		out = append(out, truth{from: from, to: to, seen: iv})
	}
	return out
}

// oracleWrite is one event on its way.
type oracleWrite struct {
	at   time.Time // real
	host *oracleHost
	ev   audit.Event
}

func writesOf(all []truth) []oracleWrite {
	hosts := map[string]*oracleHost{}
	for _, h := range oracleHosts {
		hosts[h.name] = h
	}
	var out []oracleWrite
	for i := range all {
		iv := &all[i].seen
		out = append(out, oracleWrite{all[i].from, hosts[iv.Producer], acquireOf(iv)})
		if !iv.EndedAt.IsZero() {
			out = append(out, oracleWrite{all[i].to, hosts[iv.Producer], endOf(iv)})
		}
	}
	slices.SortStableFunc(out, func(a, b oracleWrite) int { return a.at.Compare(b.at) })
	return out
}

// messy writes to a stream as a bad network would: a third of all records come again, up to
// twice, a little later and out of order.
type messy struct {
	s       *stream
	rng     *rand.Rand
	pending map[int][][]byte
}

func (m *messy) write(p *producer, ev audit.Event) {
	partitions := slices.Sorted(maps.Keys(p.s.logs))
	if !ev.Type.Marker() {
		partitions = []int{audit.PartitionOf(ev.Key.String(), len(partitions))}
	}
	for n, text := range p.encode(ev, partitions) {
		m.s.append(n, time.Now(), text)
		for range m.rng.IntN(3) / 2 * (1 + m.rng.IntN(2)) {
			m.pending[n] = append(m.pending[n], text)
		}
		if len(m.pending[n]) > 20 {
			m.rng.Shuffle(len(m.pending[n]), func(i, j int) { m.pending[n][i], m.pending[n][j] = m.pending[n][j], m.pending[n][i] })
			for _, again := range m.pending[n] {
				m.s.append(n, time.Now(), again)
			}
			m.pending[n] = nil
		}
	}
}

// The oracle: whatever comes late, twice or out of order, from clocks that are seconds off,
// known to be or not, no pair is certain that did not overlap, no overlap is in no finding,
// nobody who crashed is certain of anything, and a replay finds the same.
func TestOracle(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { oracle(t, seed, 500) })
		})
	}
}

func oracle(t *testing.T, seed uint64, holds int) {
	rng := rand.New(rand.NewPCG(seed, 28))
	begin := time.Now().UTC().Truncate(time.Microsecond)
	all := hardHistory(t, rng, begin, holds)
	l := runLive(t, func(c *Config) {
		s := newStream(3)
		s.endless, s.size = true, 50
		c.Source, c.Rule, c.Idle = s.join(), oracleRule, time.Hour
	})
	l.stream = l.job.cfg.Source.(*stream)
	bad := &messy{s: l.stream, rng: rng, pending: map[int][][]byte{}}
	producers := map[*oracleHost]*producer{}
	for _, h := range oracleHosts {
		producers[h] = l.producer(h.name)
		bad.write(producers[h], audit.Event{Type: audit.TypeHello, At: begin.Add(h.off)})
	}
	beat := func(late bool) {
		for _, h := range oracleHosts {
			if late || !h.late {
				bad.write(producers[h], audit.Event{Type: audit.TypeHeartbeat, At: time.Now().Add(h.off)})
			}
		}
	}
	var spooled []oracleWrite
	next := begin
	for _, w := range writesOf(all) {
		time.Sleep(time.Until(w.at))
		for ; !w.at.Before(next); next = next.Add(5 * time.Second) {
			beat(false)
		}
		if w.host.late {
			spooled = append(spooled, w)
			continue
		}
		bad.write(producers[w.host], w.ev)
	}
	for range 6 * 12 { // six hours, in which the spooled host is given up
		time.Sleep(5 * time.Minute)
		beat(false)
	}
	synctest.Wait()
	if len(l.store.standing(KindSilent)) == 0 || len(l.store.standing(KindOverlap)) == 0 {
		t.Fatal("nothing was judged while one host was away: what it has to tell would not be late")
	}
	for _, w := range spooled {
		bad.write(producers[w.host], w.ev)
	}
	for range 24 {
		beat(true)
		time.Sleep(5 * time.Second)
	}
	synctest.Wait()
	if l.rewinds == 0 {
		t.Error("nothing was late")
	}
	found := l.store.standing(KindOverlap)
	checkAgainst(t, all, found)
	rule := Rule{}.withDefaults() // told too little of the hosts without a bound: it may miss, and nothing else
	for i := range all {
		for j := range i {
			a, b := &all[i], &all[j]
			if a.seen.Key == b.seen.Key && a.overlap(b) <= 0 && rule.relate(&a.seen, &b.seen) == certain {
				t.Errorf("%s at %s and %s at %s are certain and %s apart", a.seen.Holder, a.seen.Producer, b.seen.Holder, b.seen.Producer, -a.overlap(b))
			}
		}
	}

	for _, h := range oracleHosts {
		producers[h].seal(time.Now().Add(h.off))
	}
	var prints []string
	for range 2 {
		again := newStore()
		l.mu.Lock()
		copied := newStream(3)
		copied.size = 50
		for p, log := range l.logs {
			copied.logs[p] = slices.Clone(log)
		}
		l.mu.Unlock()
		j := mustJob(t, Config{Source: copied.join(), Findings: []Findings{again}, Rule: oracleRule, Idle: patient})
		if err := j.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		prints = append(prints, again.fingerprint(t))
	}
	if live := l.store.fingerprint(t); prints[0] != prints[1] || prints[0] != live {
		t.Errorf("live found %d bytes of findings, its replays %d and %d", len(live), len(prints[0]), len(prints[1]))
	}
}

// truths are what really happened, by holder.
func truths(all []truth) map[string]*truth {
	byHolder := map[string]*truth{}
	for i := range all {
		byHolder[all[i].seen.Holder] = &all[i]
	}
	return byHolder
}

// certainOnly counts certain pairs, each of which must have overlapped.
func certainOnly(t *testing.T, all []truth, found []Finding) (certain int) {
	t.Helper()
	byHolder := truths(all)
	for i := range found {
		f := &found[i]
		really := 0
		for n := range f.Members {
			for m := range n {
				a, b := byHolder[f.Members[m].Holder], byHolder[f.Members[n].Holder]
				if a.overlap(b) > 0 && !a.seen.EndedAt.IsZero() && !b.seen.EndedAt.IsZero() {
					really++
				}
			}
		}
		if f.CertainPairs > really || f.Certain != (f.CertainPairs > 0) {
			t.Errorf("finding %s on %s: %d certain pairs where %d overlapped", f.ID, f.Key, f.CertainPairs, really)
		}
		certain += f.CertainPairs
	}
	return certain
}

// beyond tells whether two holds overlapped by so much that it must be certain.
func beyond(a, b *truth) bool {
	known := !a.seen.EndedAt.IsZero() && !b.seen.EndedAt.IsZero() && a.seen.Error > 0 && b.seen.Error > 0
	return known && a.overlap(b) > 2*(a.seen.Error+b.seen.Error)+time.Millisecond
}

// certainEnough looks for findings with fewer certain pairs than there must be among their
// own members, so that too many in one do not hide too few in another.
func certainEnough(t *testing.T, all []truth, found []Finding) {
	t.Helper()
	byHolder := truths(all)
	for i := range found {
		f := &found[i]
		must := 0
		for n := range f.Members {
			for m := range n {
				if n >= f.Carried && beyond(byHolder[f.Members[m].Holder], byHolder[f.Members[n].Holder]) {
					must++
				}
			}
		}
		if f.CertainPairs < must {
			t.Errorf("finding %s on %s: %d certain pairs, and %d must be", f.ID, f.Key, f.CertainPairs, must)
		}
	}
}

// atRiskOnly counts the pairs at risk: those that must be certain are some of them, and none is
// of a hold whose work was rolled back. A finding without any is harmless, and no other.
func atRiskOnly(t *testing.T, all []truth, found []Finding) {
	t.Helper()
	byHolder := truths(all)
	spared := 0
	for i := range found {
		f := &found[i]
		must, may := 0, 0
		for n := range f.Members {
			for m := range n {
				a, b := byHolder[f.Members[m].Holder], byHolder[f.Members[n].Holder]
				if n < f.Carried || a.seen.Outcome == audit.RolledBack || b.seen.Outcome == audit.RolledBack {
					continue
				}
				if may++; beyond(a, b) {
					must++
				}
			}
		}
		spared += f.Pairs - f.AtRiskPairs
		if f.AtRiskPairs < must || f.AtRiskPairs > may || (f.State == StateHarmless) != (f.AtRiskPairs == 0) {
			t.Errorf("finding %s on %s is %s: %d pairs at risk, want %d to %d", f.ID, f.Key, f.State, f.AtRiskPairs, must, may)
		}
	}
	if spared == 0 {
		t.Error("nothing was rolled back")
	}
}

// checkAgainst compares findings with what really happened.
func checkAgainst(t *testing.T, all []truth, found []Finding) {
	t.Helper()
	certain := certainOnly(t, all, found)
	pairs := together(found)
	certainEnough(t, all, found)
	atRiskOnly(t, all, found)
	slices.SortFunc(all, func(a, b truth) int {
		return cmp.Or(cmp.Compare(a.seen.Key.String(), b.seen.Key.String()), a.from.Compare(b.from))
	})
	must, overlaps := 0, 0
	for i := range all {
		for j := i + 1; j < len(all) && all[j].seen.Key == all[i].seen.Key; j++ {
			a, b := &all[i], &all[j]
			if a.overlap(b) <= time.Millisecond {
				continue
			}
			overlaps++
			if !pairs[[2]string{a.seen.Holder, b.seen.Holder}] {
				t.Errorf("%s (%s at %s) and %s (%s at %s) overlapped by %s and are in no finding", a.seen.Holder, a.seen.Tier, a.seen.Producer,
					b.seen.Holder, b.seen.Tier, b.seen.Producer, a.overlap(b))
			}
			if beyond(a, b) {
				must++
			}
		}
	}
	if certain < must || must == 0 {
		t.Errorf("%d certain pairs, want at least %d", certain, must)
	}
	t.Logf("%d holds, %d real overlaps, %d beyond the margin, %d told as certain, %d findings", len(all), overlaps, must, certain, len(found))
}
