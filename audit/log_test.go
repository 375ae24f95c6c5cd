package audit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/spool"
	"github.com/tierlock/tierlock/audit/spool/powerfs"
)

func TestLogDeliversEverythingOnceInOrderAndComplete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newMemory(4)
		var said strings.Builder
		cfg := config(powerfs.New(), sink)
		cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
		l := open(t, cfg)
		for i := range 100 {
			ev := record(t, l, i%7)
			end := audit.Ended(tierlock.Grant{Chain: ev.Chain, Key: ev.Key, RequestID: ev.ID, Tier: ev.Tier, AcquiredAt: ev.GrantedAt}, audit.Released, audit.Committed, time.Now())
			l.Note(&end)
		}
		drain(t, l)
		if st := l.Stats(); st.Backlog() != 0 || st.Recorded != 100 || st.Noted != 100 || st.Durable != 201 {
			t.Errorf("stats %+v", st)
		}
		shut(t, l)
		if acc := sink.account(t); !acc.Complete() || len(acc.Seen) != 1 || acc.Seen[0] != (audit.Range{From: 1, To: 202}) {
			t.Errorf("account %+v", acc)
		}
		if said.Len() > 0 {
			t.Errorf("a quiet life is logged: %s", said.String())
		}
		for p, list := range sink.events(t) {
			if list[0].Type != audit.TypeHello || list[len(list)-1].Type != audit.TypeSeal {
				t.Errorf("partition %d begins with %s and ends with %s", p, list[0].Type, list[len(list)-1].Type)
			}
		}
		seal := sink.ofType(t, audit.TypeSeal)
		if len(seal) != 1 || !seal[0].Clean || seal[0].First != 1 || seal[0].Last != 201 || seal[0].Sealed != seal[0].Epoch {
			t.Errorf("seal %+v", seal)
		}
		if ends := sink.ofType(t, audit.TypeEnd); len(ends) != 100 || ends[0].ClockError != 0 {
			t.Errorf("%d ends, the first with a clock error of %v that nobody has measured", len(ends), ends[0].ClockError)
		}
	})
}

func TestRecordDoesNotWaitForTheSinkAndNothingIsLostMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newMemory(0)
		l := open(t, config(powerfs.New(), sink))
		start := time.Now()
		for i := range 50 {
			record(t, l, i)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("recording took %v with the sink away", took)
		}
		time.Sleep(time.Minute)
		if st := l.Stats(); st.Oldest.IsZero() || st.Backlog() < 50 {
			t.Errorf("stats %+v", st)
		}
		sink.set(func(s *memory) { s.n = 3 })
		drain(t, l)
		sink.set(func(s *memory) { s.fate = func(int, audit.Message) error { return errAway } })
		record(t, l, 50)
		time.Sleep(10 * time.Minute)
		if st := l.Stats(); st.SendErrors < 60 || st.SendErrors > 500 {
			t.Errorf("%d tries in ten minutes", st.SendErrors)
		}
		sink.set(func(s *memory) { s.fate = nil })
		drain(t, l)
		shut(t, l)
		if acc := sink.account(t); !acc.Complete() || len(sink.ofType(t, audit.TypeAcquire)) != 51 {
			t.Errorf("account %+v", acc)
		}
	})
}

func TestCloseIsBoundedAndTheNextOpenSendsTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, sink := powerfs.New(), newMemory(2)
		sink.hang = true
		l := open(t, config(disk, sink))
		record(t, l, 1)
		start := time.Now()
		shut(t, l)
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("close took %v", took)
		}
		if ev := grant(t, 1); !errors.Is(l.Record(t.Context(), &ev), audit.ErrClosed) {
			t.Error("a closed log records")
		}
		sink.hang = false
		l = open(t, config(disk, sink))
		drain(t, l)
		shut(t, l)
		if acc := sink.account(t); !acc.Complete() || len(sink.ofType(t, audit.TypeSeal)) != 2 {
			t.Errorf("account %+v", acc)
		}
	})
}

func TestHeartbeatTellsRangeBacklogTiersAndSwitch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newMemory(2)
		l := open(t, config(powerfs.New(), sink))
		l.Describe(func() audit.Status {
			return audit.Status{Applied: 42, PolicyHash: "abc", Tiers: map[string]string{"coupon": "bypass"}}
		})
		time.Sleep(11 * time.Second)
		synctest.Wait()
		sink.set(func(s *memory) { s.fate = func(int, audit.Message) error { return errAway } })
		unsent := record(t, l, 1)
		time.Sleep(5 * time.Second)
		sink.set(func(s *memory) { s.fate = nil })
		drain(t, l)
		shut(t, l)
		beats := sink.ofType(t, audit.TypeHeartbeat)
		if len(beats) < 3 {
			t.Fatalf("%d heartbeats in 16 s", len(beats))
		}
		first, third := beats[0], beats[2]
		if first.Applied != 42 || first.PolicyHash != "abc" || first.Tiers["coupon"] != "bypass" || first.First != 1 || first.Last != 1 || !first.Oldest.IsZero() {
			t.Errorf("heartbeat %+v", first)
		}
		if !third.Oldest.Equal(unsent.GrantedAt.Truncate(time.Microsecond)) || third.Last != 4 {
			t.Errorf("heartbeat with a backlog %+v, want oldest %v", third, unsent.GrantedAt)
		}
		if d := beats[1].At.Sub(first.At); d != 5*time.Second {
			t.Errorf("heartbeats are %v apart", d)
		}
	})
}

// stuckDisk lets syncs wait while the gate is shut.
type stuckDisk struct {
	*powerfs.FS
	gate chan struct{}
}

type stuckFile struct {
	spool.File
	gate chan struct{}
}

func (d stuckDisk) Create(name string) (spool.File, error) {
	f, err := d.FS.Create(name)
	return stuckFile{f, d.gate}, err
}

func (f stuckFile) Sync() error {
	f.gate <- struct{}{}
	<-f.gate
	return f.File.Sync()
}

func TestRecordGivenUpIsClosedByTheLogItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newMemory(1)
		disk := stuckDisk{powerfs.New(), make(chan struct{}, 1)}
		cfg := config(disk.FS, sink)
		cfg.FS = disk
		l := open(t, cfg)
		synctest.Wait()
		disk.gate <- struct{}{} // the next sync waits
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		ev := grant(t, 1)
		start := time.Now()
		if err := l.Record(ctx, &ev); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 200*time.Millisecond {
			t.Fatalf("got %v after %v", err, time.Since(start))
		}
		<-disk.gate
		drain(t, l)
		shut(t, l)
		acquires, ends := sink.ofType(t, audit.TypeAcquire), sink.ofType(t, audit.TypeEnd)
		if len(acquires) != 1 || len(ends) != 1 {
			t.Fatalf("%d acquires, %d ends", len(acquires), len(ends))
		}
		if e := ends[0]; e.How != audit.Forced || e.Outcome != audit.RolledBack || e.Holder != ev.ID.Fingerprint() || !e.EndedAt.Equal(e.GrantedAt) || e.Seq < acquires[0].Seq {
			t.Errorf("end %+v", e)
		}
		if l.Stats().Forced != 1 {
			t.Error("not counted")
		}
	})
}

func TestNotesThatFindNoRoomBecomeAGapOfTheirNumber(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newMemory(2)
		disk := stuckDisk{powerfs.New(), make(chan struct{}, 1)}
		cfg := config(disk.FS, sink)
		cfg.FS, cfg.Notes, cfg.Quota = disk, 64, 64<<20
		l := open(t, cfg)
		synctest.Wait()
		disk.gate <- struct{}{}
		const n = 5000 // more than a batch and the queue hold
		for i := range n {
			ev := grant(t, i%50)
			l.Note(&ev)
			if i%16 == 0 {
				synctest.Wait()
			}
		}
		lost := l.Stats().Overflow
		if lost == 0 {
			t.Fatal("nothing overflowed")
		}
		<-disk.gate
		drain(t, l)
		shut(t, l)
		acc := sink.account(t)
		kept := uint64(len(sink.ofType(t, audit.TypeAcquire)))
		if acc.Counted != n-kept || len(acc.Missing)+len(acc.Breaks) != 0 {
			t.Errorf("%d of %d events, gaps tell of %d, overflow %d, %+v", kept, n, acc.Counted, lost, acc.Missing)
		}
	})
}

func TestFullDiskByPolicy(t *testing.T) {
	t.Parallel()
	fill := func(t *testing.T, disk *powerfs.FS, sink *memory) *audit.Log {
		cfg := config(disk, sink)
		cfg.Quota, cfg.Segment = 64<<10, 8<<10
		l := open(t, cfg)
		for i := 0; ; i++ {
			ev := grant(t, i)
			if err := l.Record(t.Context(), &ev); err != nil {
				if !errors.Is(err, audit.ErrFull) {
					t.Fatal(err)
				}
				return l
			}
		}
	}
	t.Run("reject leaves room for ends", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			sink := newMemory(0)
			l := fill(t, powerfs.New(), sink)
			if !l.Stats().Full {
				t.Error("not told to be full")
			}
			before := l.Stats().Durable
			ev := grant(t, 1)
			end := audit.Ended(tierlock.Grant{Chain: "coupon", Key: ev.Key, RequestID: ev.ID, Tier: ev.Tier, AcquiredAt: ev.GrantedAt}, audit.Released, audit.Unknown, time.Now())
			l.Note(&end)
			if err := l.Flush(t.Context()); err != nil || l.Stats().Durable != before+1 {
				t.Errorf("end not written: %v", err)
			}
			sink.set(func(s *memory) { s.n = 1 })
			drain(t, l)
			time.Sleep(time.Second) // for the trim
			record(t, l, 2)
			shut(t, l)
			if acc := sink.account(t); !acc.Complete() {
				t.Errorf("%+v", acc)
			}
		})
	})
	t.Run("block waits for room", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			sink := newMemory(0)
			l := fill(t, powerfs.New(), sink)
			ev := grant(t, 1)
			ev.OnFull = audit.Block
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if err := l.Record(ctx, &ev); !errors.Is(err, audit.ErrFull) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			time.AfterFunc(time.Second, func() { sink.set(func(s *memory) { s.n = 1 }) })
			start := time.Now()
			if err := l.Record(t.Context(), &ev); err != nil {
				t.Error(err)
			}
			if time.Since(start) < time.Second {
				t.Error("there was no room to wait for")
			}
			shut(t, l)
		})
	})
	t.Run("shed grants and counts", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			sink := newMemory(0)
			l := fill(t, powerfs.New(), sink)
			for range 7 {
				ev := grant(t, 1)
				ev.OnFull = audit.Shed
				if err := l.Record(t.Context(), &ev); err != nil {
					t.Fatal(err)
				}
			}
			sink.set(func(s *memory) { s.n = 1 })
			drain(t, l)
			shut(t, l)
			if acc := sink.account(t); acc.Counted != 7 || acc.Complete() || l.Stats().Shed != 7 {
				t.Errorf("account %+v, stats %+v", acc, l.Stats())
			}
			for _, gap := range sink.ofType(t, audit.TypeGap) {
				if gap.Cause != audit.CauseFull {
					t.Errorf("gap %+v", gap)
				}
			}
		})
	})
}

func TestBrokenDiskFailsRecordAndShedsByPolicy(t *testing.T) {
	t.Parallel()
	disk := powerfs.New()
	l := open(t, config(disk, nil))
	disk.Failing(func(string, int) error { return io.ErrShortWrite })
	ev := grant(t, 1)
	if err := l.Record(t.Context(), &ev); !errors.Is(err, audit.ErrFailed) {
		t.Errorf("got %v", err)
	}
	ev.OnFull = audit.Shed
	if err := l.Record(t.Context(), &ev); err != nil || !l.Stats().Failed || l.Stats().Shed != 1 {
		t.Errorf("shed: %v, stats %+v", err, l.Stats())
	}
	if err := l.Close(context.Background()); !errors.Is(err, audit.ErrFailed) {
		t.Errorf("close: %v", err)
	}
}

func TestLogWithoutSinkKeepsEventsForALaterOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, sink := powerfs.New(), newMemory(2)
		l := open(t, config(disk, nil))
		record(t, l, 1)
		if err := l.Drain(t.Context()); !errors.Is(err, tierlock.ErrInvalid) {
			t.Errorf("drained to nowhere: %v", err)
		}
		shut(t, l)
		l = open(t, config(disk, sink))
		drain(t, l)
		shut(t, l)
		if acc := sink.account(t); !acc.Complete() || len(sink.ofType(t, audit.TypeAcquire)) != 1 {
			t.Errorf("account %+v", acc)
		}
	})
}

func TestAdoptedFolderKeepsTheNameOfWhoWroteIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, sink := powerfs.New(), newMemory(2)
		l := open(t, config(disk, nil))
		record(t, l, 1)
		shut(t, l)
		cfg := config(disk, sink)
		cfg.Producer = "daemon"
		l = open(t, cfg)
		drain(t, l)
		shut(t, l)
		var chain audit.Chain
		for p, list := range sink.events(t) {
			for i := range list {
				chain.Add(p, &list[i])
			}
		}
		for _, acc := range chain.Accounts() {
			if !acc.Complete() {
				t.Errorf("%+v", acc)
			}
		}
		if got := sink.ofType(t, audit.TypeAcquire)[0].Producer; got != "shop-1" || len(chain.Accounts()) != 2 {
			t.Errorf("producer %q, %d producers", got, len(chain.Accounts()))
		}
	})
}

func TestEventsThatCannotBeWrittenAreRefused(t *testing.T) {
	t.Parallel()
	l := open(t, config(powerfs.New(), nil))
	for _, ev := range []audit.Event{{}, {Type: audit.TypeHello, Key: key(t, "k")}, {Type: audit.TypeAcquire}} {
		if err := l.Record(t.Context(), &ev); !errors.Is(err, tierlock.ErrInvalid) {
			t.Errorf("%+v: %v", ev, err)
		}
	}
}

func TestConfigReportsEveryFaultAtOnceBeforeAnyIO(t *testing.T) {
	t.Parallel()
	_, err := audit.Open(audit.Config{Producer: "a/b", Linger: time.Second, Heartbeat: 1, Quota: 1, Segment: 1, Notes: -1})
	for _, field := range []string{"dir", "producer", "linger", "heartbeat", "quota", "segment", "notes"} {
		if !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), "invalid audit."+field) {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
}

func TestSegmentLeavesRoomForItsFollowers(t *testing.T) {
	t.Parallel()
	cfg := audit.Config{Dir: "/audit", Segment: 1 << 29}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	cfg.Segment++
	if err := cfg.Validate(); !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), "audit.segment") {
		t.Errorf("a file of more than a quarter of the quota: %v", err)
	}
}

func TestSecondLogOnAFolderIsRefused(t *testing.T) {
	t.Parallel()
	cfg := audit.Config{Dir: t.TempDir(), Producer: "a"}
	open(t, cfg)
	if _, err := audit.Open(cfg); !errors.Is(err, spool.ErrLocked) {
		t.Errorf("got %v", err)
	}
}

func TestDiscardSaysThatItRecordsNothing(t *testing.T) {
	t.Parallel()
	ev := grant(t, 1)
	if err := audit.Discard.Record(t.Context(), &ev); !errors.Is(err, audit.ErrNoRecord) {
		t.Errorf("got %v", err)
	}
	audit.Discard.Note(&ev)
}

func ExampleLog() {
	dir, err := os.MkdirTemp("", "spool")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	l, err := audit.Open(audit.Config{Dir: dir, Producer: "shop-order-1"})
	if err != nil {
		panic(err)
	}
	k, err := tierlock.ParseKey("biz:coupon:lock:u42-c7")
	if err != nil {
		panic(err)
	}
	ev := audit.Acquired(tierlock.Grant{
		Chain: "coupon", Key: k, RequestID: tierlock.NewRequestID(), Tier: tierlock.Bypass, Store: "bypass", AcquiredAt: time.Now(),
	}, 15*time.Second, 0)
	fmt.Println("recorded:", l.Record(context.Background(), &ev) == nil)
	fmt.Println("closed:", l.Close(context.Background()) == nil)
	// Output:
	// recorded: true
	// closed: true
}

func TestGapThatCannotBeWrittenIsWrittenLaterWithItsCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, sink := powerfs.New(), newMemory(1)
		l := open(t, config(disk, sink))
		drain(t, l)
		disk.Limit(1) // not even the reserve helps
		for range 5 {
			ev := grant(t, 1)
			ev.OnFull = audit.Shed
			if err := l.Record(t.Context(), &ev); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		if l.Stats().Gaps != 0 {
			t.Fatal("a gap event on a full disk")
		}
		disk.Limit(0)
		time.Sleep(2 * time.Second)
		drain(t, l)
		shut(t, l)
		if acc := sink.account(t); acc.Counted != 5 || len(acc.Missing)+len(acc.Breaks) != 0 {
			t.Errorf("account %+v", acc)
		}
	})
}
