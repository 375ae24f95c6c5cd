package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// live is a job that runs in a synctest bubble on an endless stream.
type live struct {
	*stream
	job   *Job
	store *store
}

func runLive(t *testing.T, change func(*Config), tune ...func(*Job)) *live {
	t.Helper()
	l := &live{stream: newStream(1), store: newStore()}
	l.endless = true
	cfg := Config{Source: l.join(), Findings: []Findings{l.store}, Idle: time.Minute, Quiet: 20 * time.Second}
	if change != nil {
		change(&cfg)
	}
	l.job = mustJob(t, cfg)
	for _, do := range tune {
		do(l.job)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := l.job.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return l
}

func (l *live) committed() Mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.marks[0]
}

// pass lets time go by while producers beat every five seconds.
func pass(d time.Duration, tiers map[string]string, producers ...*producer) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for _, p := range producers {
			p.beat(time.Now(), tiers)
		}
		time.Sleep(min(5*time.Second, time.Until(end)))
	}
	synctest.Wait()
}

func nowHold(tb testing.TB, holder string, tier tierlock.Tier, length time.Duration) Interval {
	iv := Interval{
		Chain: "coupon", Key: key(tb, "biz:coupon:lock:a"), Holder: holder, Tier: tier, Store: tier.String(), Error: time.Millisecond,
		GrantedAt: time.Now().UTC().Truncate(time.Microsecond), How: audit.Released,
		Business: audit.Business{Type: "coupon", ID: "u1-c1"},
	}
	iv.EndedAt = iv.GrantedAt.Add(length)
	return iv
}

// conflict makes two bypass holds of two producers that overlap, and lets them end.
func conflict(t *testing.T, p, q *producer) {
	t.Helper()
	conflictOf(t, p, q, audit.Committed)
}

// conflictOf is conflict, of which the first one's work ended like that.
func conflictOf(t *testing.T, p, q *producer, first audit.Work) {
	t.Helper()
	a, b := nowHold(t, "a", tierlock.Bypass, time.Second), nowHold(t, "b", tierlock.Bypass, time.Second)
	a.Outcome, b.Outcome = first, audit.Committed
	p.write(acquireOf(&a))
	q.write(acquireOf(&b))
	time.Sleep(time.Second)
	p.write(endOf(&a))
	q.write(endOf(&b))
}

// A quiet key closes: its windows need no later event of the same key, only heartbeats.
func TestQuietKeyIsJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, nil)
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, nil, p, q)
		conflict(t, p, q)
		synctest.Wait()
		if n := len(l.store.standing(KindOverlap)); n != 0 {
			t.Fatal("judged before the producers had told everything")
		}
		pass(6*time.Second, nil, p, q)
		got := l.store.standing(KindOverlap)
		if len(got) != 1 || !got[0].Certain || got[0].Causes[0] != CauseBypass {
			t.Fatalf("findings %+v", got)
		}
	})
}

// One silent producer holds judgement back; after Idle it is named and waited for no more.
func TestSilentProducerIsNamedAndReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, nil)
		p, q, silent := l.producer("p"), l.producer("q"), l.producer("silent")
		pass(time.Second, nil, p, q, silent)
		conflict(t, p, q)
		pass(50*time.Second, nil, p, q)
		if n := len(l.store.standing(KindOverlap)) + len(l.store.standing(KindSilent)); n != 0 {
			t.Fatalf("%d findings while one producer may still have something to tell", n)
		}
		pass(15*time.Second, nil, p, q)
		got := l.store.standing(KindSilent)
		if len(got) != 1 || got[0].Gap.Producer != "silent" || len(l.store.standing(KindOverlap)) != 1 {
			t.Fatalf("silent %+v, overlaps %d", got, len(l.store.standing(KindOverlap)))
		}
		overlap := l.store.standing(KindOverlap)[0]
		if !overlap.Provisional || !slices.Equal(overlap.Awaited, []string{"silent"}) || l.job.Stats().Provisional != 1 {
			t.Errorf("a finding that one producer may still change: provisional %v, waits for %v", overlap.Provisional, overlap.Awaited)
		}
		if l.job.Report().Complete {
			t.Error("complete, though one producer may have more to tell")
		}
		pass(10*time.Second, nil, p, q, silent) // and back it is
		if got := l.store.standing(KindSilent); len(got) != 0 || !l.job.Report().Complete {
			t.Fatalf("still silent: %+v", got)
		}
		final := l.store.standing(KindOverlap)
		if len(final) != 1 || final[0].ID != overlap.ID || final[0].Provisional || final[0].Awaited != nil || final[0].Revision <= overlap.Revision || l.job.Stats().Provisional != 0 {
			t.Fatalf("all have told everything, and the finding stands as %+v", final)
		}
		conflict(t, p, q)
		pass(10*time.Second, nil, p, q, silent)
		for _, f := range l.store.standing(KindOverlap) {
			if f.Provisional {
				t.Errorf("%+v waits for somebody", f)
			}
		}
	})
}

// While a step takes its time, records wait unread: that is our silence and not theirs.
func TestUnreadRecordsAreNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := false
		l := runLive(t, func(c *Config) {
			c.DeadLetter = func(context.Context, Record, error) error {
				if slow {
					time.Sleep(90 * time.Second) // longer than Idle
				}
				return nil
			}
		})
		l.size = 1
		p, q := l.producer("p"), l.producer("q")
		pass(10*time.Second, nil, p, q)
		slow = true
		l.append(0, time.Now(), []byte("{"))
		synctest.Wait()                 // it is being worked on
		pass(80*time.Second, nil, p, q) // all of it unread
		slow = false
		pass(30*time.Second, nil, p, q)
		if told := l.store.of(KindSilent); told != 0 {
			t.Fatalf("%d producers were called silent while their records waited", told)
		}
	})
}

// All alone: one conflict, then nothing any more from anybody.
func TestSilenceOfAllClosesWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, nil)
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, nil, p, q)
		conflict(t, p, q)
		time.Sleep(63 * time.Second)
		synctest.Wait()
		if got := l.store.standing(KindOverlap); len(got) != 1 {
			t.Fatalf("%d findings after everybody has been silent for Idle", len(got))
		}
	})
}

// A hold whose end never comes is closed at its latest possible end, is never certain, and
// does not pin the offset for ever.
func TestUnreleasedHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, nil)
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, nil, p, q)
		lost, other := nowHold(t, "lost", tierlock.Shared, 0), nowHold(t, "other", tierlock.Local, time.Second)
		ev := acquireOf(&lost)
		ev.TTL, ev.MaxHold = 15*time.Second, 40*time.Second // renewed as long as its process lives
		p.write(ev)
		q.write(acquireOf(&other))
		time.Sleep(time.Second)
		q.write(endOf(&other))
		pass(30*time.Second, nil, p, q)
		if n := len(l.store.standing(KindOverlap)); n != 0 {
			t.Fatal("judged while the hold may still be renewed")
		}
		if m := l.committed(); m.Offset > 2 {
			t.Fatalf("committed at %d, past an open hold", m.Offset)
		}
		pass(20*time.Second, nil, p, q)
		got := l.store.standing(KindOverlap)
		if len(got) != 1 || got[0].Certain || !got[0].Members[0].Latest.Equal(lost.GrantedAt.Add(40*time.Second)) {
			t.Fatalf("findings %+v", got)
		}
		if m := l.committed(); m.Offset < 8 {
			t.Fatalf("committed at %d still", m.Offset)
		}
	})
}

// A process that dies renews no more: its holds end a ttl after its last sign of life.
func TestUnreleasedHoldOfADeadProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, nil)
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, nil, p, q)
		lost, other := nowHold(t, "lost", tierlock.Shared, 0), nowHold(t, "other", tierlock.Local, time.Second)
		ev := acquireOf(&lost)
		ev.TTL, ev.MaxHold = 15*time.Second, 10*time.Minute
		p.write(ev)
		q.write(acquireOf(&other))
		q.write(endOf(&other))
		pass(10*time.Second, nil, p, q) // looked at while p lives: it may hold for ten minutes
		p.beat(time.Now(), nil)
		sign := time.Now()
		pass(90*time.Second, nil, q) // p is dead; after Idle it is released
		got := l.store.standing(KindOverlap)
		if len(got) != 1 || !got[0].Members[0].Latest.Equal(sign.Add(15*time.Second)) {
			t.Fatalf("findings %+v; want a latest end at %v", got, sign.Add(15*time.Second))
		}
	})
}

// A seq that is named as prev and never comes is a gap; what a producer tells of its own
// losses is one too.
func TestMissingEventsAreGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, nil)
		p := l.producer("p")
		pass(time.Second, nil, p)
		iv := nowHold(t, "gone", tierlock.Bypass, time.Second)
		p.encode(acquireOf(&iv), []int{0}) // seq 2 is never sent
		p.write(audit.Event{Type: audit.TypeGap, At: time.Now(), Cause: audit.CauseFull, Count: 3})
		pass(20*time.Second, nil, p)
		got := l.store.standing(KindGap)
		causes := map[string]uint64{}
		for _, f := range got {
			causes[f.Gap.Cause] = f.Gap.From
		}
		if _, full := causes["full"]; len(got) != 2 || causes["sequence"] != 2 || !full {
			t.Fatalf("gaps %+v", got)
		}
		r := l.job.Report()
		if r.Complete || len(r.Missing) != 2 {
			t.Fatalf("report %+v", r)
		}
	})
}

// A gap between what one life of a job has read last and the next life reads first is found:
// a restart hears every live producer's last record once more.
func TestGapOverARestartIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := newStream(1), newStore()
		s.endless = true
		p := s.producer("p")
		for life := range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			j := mustJob(t, Config{Source: s.join(), Findings: []Findings{st}})
			wg.Go(func() { _ = j.Run(ctx) })
			pass(20*time.Second, nil, p)
			cancel()
			wg.Wait()
			if n := len(st.standing(KindGap)); n != life {
				t.Fatalf("%d gaps after life %d", n, life)
			}
			p.encode(audit.Event{Type: audit.TypeHeartbeat, At: time.Now()}, []int{0}) // and is never sent
		}
	})
}

// A record that is no event goes to the dead letters, and the job goes on.
func TestMalformedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dead []string
		tries := 0
		l := runLive(t, func(c *Config) {
			c.DeadLetter = func(_ context.Context, r Record, reason error) error {
				if tries++; tries == 1 {
					return errors.New("kafka away")
				}
				if !errors.Is(reason, tierlock.ErrInvalid) {
					t.Errorf("reason %v names no field", reason)
				}
				dead = append(dead, string(r.Value))
				return nil
			}
		})
		p, q := l.producer("p"), l.producer("q")
		l.append(0, time.Now(), []byte(`{"v":1,`))
		l.append(0, time.Now(), []byte(`{"v":9}`))
		pass(time.Second, nil, p, q)
		conflict(t, p, q)
		pass(10*time.Second, nil, p, q)
		if len(dead) != 2 || dead[0] != `{"v":1,` || l.job.Stats().Malformed != 2 || len(l.store.standing(KindOverlap)) != 1 {
			t.Fatalf("dead letters %q, %+v", dead, l.job.Stats())
		}
	})
}

// A store that fails is tried again, and nothing is committed before it has the finding.
func TestFindingsComeBeforeCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, nil)
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, nil, p, q)
		l.store.mu.Lock()
		l.store.fail = 8
		l.store.mu.Unlock()
		conflict(t, p, q)
		pass(9*time.Second, nil, p, q)
		if m := l.committed(); m.Offset > 2 {
			t.Fatalf("committed at %d before the finding was stored", m.Offset)
		}
		pass(60*time.Second, nil, p, q)
		if got := l.store.standing(KindOverlap); len(got) != 1 || l.committed().Offset <= 6 {
			t.Fatalf("findings %d, committed %+v", len(got), l.committed())
		}
	})
}

// A partition that is taken away takes its windows with it, and its new owner finds the same.
func TestRevokeDropsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, nil)
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, nil, p, q)
		conflict(t, p, q)
		synctest.Wait()
		l.mu.Lock()
		l.pending = Batch{Revoked: []int{0}}
		l.mu.Unlock()
		p.beat(time.Now(), nil)
		synctest.Wait()
		if st := l.job.Stats(); st.Partitions != 0 || st.OpenHolds != 0 {
			t.Fatalf("%+v", st)
		}
		l.join()
		pass(10*time.Second, nil, p, q)
		if got := l.store.standing(KindOverlap); len(got) != 1 || len(got[0].Members) != 2 {
			t.Fatalf("findings %+v", got)
		}
	})
}

func TestReportIsJSONAndText(t *testing.T) {
	s, _ := made(t, 1, 1)
	r := runAll(t, s, newStore()).Report()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal(text, &back); err != nil || back["complete"] != true || back["findings"] == float64(0) {
		t.Fatalf("%v %s", err, text)
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"overlaps", "certain", "complete     yes", "dry run"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}
