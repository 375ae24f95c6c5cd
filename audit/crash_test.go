package audit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/spool/powerfs"
)

// rounds is short unless this is a soak run.
func rounds(short, soak int) int {
	if os.Getenv("TIERLOCK_SOAK") != "" {
		return soak
	}
	return short
}

// What is sent again after a power loss or a kill is what was sent before, and nothing
// that was acknowledged is missing at the end.
func TestSoakEventsSentAgainAfterACrashAreTheSameEvents(t *testing.T) {
	t.Parallel()
	again := 0
	for seed := range uint64(rounds(30, 5000)) {
		synctest.Test(t, func(t *testing.T) {
			again += crashRun(t, seed)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if again == 0 {
		t.Error("no event was ever sent twice: the test shows nothing")
	}
}

func crashRun(t *testing.T, seed uint64) (again int) {
	rng := rand.New(rand.NewPCG(seed, 3))
	disk, sink := powerfs.New(), newMemory(3)
	sink.fate = func(call int, m audit.Message) error { // a third of the calls fail from some message on
		if call%3 == 1 && m.Partition != 0 {
			return errAway
		}
		return nil
	}
	cfg := config(disk, sink)
	cfg.Segment = 4 << 10
	acked := map[string]bool{}
	for range 5 {
		disk.CutAfter(5 + rng.IntN(120))
		if l, err := audit.Open(cfg); err == nil {
			recordUntilDark(t, l, rng, acked)
			disk.CutAfter(0)
			shutDead(t, l)
		}
		if rng.IntN(4) == 0 {
			disk.Kill()
		} else {
			disk.Crash(rng.Uint64())
		}
	}
	sink.set(func(s *memory) { s.fate = nil })
	l := open(t, cfg)
	drain(t, l)
	shut(t, l)
	return checkAgain(t, sink, acked)
}

func recordUntilDark(t *testing.T, l *audit.Log, rng *rand.Rand, acked map[string]bool) {
	for i := range 40 {
		ev := grant(t, rng.IntN(5))
		if rng.IntN(3) == 0 {
			l.Note(&ev)
			continue
		}
		if err := l.Record(t.Context(), &ev); err != nil {
			return
		}
		acked[ev.ID.Fingerprint()] = true
		if i%8 == 0 {
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		}
	}
}

func checkAgain(t *testing.T, sink *memory, acked map[string]bool) (again int) {
	type copyOf struct {
		partition int
		id        string
	}
	seen := map[copyOf]string{}
	for p, msgs := range sink.parts {
		for _, m := range msgs {
			k := copyOf{p, header(m, "ce_id")}
			if before, ok := seen[k]; ok {
				again++
				if before != string(m.Value) {
					t.Errorf("sent again as something else:\n%s\n%s", before, m.Value)
				}
			}
			seen[k] = string(m.Value)
		}
	}
	for _, ev := range sink.ofType(t, audit.TypeAcquire) {
		delete(acked, ev.Holder)
	}
	if len(acked) > 0 {
		t.Errorf("%d acknowledged events are missing", len(acked))
	}
	if acc := sink.account(t); len(acc.Missing)+len(acc.Declared)+len(acc.Breaks)+len(acc.Unsealed)+acc.Lost != 0 {
		t.Errorf("account %+v", acc)
	}
	return again
}

func TestEpochThatWasNotSealedIsSealedByTheNextAndIsAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, sink := powerfs.New(), newMemory(2)
		l := open(t, config(disk, sink))
		record(t, l, 1)
		epoch := l.Stats().Epoch
		disk.CutAfter(0)
		shutDead(t, l)
		disk.Kill()
		l = open(t, config(disk, sink))
		drain(t, l)
		shut(t, l)
		acc := sink.account(t)
		if acc.Crashed != 1 || acc.Complete() || len(acc.Unsealed) != 0 {
			t.Errorf("account %+v", acc)
		}
		gap := sink.ofType(t, audit.TypeGap)
		if len(gap) != 1 || gap[0].Cause != audit.CauseCrash || gap[0].From != 3 || gap[0].To != 0 {
			t.Errorf("gap %+v", gap)
		}
		seal := sink.ofType(t, audit.TypeSeal)[0]
		if seal.Sealed != epoch || seal.Epoch != epoch+1 || seal.First != 1 || seal.Last != 2 || seal.Clean {
			t.Errorf("seal %+v", seal)
		}
	})
}

// shutDead ends a log whose disk went away under it.
func shutDead(t *testing.T, l *audit.Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := l.Close(ctx); err == nil {
		t.Error("closed as if nothing had happened")
	}
}

func TestWipedFolderRepeatsNoIDAndIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newMemory(2)
		for range 2 {
			l := open(t, config(powerfs.New(), sink))
			record(t, l, 1)
			drain(t, l)
			shut(t, l)
			time.Sleep(time.Second)
		}
		if acc := sink.account(t); acc.Lost != 1 || acc.Complete() || len(acc.Breaks) != 2 {
			t.Errorf("account %+v", acc)
		}
	})
}

func TestDamageOnTheDiskBecomesAGapOfItsExactRange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, sink := powerfs.New(), newMemory(2)
		l := open(t, config(disk, nil))
		for i := range 9 {
			record(t, l, i)
		}
		shut(t, l)
		for name, content := range disk.Files() {
			if strings.HasSuffix(name, ".seg") {
				at := strings.Index(string(content), "biz:coupon:lock:4") // seq 6: hello is 1
				content[at] ^= 1
				disk.Put(name, content)
			}
		}
		l = open(t, config(disk, sink))
		drain(t, l)
		drain(t, l) // the gap event comes behind what was there
		shut(t, l)
		acc := sink.account(t)
		if len(acc.Declared) != 1 || acc.Declared[0] != (audit.Range{From: 6, To: 6}) || len(acc.Missing)+len(acc.Breaks) != 0 {
			t.Errorf("account %+v", acc)
		}
		if l.Stats().Damaged != 1 {
			t.Errorf("stats %+v", l.Stats())
		}
	})
}

func TestPoisonGoesToTheDeadLettersWithItsReasonAndTheChainGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newMemory(1)
		poisoned := func(m audit.Message) bool { return strings.Contains(string(m.Value), "lock:3\"") }
		sink.fate = func(_ int, m audit.Message) error {
			if m.Dead == "" && poisoned(m) {
				return fmt.Errorf("%w: 9 of 8 bytes", audit.ErrTooLarge)
			}
			return nil
		}
		var told []string
		cfg := config(powerfs.New(), sink)
		cfg.Hooks.Dead = func(id, reason string) { told = append(told, id+" "+reason) }
		l := open(t, cfg)
		for i := range 6 {
			record(t, l, i)
		}
		drain(t, l)
		shut(t, l)
		if len(sink.dead) != 1 || !strings.Contains(sink.dead[0].Dead, "too large") || sink.dead[0].DeadClass != audit.ClassTooLarge || sink.dead[0].Attempts < 1 || !poisoned(sink.dead[0]) || len(told) != 1 {
			t.Fatalf("dead %+v, told %v", sink.dead, told)
		}
		// Whoever reads only the events sees a hole at exactly that seq, in both proofs.
		acc := sink.account(t)
		if len(acc.Missing) != 1 || acc.Missing[0] != (audit.Range{From: 5, To: 5}) || len(acc.Breaks) != 1 || acc.Breaks[0].Prev != 5 {
			t.Errorf("account %+v", acc)
		}
	})
}

func TestDeadLetterThatIsRefusedIsCutAndThenDeclaredMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newMemory(1)
		sink.fate = func(_ int, m audit.Message) error {
			if len(m.Value) > 100_000 || strings.Contains(string(m.Value), "lock:2\"") {
				return audit.ErrPoison
			}
			return nil
		}
		l := open(t, config(powerfs.New(), sink))
		big := grant(t, 1)
		big.Business = audit.Business{Type: "coupon", ID: strings.Repeat("x", 200_000)}
		if err := l.Record(t.Context(), &big); err != nil {
			t.Fatal(err)
		}
		record(t, l, 2)
		drain(t, l)
		drain(t, l)
		shut(t, l)
		if len(sink.dead) != 1 || sink.dead[0].DeadClass != audit.ClassRefused || len(sink.dead[0].Value) != 64<<10 || !strings.Contains(sink.dead[0].Dead, "cut") {
			t.Errorf("%d dead letters", len(sink.dead))
		}
		if acc := sink.account(t); len(acc.Declared) != 1 || acc.Declared[0] != (audit.Range{From: 3, To: 3}) {
			t.Errorf("account %+v", acc)
		}
		if l.Stats().Dead != 2 {
			t.Errorf("%d dead", l.Stats().Dead)
		}
	})
}

// A destination that refuses everything for good, the dead letters too, does not make gap
// events of gap events, each in every partition.
func TestMarkersThatAreRefusedMakeNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newMemory(12)
		refuse := true
		sink.fate = func(int, audit.Message) error {
			if refuse {
				return audit.ErrPoison
			}
			return nil
		}
		cfg := config(powerfs.New(), sink)
		cfg.Heartbeat = time.Hour
		l := open(t, cfg)
		lost := record(t, l, 1)
		time.Sleep(time.Minute)
		if st := l.Stats(); st.Durable > 10 || st.Gaps != 1 {
			t.Errorf("of one grant and the hello: %+v", st)
		}
		sink.set(func(*memory) { refuse = false })
		after := record(t, l, 2)
		drain(t, l)
		shut(t, l)
		got := sink.ofType(t, audit.TypeAcquire)
		if len(got) != 1 || got[0].Holder != after.ID.Fingerprint() || got[0].Holder == lost.ID.Fingerprint() {
			t.Errorf("arrived: %+v", got)
		}
	})
}

func TestDamagedCursorSendsEverythingAgainRatherThanNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, sink := powerfs.New(), newMemory(1)
		l := open(t, config(disk, sink))
		record(t, l, 1)
		shut(t, l)
		name := filepath.Join("/audit", "cursor")
		content := disk.Files()[name]
		content[3] ^= 1
		disk.Put(name, content)
		l = open(t, config(disk, sink))
		drain(t, l)
		shut(t, l)
		if n := len(sink.parts[0]); n != 3+3+2 {
			t.Errorf("%d messages", n)
		}
		if acc := sink.account(t); !acc.Complete() {
			t.Errorf("account %+v", acc)
		}
	})
}

func TestChangedNumberOfPartitionsKeepsTheChainOfThoseThatStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, sink := powerfs.New(), newMemory(2)
		l := open(t, config(disk, sink))
		record(t, l, 1)
		shut(t, l)
		sink.set(func(s *memory) { s.n, s.moved = 4, true })
		l = open(t, config(disk, sink))
		drain(t, l)
		shut(t, l)
		if acc := sink.account(t); !acc.Complete() {
			t.Errorf("account %+v", acc)
		}
	})
}

func TestRecordAfterTheDiskWentAwayIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := powerfs.New()
		l := open(t, config(disk, nil))
		disk.CutAfter(0)
		ev := grant(t, 1)
		err := l.Record(t.Context(), &ev)
		if !errors.Is(err, audit.ErrFailed) || errors.Is(err, tierlock.ErrInvalid) {
			t.Errorf("got %v", err)
		}
		shutDead(t, l)
	})
}

// The disk lost events that had been sent. Their seqs must not come again as others.
func TestLostTailThatWasSentGivesNoSeqAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, sink := powerfs.New(), newMemory(2)
		l := open(t, config(disk, sink))
		for i := range 9 {
			record(t, l, i)
		}
		shut(t, l)
		for name, content := range disk.Files() {
			if strings.HasSuffix(name, ".seg") {
				disk.Put(name, content[:len(content)/2])
			}
		}
		l = open(t, config(disk, sink))
		record(t, l, 1)
		drain(t, l)
		shut(t, l)
		acc := sink.account(t)
		if len(acc.Seen) != 2 || acc.Seen[0] != (audit.Range{From: 1, To: 11}) || acc.Seen[1].From != 12 || acc.Lost != 0 || len(acc.Breaks) != 0 {
			t.Errorf("account %+v", acc)
		}
	})
}
