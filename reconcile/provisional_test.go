package reconcile

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// Missing makes the store an [Absentees], as the table is.
func (s *store) Missing(_ context.Context, partition int) ([]Finding, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail > 0 {
		s.fail--
		return nil, context.DeadlineExceeded
	}
	var out []Finding
	for _, f := range s.by {
		if f.Gap != nil && f.State == StateOpen && f.Gap.Partition == partition {
			out = append(out, f)
		}
	}
	return out, nil
}

// A seq that has not come makes what happened beside it provisional and nothing else; when
// it has come, the same finding is final.
func TestMissingSeqMakesItsTimeProvisional(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, nil)
		p, q := l.producer("p"), l.producer("q")
		pass(10*time.Second, nil, p, q)
		conflict(t, p, q) // before
		pass(20*time.Second, nil, p, q)
		missing := p.encode(audit.Event{Type: audit.TypeHeartbeat, At: time.Now()}, []int{0})[0]
		conflict(t, p, q) // beside
		pass(20*time.Second, nil, p, q)
		conflict(t, p, q) // after
		pass(20*time.Second, nil, p, q)
		got := l.store.standing(KindOverlap)
		slices.SortFunc(got, func(a, b Finding) int { return a.From.Compare(b.From) })
		if len(got) != 3 || got[0].Provisional || !got[1].Provisional || got[2].Provisional || !slices.Equal(got[1].Awaited, []string{"p"}) {
			t.Fatalf("provisional %+v", got)
		}
		l.append(0, time.Now(), missing)
		pass(10*time.Second, nil, p, q)
		for _, f := range l.store.standing(KindOverlap) {
			if f.Provisional || f.Awaited != nil {
				t.Errorf("all have come, and %+v waits", f)
			}
		}
		if got := l.store.standing(KindGap); len(got) != 0 {
			t.Errorf("gaps %+v", got)
		}
	})
}

// A job that begins anew knows who was silent, as far as its store does; when he is back,
// what an earlier life has told becomes final.
func TestRestartKnowsWhoWasSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := newStream(1), newStore()
		s.endless = true
		p, q, silent := s.producer("p"), s.producer("q"), s.producer("silent")
		life := func(do func()) { oneLife(t, s, st, do) }
		life(func() {
			pass(time.Second, nil, p, q, silent)
			pass(80*time.Second, nil, p, q)
		})
		life(func() {
			conflict(t, p, q)
			pass(80*time.Second, nil, p, q)
		})
		if got := st.standing(KindOverlap); len(got) != 1 || !got[0].Provisional {
			t.Fatalf("judged by a life that did not hear who was silent: %+v", got)
		}
		life(func() { pass(20*time.Second, nil, p, q, silent) })
		if got := st.standing(KindOverlap); len(got) != 1 || got[0].Provisional || len(st.standing(KindSilent)) != 0 {
			t.Fatalf("all have told everything: %+v, silent %+v", got, st.standing(KindSilent))
		}
	})
}

// What stands at the end of a stream is provisional where a producer has not said that it
// has told everything.
func TestEndOfAStreamIsProvisional(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s, st := newStream(1), newStore()
			p, q := s.producer("p"), s.producer("q")
			p.beat(time.Now(), nil)
			q.beat(time.Now(), nil)
			conflict(t, p, q)
			p.seal(time.Now())
			if sealed {
				q.seal(time.Now())
			}
			runAll(t, s, st)
			if got := st.standing(KindOverlap); len(got) != 1 || got[0].Provisional == sealed || !sealed && !slices.Equal(got[0].Awaited, []string{"q"}) {
				t.Errorf("sealed %v: %+v", sealed, got)
			}
		})
	}
}

// A repaired finding that becomes final is not repaired again.
func TestProvisionalFindingIsRepairedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		applied := map[string]int{}
		l := runLive(t, func(c *Config) {
			c.Apply, c.Locker = true, lockerFunc(func(ctx context.Context, key tierlock.Key, fn func(context.Context, tierlock.Grant) error) error {
				return fn(ctx, tierlock.Grant{Key: key, Tier: tierlock.Shared, Token: 1})
			})
			c.Hooks = map[string]Hook{"coupon": {
				Check: CheckFunc(func(_ context.Context, c Case) (int64, error) { return int64(1 - min(applied[c.ID], 1)), nil }),
				Repair: RepairFunc(func(_ context.Context, c Case) (Result, error) {
					applied[c.ID]++
					return ResultApplied, nil
				}),
			}}
		})
		tiers := map[string]string{"coupon": "shared"}
		p, q, silent := l.producer("p"), l.producer("q"), l.producer("silent")
		pass(time.Second, tiers, p, q, silent)
		conflict(t, p, q)
		pass(2*time.Minute, tiers, p, q)
		if got := l.store.standing(KindOverlap); len(got) != 1 || !got[0].Provisional || got[0].State != StateRepaired {
			t.Fatalf("findings %+v", got)
		}
		pass(time.Minute, tiers, p, q, silent)
		got := l.store.standing(KindOverlap)
		if len(got) != 1 || got[0].Provisional || len(applied) != 1 {
			t.Fatalf("findings %+v, applied %v", got, applied)
		}
		for id, n := range applied {
			if n != 1 {
				t.Errorf("%s was repaired %d times", id, n)
			}
		}
	})
}

// A table that an older version made gets the column, once, and keeps its rows; findings
// and what is missing come back from it.
func TestFindingsTableOfAnOlderVersion(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, b database) {
		db := b.open(t)
		for _, statement := range Schema(b.d) {
			var old []string
			for line := range strings.Lines(statement) {
				if !strings.Contains(line, "provisional") {
					old = append(old, line)
				}
			}
			do(t, db, strings.Join(old, ""))
		}
		do(t, db, `INSERT INTO tierlock_findings (id, revision, digest, stage, state, kind, chain, lock_key, certain, from_us, to_us, document)
			VALUES ('old', 1, '', 0, 'open', 'gap', '', '', `+b.d.no()+`, 0, 0, '{"id":"old","kind":"gap","state":"open","gap":{"partition":3,"producer":"p","cause":"sequence","from":7}}')`)
		table, err := SQLFindings(db, b.d)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := table.Create(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		f := Finding{ID: "new", Kind: KindOverlap, State: StateOpen, Revision: 1, Digest: "1", Provisional: true, Awaited: []string{"p"}}
		if err := table.Put(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if n := one(t, db, `SELECT count(*) FROM tierlock_findings WHERE provisional`); n != 1 {
			t.Errorf("%d rows are provisional", n)
		}
		f.Provisional, f.Awaited, f.Digest, f.Revision = false, nil, "2", 2
		if err := table.Put(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if n := one(t, db, `SELECT count(*) FROM tierlock_findings WHERE provisional`); n != 0 {
			t.Errorf("%d rows are provisional still", n)
		}
		for partition, want := range map[int]int{3: 1, 0: 0} {
			got, err := table.Missing(t.Context(), partition)
			if err != nil || len(got) != want || want > 0 && got[0].Gap.From != 7 {
				t.Errorf("missing of partition %d: %+v, %v", partition, got, err)
			}
		}
	})
}
