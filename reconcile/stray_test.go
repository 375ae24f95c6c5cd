package reconcile

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// tell puts a batch in front of what the stream hands out next.
func (s *stream) tell(b Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = b
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// A clock that is hours ahead for one heartbeat does not carry the horizon along: what its
// producer tells afterwards, by the right time, is not late.
func TestAClockAheadForAMomentMakesNothingLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, nil)
		p := l.producer("p")
		pass(10*time.Second, nil, p)
		p.beat(time.Now().Add(5*time.Hour), nil)
		pass(10*time.Second, nil, p)
		for range 5 {
			conflict(t, p, p)
			pass(10*time.Second, nil, p)
		}
		if st := l.job.Stats(); l.rewinds != 0 || st.Late != 0 || st.Findings != 5 {
			t.Fatalf("%d rereads, %+v", l.rewinds, st)
		}
	})
}

// A process whose clock is hours behind stamps its records so. It is heard all the same: it is
// not silent, and what it reports of its tiers counts. Nor is it after a reread.
func TestAHostFarBehindIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const behind = 3 * time.Hour
		l := runLive(t, nil) // silent for a minute is silent
		p, q := l.producer("p"), l.producer("q")
		tell := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Second) {
				p.beat(time.Now(), map[string]string{"coupon": "shared"})
				q.beat(time.Now().Add(-behind), map[string]string{"coupon": "local"})
			}
			synctest.Wait()
		}
		tell(10 * time.Second) // of the very first records nobody can tell whether they are old
		began := l.store.puts
		tell(3 * time.Minute)
		if told := l.store.puts - began; told != 0 || len(l.store.standing(KindSilent)) != 0 || l.job.fleet.quiet("coupon", time.Second, time.Minute, time.Now()) {
			t.Errorf("%d findings, silent %+v; or its tiers do not count", told, l.store.standing(KindSilent))
		}
		old := nowHold(t, "old", tierlock.Bypass, time.Second)
		old.GrantedAt, old.EndedAt = old.GrantedAt.Add(-2*behind), old.EndedAt.Add(-2*behind)
		q.write(acquireOf(&old)) // late even by its own clock
		tell(3 * time.Minute)
		if told := l.store.puts - began; told != 0 || l.rewinds > 1 {
			t.Errorf("after %d rereads: %d findings", l.rewinds, told)
		}
	})
}

// cut makes the stream end at end, as an unclean election or a topic that is made anew does,
// and tells the job as the source does.
func (s *stream) cut(end int) {
	s.mu.Lock()
	was := s.at[0]
	s.logs[0], s.at[0] = s.logs[0][:end:end], 0
	s.mu.Unlock()
	s.tell(Batch{Lost: []Loss{{Partition: 0, From: int64(end), To: int64(was), Shrunk: true}}})
}

// Records that take the offsets of others are not taken for those: all of them are read,
// and the restart point follows.
func TestAStreamThatIsShorterThanItWasIsReadFromItsBeginning(t *testing.T) {
	for _, end := range []int{0, 10} {
		t.Run(fmt.Sprint("cut to ", end), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := runLive(t, nil)
				p, q := l.producer("p"), l.producer("q")
				pass(time.Second, nil, p, q)
				conflict(t, p, q)
				pass(time.Minute, nil, p, q)
				before := l.store.standing(KindOverlap)
				if len(before) != 1 || l.committed().Offset <= int64(end) {
					t.Fatalf("%d findings, committed %+v", len(before), l.committed())
				}
				l.cut(end)
				conflict(t, p, q) // at offsets that had other records
				pass(10*time.Second, nil, p, q)
				if got := l.store.standing(KindOverlap); len(got) != 2 {
					t.Fatalf("%d findings, want the one before and the one after", len(got))
				}
				gaps := l.store.standing(KindGap)
				if len(gaps) == 0 || l.job.Report().Complete {
					t.Errorf("what was cut off is told nowhere: %+v", gaps)
				}
				l.mu.Lock()
				defer l.mu.Unlock()
				if next := int64(len(l.logs[0])); l.marks[0].Read != next || l.marks[0].Offset > next {
					t.Errorf("committed %+v of a stream that ends at %d", l.marks[0], next)
				}
			})
		})
	}
}

// Two holds of one key that lie in two partitions meet in no window: that is told, and not
// only logged, once and not for every event.
func TestEventsInAnotherPartitionThanTheirKeysAreAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, nil) // of one partition
		p := l.producer("p")
		pass(time.Second, nil, p)
		l.tell(Batch{Width: 7})
		for i := range 50 {
			a := nowHold(t, fmt.Sprint("a", i), tierlock.Bypass, time.Millisecond)
			a.Key = key(t, fmt.Sprintf("biz:coupon:lock:%d", i))
			p.write(acquireOf(&a))
			p.write(endOf(&a))
		}
		pass(10*time.Second, nil, p)
		stray := 0
		for i := range 50 {
			if audit.PartitionOf(fmt.Sprintf("biz:coupon:lock:%d", i), 7) != 0 {
				stray += 2
			}
		}
		got := l.store.standing(KindGap)
		if len(got) != 1 || got[0].Gap.Cause != "partitions" || got[0].Gap.Count > uint64(stray) || got[0].Gap.Count < uint64(stray)/2 {
			t.Fatalf("of %d strays: %+v", stray, got)
		}
		if l.job.Report().Complete || l.store.puts > 10 {
			t.Errorf("complete: %v, %d puts", l.job.Report().Complete, l.store.puts)
		}
	})
}

// A producer that starts anew all the time costs little for each epoch that is over, and
// what comes of one once more is still known.
func TestEpochsThatAreOverAreSettled(t *testing.T) {
	fs, now := newFeeds(0), base
	beat := func(epoch, seq uint64) bool {
		return fs.hear(&audit.Event{Type: audit.TypeHeartbeat, Producer: "p", Epoch: epoch, Seq: seq, Prev: seq - 1, At: now}, &Record{Offset: int64(seq), Time: now}, now)
	}
	const epochs = 300
	for epoch := uint64(1); epoch <= epochs; epoch++ {
		for range 3 {
			now = now.Add(5 * time.Minute)
			if !beat(epoch, fs.seqs("p")+1) {
				t.Fatal("a new event is a repeated one")
			}
		}
		fs.settle(now)
	}
	rings := 0
	for _, l := range fs.by["p"].logs {
		if l.seen != nil {
			rings++
		}
	}
	if rings > 10 {
		t.Errorf("%d of %d epochs are kept in full", rings, epochs)
	}
	for seq := uint64(1); seq <= 3*epochs; seq++ {
		if beat((seq+2)/3, seq) {
			t.Fatalf("seq %d is new once more", seq)
		}
	}
	// A log that is settled goes on, and one that had been missed comes after all.
	fs.settle(now.Add(24 * time.Hour))
	last := fs.seqs("p")
	if !beat(epochs, last+2) || beat(epochs, last+2) || !beat(epochs, last+1) {
		t.Error("a settled log does not go on")
	}
}

// seqs is the highest seq of a producer.
func (fs *feeds) seqs(producer string) (highest uint64) {
	if f := fs.by[producer]; f != nil {
		for _, l := range f.logs {
			highest = max(highest, l.highest)
		}
	}
	return highest
}
