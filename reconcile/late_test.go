package reconcile

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// An end event that comes after judgement has the partition read again, and what it
// disproves is withdrawn.
func TestLateEndWithdraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, nil)
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, nil, p, q)
		a := nowHold(t, "a", tierlock.Shared, 100*time.Millisecond)
		p.write(acquireOf(&a))
		time.Sleep(500 * time.Millisecond) // within a's ttl
		b := nowHold(t, "b", tierlock.Local, 100*time.Millisecond)
		q.write(acquireOf(&b))
		q.write(endOf(&b))
		pass(15*time.Second, nil, p, q)
		if got := l.store.standing(KindOverlap); len(got) != 1 || got[0].Certain {
			t.Fatalf("findings %+v, want one that is possible", got)
		}
		p.write(endOf(&a))
		pass(10*time.Second, nil, p, q)
		if got := l.store.standing(KindOverlap); len(got) != 0 || l.rewinds != 1 {
			t.Fatalf("%d rereads, still standing %+v", l.rewinds, got)
		}
		if st := l.job.Stats(); st.Late != 1 || st.Findings != 0 {
			t.Fatalf("%+v", st)
		}
	})
}

// The same above an older hold of another key that is still open: it holds the floor down,
// and what lies above that has been judged all the same.
func TestLateEndIsNoticedAboveAnOpenHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, nil)
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, nil, p, q)
		long := nowHold(t, "long", tierlock.Shared, time.Hour)
		open := acquireOf(&long)
		open.Key, open.MaxHold = key(t, "biz:coupon:lock:long"), time.Hour
		p.write(open)
		a := nowHold(t, "a", tierlock.Shared, 100*time.Millisecond)
		p.write(acquireOf(&a))
		time.Sleep(500 * time.Millisecond) // within a's ttl
		b := nowHold(t, "b", tierlock.Local, 100*time.Millisecond)
		q.write(acquireOf(&b))
		q.write(endOf(&b))
		pass(15*time.Second, nil, p, q)
		if got := l.store.standing(KindOverlap); len(got) != 1 {
			t.Fatalf("findings %+v, want the one that is possible", got)
		}
		p.write(endOf(&a))
		pass(10*time.Second, nil, p, q)
		if got := l.store.standing(KindOverlap); len(got) != 0 || l.rewinds != 1 {
			t.Fatalf("%d rereads, still standing %+v", l.rewinds, got)
		}
	})
}

// oneLife lets a job of its own read s while do goes on.
func oneLife(t *testing.T, s *stream, st *store, do func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	j := mustJob(t, Config{Source: s.join(), Findings: []Findings{st}, Idle: time.Minute})
	wg.Go(func() { _ = j.Run(ctx) })
	do()
	cancel()
	wg.Wait()
}

// The same when the job that gave the finding out is gone: its store remembers.
func TestLateEndWithdrawsWhatAnEarlierLifeFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := newStream(1), newStore()
		s.endless = true
		life := func(do func()) { oneLife(t, s, st, do) }
		p, q := s.producer("p"), s.producer("q")
		a := nowHold(t, "a", tierlock.Shared, 100*time.Millisecond)
		life(func() {
			pass(time.Second, nil, p, q)
			a.GrantedAt, a.EndedAt = time.Now(), time.Now().Add(100*time.Millisecond)
			p.write(acquireOf(&a))
			time.Sleep(500 * time.Millisecond)
			b := nowHold(t, "b", tierlock.Local, 100*time.Millisecond)
			q.write(acquireOf(&b))
			q.write(endOf(&b))
			pass(30*time.Second, nil, p, q)
		})
		if got := st.standing(KindOverlap); len(got) != 1 || s.marks[0].Offset < 6 {
			t.Fatalf("findings %+v, committed %+v", got, s.marks[0])
		}
		life(func() {
			pass(10*time.Second, nil, p, q)
			st.mu.Lock()
			st.fail = 2 // it is asked again
			st.mu.Unlock()
			p.write(endOf(&a))
			pass(20*time.Second, nil, p, q)
		})
		if got := st.standing(KindOverlap); len(got) != 0 || s.rewinds != 1 {
			t.Fatalf("%d rereads, still standing %+v", s.rewinds, got)
		}
	})
}

// A producer that was cut off for an hour comes back with a backlog: one reread, and the
// group gets its earlier member.
func TestBacklogReopensWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, nil)
		p, q, cut := l.producer("p"), l.producer("q"), l.producer("cut")
		pass(time.Second, nil, p, q, cut)
		early := nowHold(t, "early", tierlock.Bypass, 2*time.Second)
		held := [][]byte{cut.encode(acquireOf(&early), []int{0})[0], cut.encode(endOf(&early), []int{0})[0]}
		for range 50 {
			held = append(held, cut.encode(audit.Event{Type: audit.TypeHeartbeat, At: time.Now()}, []int{0})[0])
		}
		time.Sleep(10 * time.Millisecond)
		conflict(t, p, q)
		pass(time.Hour, nil, p, q)
		old := l.store.standing(KindOverlap)
		if len(old) != 1 || len(old[0].Members) != 2 {
			t.Fatalf("findings %+v", old)
		}
		for _, text := range held {
			l.append(0, time.Now(), text)
		}
		cut.beat(time.Now(), nil)
		pass(20*time.Second, nil, p, q, cut)
		got := l.store.standing(KindOverlap)
		if len(got) != 1 || len(got[0].Members) != 3 || got[0].Members[0].Holder != "early" || l.rewinds != 1 {
			t.Fatalf("%d rereads, findings %+v", l.rewinds, got)
		}
		if l.backward != 0 {
			t.Errorf("%d commits took an earlier one back", l.backward)
		}
		if l.store.by[old[0].ID].State != StateSuperseded {
			t.Errorf("the old finding is %s", l.store.by[old[0].ID].State)
		}
	})
}

// A backlog of which only the first part has come takes the horizon back to its own time:
// all holds since then are open again. What is committed stays, until the rest has come.
func TestHalfABacklogTakesNoCommitBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, nil)
		p, q, cut := l.producer("p"), l.producer("q"), l.producer("cut")
		pass(time.Second, nil, p, q, cut)
		early := nowHold(t, "early", tierlock.Bypass, 2*time.Second)
		first, second := cut.encode(acquireOf(&early), []int{0})[0], cut.encode(endOf(&early), []int{0})[0]
		time.Sleep(10 * time.Millisecond)
		conflict(t, p, q)
		pass(time.Hour, nil, p, q)
		was := l.committed()

		l.append(0, time.Now(), first)
		pass(20*time.Second, nil, p, q)
		if l.rewinds != 1 || l.job.Stats().OpenHolds == 0 {
			t.Fatalf("%d rereads, %d open holds: the backlog did not take the horizon back", l.rewinds, l.job.Stats().OpenHolds)
		}
		if now := l.committed(); l.backward != 0 || now.Offset < was.Offset || now.Judged.Before(was.Judged) {
			t.Fatalf("%d commits took an earlier one back: %+v, then %+v", l.backward, was, now)
		}

		l.append(0, time.Now(), second)
		cut.beat(time.Now(), nil)
		pass(20*time.Second, nil, p, q, cut)
		got := l.store.standing(KindOverlap)
		if len(got) != 1 || len(got[0].Members) != 3 || l.committed().Offset <= was.Offset {
			t.Fatalf("findings %+v, committed %+v after %+v", got, l.committed(), was)
		}
	})
}

// An event out of the dead letters counts however much its producer has sent since; the same
// record without that mark is taken for a repetition.
func TestAReplayedEventIsNotTooOld(t *testing.T) {
	for _, replayed := range []bool{true, false} {
		s, store := newStream(1), newStore()
		p, q := s.producer("p"), s.producer("q")
		p.beat(base, nil)
		q.beat(base, nil)
		a, b := at(t, "a", tierlock.Bypass, "p", 0, 1000), at(t, "b", tierlock.Bypass, "q", 500, 1500)
		p.write(acquireOf(&a))
		p.write(endOf(&a))
		lost := q.encode(acquireOf(&b), []int{0})[0] // it could not be read then
		ended := q.encode(endOf(&b), []int{0})[0]
		q.seq += 2 * recent // and much has been sent to other partitions since
		for i := range 20 {
			p.beat(base.Add(time.Duration(i+2)*time.Second), nil)
			q.beat(base.Add(time.Duration(i+2)*time.Second), nil)
		}
		for _, value := range [][]byte{lost, ended} {
			s.append(0, base.Add(time.Hour), value)
			s.logs[0][len(s.logs[0])-1].Replayed = replayed
		}
		j := runAll(t, s, store)
		want := 0
		if replayed {
			want = 1
		}
		if got := store.standing(KindOverlap); len(got) != want {
			t.Errorf("replayed %t: %d findings, want %d; %+v", replayed, len(got), want, j.Stats())
		}
	}
}
