package reconcile

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// made returns a stream with a random history in it, and the same history.
func made(tb testing.TB, seed uint64, partitions int) (*stream, []truth) {
	tb.Helper()
	all := history(tb, rand.New(rand.NewPCG(seed, 3)), 150, 12, false)
	s := newStream(partitions)
	s.replay(all)
	return s, all
}

// runAll runs a job to the end of the stream.
func runAll(tb testing.TB, s *stream, into *store) *Job {
	tb.Helper()
	j := mustJob(tb, Config{Source: s.join(), Findings: []Findings{into}})
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
			j := mustJob(t, Config{Source: s, Findings: []Findings{got}})
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
