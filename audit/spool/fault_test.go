package spool_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock/audit/spool"
	"github.com/tierlock/tierlock/audit/spool/powerfs"
)

// once fails the nth call of the kind and no other.
func once(kind string, nth int, err error) func(string, int) error {
	return func(call string, n int) error {
		if call == kind && n == nth {
			return err
		}
		return nil
	}
}

// A failed fsync may have thrown the pages away and called them clean: the record must be
// acknowledged only from another file.
func TestOneFailedWriteOrSyncMovesTheBatchToANewFile(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"write", "sync"} {
		for nth := 1; nth <= 12; nth++ {
			t.Run(fmt.Sprintf("%s %d", kind, nth), func(t *testing.T) {
				t.Parallel()
				disk := powerfs.New()
				s := open(t, small(disk))
				disk.Failing(once(kind, nth, syscall.EIO))
				for i := range 20 {
					if got := appendOK(t, s, fmt.Sprint(i)); got != uint64(i+1) {
						t.Fatalf("seq %d, want %d", got, i+1)
					}
				}
				if kind == "write" && s.Stats().Closed != 1 {
					t.Errorf("%d files closed for good, want 1", s.Stats().Closed)
				}
				disk.CutAfter(0)
				s.Close()
				disk.Crash(0) // keeps nothing that was not synced
				s = open(t, small(disk))
				all := readAll(t, s, 1)
				if len(all) != 20 {
					t.Fatalf("%d records survived, want 20", len(all))
				}
				for i, rec := range all {
					if rec.Lost != 0 || string(rec.Data) != fmt.Sprint(i) {
						t.Errorf("record %d is %q", i, rec.Data)
					}
				}
			})
		}
	}
}

func TestTwoFailuresInARowEndTheSpool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // on a slow machine the two would not meet in one batch
		disk := powerfs.New()
		var dropped atomic.Int64
		cfg := small(disk)
		cfg.Dropped = func(n int) { dropped.Add(int64(n)) }
		s := open(t, cfg)
		appendOK(t, s, "good")
		disk.Failing(func(string, int) error { return syscall.EIO })
		if err := s.Add(t.Context(), []byte("nobody waits"), spool.Ordinary); err != nil {
			t.Fatal(err)
		}
		_, err := s.Append(t.Context(), []byte("bad"), spool.Closing)
		if !errors.Is(err, spool.ErrFailed) || !errors.Is(err, spool.ErrInDoubt) || !errors.Is(err, syscall.EIO) {
			t.Fatalf("got %v", err)
		}
		synctest.Wait() // the flusher tells of dropped records after those who wait
		disk.Failing(nil)
		if _, err := s.Append(t.Context(), []byte("bad"), spool.Closing); !errors.Is(err, spool.ErrFailed) || errors.Is(err, spool.ErrInDoubt) {
			t.Errorf("got %v, want a refusal", err)
		}
		if s.Stats().Failed == nil || dropped.Load() != 1 || s.Stats().Dropped != 1 {
			t.Errorf("stats %+v, dropped %d", s.Stats(), dropped.Load())
		}
		s.Close()
		if all := readAll(t, open(t, small(disk)), 1); len(all) < 1 || string(all[0].Data) != "good" {
			t.Errorf("read %v", all)
		}
	})
}

func TestFullDiskGivesUpTheReserveForClosingRecordsAndComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := powerfs.New()
		cfg := small(disk)
		cfg.Reserve = 16 << 10
		s := open(t, cfg)
		disk.Limit(64 << 10)
		rec := strings.Repeat("x", 300)
		var last uint64
		var err error
		for err == nil {
			var seq uint64
			if seq, err = s.Append(t.Context(), []byte(rec), spool.Ordinary); err == nil {
				last = seq
			}
		}
		if !errors.Is(err, spool.ErrFull) {
			t.Fatal(err)
		}
		if _, ok := disk.Files()["/s/reserve"]; ok {
			t.Error("the reserve was not given up")
		}
		for i := range 20 {
			seq, err := s.Append(t.Context(), []byte(rec), spool.Closing)
			if err != nil || seq != last+1 {
				t.Fatalf("closing record %d: seq %d after %d, %v", i, seq, last, err)
			}
			last = seq
		}
		// Now not even those fit; the disk is left alone for a while, and tried again.
		for err = nil; err == nil; {
			var seq uint64
			if seq, err = s.Append(t.Context(), []byte(rec), spool.Closing); err == nil {
				last = seq
			}
		}
		if !errors.Is(err, spool.ErrFull) {
			t.Fatal(err)
		}
		if _, err := s.Append(t.Context(), []byte(rec), spool.Closing); !errors.Is(err, spool.ErrFull) || errors.Is(err, spool.ErrInDoubt) {
			t.Errorf("got %v, want a refusal at once", err)
		}
		disk.Limit(0)
		time.Sleep(time.Second)
		if err := s.Trim(last); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the flusher writes the reserve again
		if got := appendOK(t, s, "room again"); got != last+1 {
			t.Errorf("seq %d after %d", got, last)
		}
		if all := readAll(t, s, last); len(all) != 2 || all[0].Lost != 0 {
			t.Errorf("read %+v", all)
		}
		s.Close()
	})
}

func TestOpenOnAFullDiskLivesOnTheReserve(t *testing.T) {
	t.Parallel()
	disk := powerfs.New()
	cfg := small(disk)
	open(t, cfg).Close()
	size := int64(0)
	for _, content := range disk.Files() {
		size += int64(len(content))
	}
	disk.Limit(size)
	s := open(t, cfg)
	if _, err := s.Append(t.Context(), []byte("no"), spool.Ordinary); !errors.Is(err, spool.ErrFull) {
		t.Errorf("ordinary: %v", err)
	}
	if _, err := s.Append(t.Context(), []byte("end"), spool.Closing); err != nil {
		t.Errorf("closing: %v", err)
	}
}

// The disk was filled by somebody else, and emptied by them: nothing of ours was trimmed.
func TestDiskThatSomebodyElseEmptiedIsUsedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := powerfs.New()
		s := open(t, small(disk))
		appendOK(t, s, "before")
		disk.Limit(1)
		for range 3 {
			if _, err := s.Append(t.Context(), []byte("no"), spool.Ordinary); !errors.Is(err, spool.ErrFull) {
				t.Fatalf("got %v", err)
			}
			time.Sleep(time.Second)
		}
		disk.Limit(0)
		room := s.Room()
		if _, err := s.Append(t.Context(), []byte("the one that asks"), spool.Ordinary); !errors.Is(err, spool.ErrFull) {
			t.Fatalf("got %v", err)
		}
		<-room
		appendOK(t, s, "after")
		if _, ok := disk.Files()["/s/reserve"]; !ok {
			t.Error("no reserve")
		}
		s.Close()
	})
}
