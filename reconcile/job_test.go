package reconcile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
)

// made returns a stream with a random history in it, and the same history.
func made(tb testing.TB, seed uint64, partitions int) (*stream, []truth) {
	tb.Helper()
	all := history(tb, rand.New(rand.NewPCG(seed, 3)), 150, 12, false)
	s := newStream(partitions)
	s.replay(all)
	return s, all
}

// patient is an Idle for histories that lie in the past: nobody in them is silent.
const patient = 1_000_000 * time.Hour

// runAll runs a job to the end of the stream.
func runAll(tb testing.TB, s *stream, into *store) *Job {
	tb.Helper()
	j := mustJob(tb, Config{Source: s.join(), Findings: []Findings{into}, Idle: patient})
	if err := j.Run(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return j
}

// The job finds in a stream what the pure rule finds in the intervals.
func TestJobFindsWhatTheRuleFinds(t *testing.T) {
	for seed := range uint64(4) {
		s, all := made(t, seed, 3)
		got := newStore()
		j := runAll(t, s, got)
		want := Overlaps(Rule{}, intervals(all))
		slices.SortFunc(want, func(a, b Finding) int { return compareIDs(a, b) })
		have := got.standing(KindOverlap)
		if len(have) != len(want) {
			t.Fatalf("seed %d: %d findings, want %d", seed, len(have), len(want))
		}
		for i := range want {
			if have[i].ID != want[i].ID || have[i].Certain != want[i].Certain || have[i].Pairs != want[i].Pairs || !have[i].To.Equal(want[i].To) || len(have[i].Members) != len(want[i].Members) {
				t.Fatalf("seed %d: finding %d is\n%+v\nwant\n%+v", seed, i, have[i], want[i])
			}
		}
		if gaps := got.standing(KindGap); len(gaps) != 0 || s.rewinds != 0 {
			t.Fatalf("seed %d: %d gaps, %d rereads in a whole stream: %+v", seed, len(gaps), s.rewinds, gaps[:min(3, len(gaps))])
		}
		if st := j.Stats(); st.Findings != len(want) || st.Holds != uint64(len(all)) || !j.Report().Complete {
			t.Fatalf("seed %d: %+v", seed, st)
		}
	}
}

// A key that stays busy for so long that its line is not swept at every turn is judged all
// the same.
func TestOneBusyKey(t *testing.T) {
	var all []truth
	for i := range 4 * large { // one chain without a break
		from := base.Add(time.Duration(i) * 20 * time.Millisecond)
		iv := at(t, fmt.Sprintf("h%06d", i), tierlock.Bypass, fmt.Sprintf("p%d", i%3), 20*i, 20*i+50)
		all = append(all, truth{from: from, to: from.Add(50 * time.Millisecond), seen: iv})
	}
	number(all)
	s := newStream(1)
	s.size = 200
	s.replay(all)
	got := newStore()
	j := runAll(t, s, got)
	want := Overlaps(Rule{}, intervals(all))
	slices.SortFunc(want, func(a, b Finding) int { return compareIDs(a, b) })
	have := got.standing(KindOverlap)
	if len(have) != len(want) || len(want) == 0 {
		t.Fatalf("%d findings, want %d", len(have), len(want))
	}
	for i := range want {
		if have[i].ID != want[i].ID || have[i].Pairs != want[i].Pairs || have[i].CertainPairs != want[i].CertainPairs || len(have[i].Members) != len(want[i].Members) {
			t.Errorf("finding %s has %d pairs of %d holds, want %d of %d", have[i].ID, have[i].Pairs, len(have[i].Members), want[i].Pairs, len(want[i].Members))
		}
	}
	if st := j.Stats(); st.Holds != uint64(len(all)) || st.OpenHolds != 0 {
		t.Errorf("%+v", st)
	}
}

// A large line waits with its sweep, but never past its own end.
func TestALargeLineIsSweptNowAndThen(t *testing.T) {
	second := func(n int) time.Time { return base.Add(time.Duration(n) * time.Second) }
	l := &line{holds: make([]*hold, 2*large), left: 2 * large, opens: base, sweptAt: second(80), due: second(81), closes: second(1000)}
	for horizon, want := range map[time.Time]bool{second(80): false, second(119): false, second(120): true, second(1000): true} {
		if got := l.worthwhile(horizon); got != want {
			t.Errorf("at %s: %v", horizon.Sub(base), got)
		}
	}
	l.left = large
	if !l.worthwhile(second(82)) {
		t.Error("not swept when it has doubled")
	}
}

func compareIDs(a, b Finding) int {
	switch {
	case a.ID < b.ID:
		return -1
	case a.ID > b.ID:
		return 1
	}
	return 0
}

// A job that is killed anywhere and begun again ends with the findings of one that was not.
func TestRestartAnywhereChangesNothing(t *testing.T) {
	whole, all := made(t, 5, 2)
	want := newStore()
	runAll(t, whole, want)
	rng := rand.New(rand.NewPCG(9, 9))
	for round := range 5 {
		s := newStream(2)
		s.replay(all)
		got := newStore()
		for life := 0; ; life++ {
			ctx, kill := context.WithCancel(t.Context())
			s.join()
			s.maxBatch, s.stop = 5+rng.IntN(60), kill
			if life > 12 {
				s.stop = nil
			}
			j := mustJob(t, Config{Source: s, Findings: []Findings{got}, Idle: patient})
			if err := j.Run(ctx); err != nil {
				t.Fatal(err)
			}
			if s.stop == nil || ctx.Err() == nil {
				kill()
				break
			}
		}
		if s.rewinds != 0 {
			t.Fatalf("round %d: %d rereads: a restart alone must not take context for late events", round, s.rewinds)
		}
		if got.fingerprint(t) != want.fingerprint(t) {
			t.Fatalf("round %d: other findings than without a restart: %d, want %d", round, len(got.standing(KindOverlap)), len(want.standing(KindOverlap)))
		}
	}
}

// Reading everything again gives the same ids and nothing new.
func TestReplayGivesTheSameFindings(t *testing.T) {
	s, _ := made(t, 6, 2)
	got := newStore()
	runAll(t, s, got)
	first := got.fingerprint(t)
	for p := range s.marks {
		s.marks[p] = Mark{Partition: p}
	}
	runAll(t, s, got)
	if got.fingerprint(t) != first {
		t.Fatal("a replay changed the findings")
	}
}

// Every event up to five times, shuffled over ten seconds: the same findings, no gap.
func TestRepeatedAndShuffledEvents(t *testing.T) {
	for seed := range uint64(3) {
		s, all := made(t, seed, 2)
		want := newStore()
		runAll(t, s, want)
		rng := rand.New(rand.NewPCG(seed, 4))
		mixed := newStream(2)
		for p, log := range s.logs {
			type copyOf struct {
				at time.Time
				r  Record
			}
			var copies []copyOf
			for _, r := range log {
				for range 1 + rng.IntN(5) {
					copies = append(copies, copyOf{r.Time.Add(time.Duration(rng.Int64N(int64(10 * time.Second)))), r})
				}
			}
			slices.SortStableFunc(copies, func(a, b copyOf) int { return a.at.Compare(b.at) })
			for _, c := range copies {
				mixed.append(p, c.at, c.r.Value)
			}
		}
		got := newStore()
		j := runAll(t, mixed, got)
		if got.fingerprint(t) != want.fingerprint(t) {
			t.Fatalf("seed %d: %d findings of %d holds, want %d", seed, len(got.standing(KindOverlap)), len(all), len(want.standing(KindOverlap)))
		}
		if gaps := got.standing(KindGap); len(gaps) != 0 {
			t.Fatalf("seed %d: %d gaps where nothing is missing", seed, len(gaps))
		}
		if st := j.Stats(); st.Duplicates == 0 || st.Rereads == 0 {
			t.Fatalf("seed %d: the test did not repeat or delay anything: %+v", seed, st)
		}
	}
}

// The cases in which a restart reads only what is left of a group that was judged: it must
// not be judged again without its first hold. Times in milliseconds; a long hold of another
// key keeps the window open from 10,000 on, so that is where a restart begins.
func TestRestartDoesNotJudgeWhatIsLeftOfAGroup(t *testing.T) {
	type span struct {
		holder   string
		from, to int // to 0: no end event; it may last ttl
	}
	for name, spans := range map[string][]span{
		"its first hold reaches beyond the restart":   {{"first", 9000, 0}, {"long", 10000, 60000}, {"second", 11000, 13000}, {"third", 12500, 14000}},
		"its first hold was over before the restart":  {{"first", 6900, 0}, {"second", 9000, 11000}, {"long", 10000, 60000}, {"third", 10500, 12000}},
		"its first hold is what a restart reads anew": {{"long", 10000, 60000}, {"first", 10100, 0}, {"second", 11000, 13000}},
	} {
		t.Run(name, func(t *testing.T) {
			write := func(s *stream) (rest func()) {
				p, q := s.producer("p"), s.producer("q")
				p.beat(base, nil)
				q.beat(base, nil)
				type moment struct {
					at int
					do func()
				}
				var moments []moment
				for _, sp := range spans {
					iv := at(t, sp.holder, tierlock.Bypass, "p", sp.from, sp.to)
					ev, end := acquireOf(&iv), endOf(&iv)
					if sp.holder == "long" {
						ev.Key, end.Key = key(t, "biz:coupon:lock:long"), key(t, "biz:coupon:lock:long")
						ev.MaxHold = time.Minute
					}
					who := p
					if sp.holder == "second" {
						who = q
					}
					moments = append(moments, moment{sp.from, func() { who.write(ev) }})
					if sp.to != 0 {
						moments = append(moments, moment{sp.to, func() { who.write(end) }})
					}
				}
				slices.SortFunc(moments, func(a, b moment) int { return a.at - b.at })
				for _, m := range moments[:len(moments)-1] {
					m.do()
				}
				p.beat(base.Add(30*time.Second), nil)
				q.beat(base.Add(30*time.Second), nil)
				return moments[len(moments)-1].do // the end of the long one
			}
			whole := newStream(1)
			write(whole)()
			want := newStore()
			runAll(t, whole, want)

			s, got := newStream(1), newStore()
			rest := write(s)
			ctx, kill := context.WithCancel(t.Context())
			s.size, s.endless = 1000, true
			s.maxBatch, s.stop = 2, kill
			if err := mustJob(t, Config{Source: s.join(), Findings: []Findings{got}, Idle: patient}).Run(ctx); err != nil {
				t.Fatal(err)
			}
			kill()
			if m := s.marks[0]; len(got.standing(KindOverlap)) != 1 || m.Offset < 2 || m.Read <= m.Offset {
				t.Fatalf("%d findings, committed %+v before the restart", len(got.standing(KindOverlap)), m)
			}
			s.stop, s.endless = nil, false
			rest()
			runAll(t, s, got)
			if got.fingerprint(t) != want.fingerprint(t) || s.rewinds != 0 {
				t.Fatalf("%d rereads; findings\n%s\nwant\n%s", s.rewinds, got.fingerprint(t), want.fingerprint(t))
			}
		})
	}
}
