package spool_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/audit/spool"
	"github.com/tierlock/tierlock/audit/spool/powerfs"
)

func TestMain(m *testing.M) {
	if childMain() || taskMain() {
		return
	}
	goleak.VerifyTestMain(m)
}

// small is a spool whose files turn over after a few records.
func small(fs spool.FS) spool.Config {
	return spool.Config{Dir: "/s", FS: fs, Segment: 2 << 10, Quota: 1 << 20, Reserve: 4 << 10, Label: "p"}
}

func open(t testing.TB, cfg spool.Config) *spool.Spool {
	t.Helper()
	s, err := spool.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func appendOK(t testing.TB, s *spool.Spool, rec string) uint64 {
	t.Helper()
	seq, err := s.Append(t.Context(), []byte(rec), spool.Ordinary)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// readAll reads what is durable from seq on.
func readAll(t testing.TB, s *spool.Spool, from uint64) (all []spool.Record) {
	t.Helper()
	r := s.Reader(from)
	defer r.Close()
	for {
		rec, ok, err := r.TryNext()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return all
		}
		rec.Data = append([]byte(nil), rec.Data...)
		all = append(all, rec)
	}
}

func TestSpoolReturnsRecordsInOrderOverFilesAndEpochs(t *testing.T) {
	t.Parallel()
	fs := powerfs.New()
	for epoch := uint64(1); epoch <= 3; epoch++ {
		s := open(t, small(fs))
		if s.Epoch() != epoch {
			t.Fatalf("epoch %d, want %d", s.Epoch(), epoch)
		}
		for i := range 100 {
			if got, want := appendOK(t, s, fmt.Sprintf("e%d-%d", epoch, i)), (epoch-1)*100+uint64(i)+1; got != want {
				t.Fatalf("seq %d, want %d", got, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, small(fs))
	if f := s.Former(); f.Epoch != 3 || f.First != 201 || f.Last != 300 || string(f.Record) != "e3-99" || f.Torn != 0 || f.Label != "p" {
		t.Errorf("former %+v", f)
	}
	all := readAll(t, s, 1)
	if len(all) != 300 {
		t.Fatalf("%d records, want 300", len(all))
	}
	for i, rec := range all {
		if want := fmt.Sprintf("e%d-%d", i/100+1, i%100); string(rec.Data) != want || rec.Seq != uint64(i+1) || rec.Epoch != uint64(i/100+1) || rec.Label != "p" {
			t.Fatalf("record %d: %+v, want %s", i, rec, want)
		}
	}
	if got := readAll(t, s, 250); got[0].Seq != 250 || len(got) != 51 {
		t.Errorf("from 250: first %d of %d", got[0].Seq, len(got))
	}
}

func TestAppendGroupsEverybodyWhoCameDuringASyncIntoTheNextOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := stuck{powerfs.New(), make(chan struct{}, 3)}
		for range 3 { // the header, the reserve and the first batch
			disk.gate <- struct{}{}
		}
		cfg := small(disk)
		cfg.Segment, cfg.Quota = 1<<20, 4<<20
		s := open(t, cfg)
		appendOK(t, s, "first")
		var wg sync.WaitGroup
		add := func() {
			if _, err := s.Append(context.Background(), []byte("x"), spool.Ordinary); err != nil {
				t.Error(err)
			}
		}
		wg.Go(add)
		synctest.Wait() // its sync waits for the gate
		for range 512 {
			wg.Go(add)
		}
		synctest.Wait()
		close(disk.gate)
		wg.Wait()
		if st := s.Stats(); st.Records != 514 || st.Syncs != 3 {
			t.Errorf("%d records in %d syncs, want 514 in 3", st.Records, st.Syncs)
		}
		s.Close()
	})
}

func TestAddIsWrittenWithinLazyWithoutAnybodyWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := small(powerfs.New())
		s := open(t, cfg)
		if err := s.Add(t.Context(), []byte("a"), spool.Ordinary); err != nil {
			t.Fatal(err)
		}
		r := s.Reader(1)
		defer r.Close()
		start := time.Now()
		if _, err := r.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 5*time.Millisecond {
			t.Errorf("written after %v, want 5ms", took)
		}
		// Somebody who waits takes along what nobody waits for.
		if err := s.Add(t.Context(), []byte("b"), spool.Ordinary); err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		if got := appendOK(t, s, "c"); got != 3 || time.Since(start) != 0 {
			t.Errorf("seq %d after %v", got, time.Since(start))
		}
		s.Close()
	})
}

// stuck is a disk whose syncs wait for the gate.
type stuck struct {
	*powerfs.FS
	gate chan struct{}
}

type stuckFile struct {
	spool.File
	gate chan struct{}
}

func (d stuck) Create(name string) (spool.File, error) {
	f, err := d.FS.Create(name)
	return stuckFile{f, d.gate}, err
}

func (f stuckFile) Sync() error {
	<-f.gate
	return f.File.Sync()
}

func TestAppendEndsWithItsContextAndTheRecordMayStillLand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := stuck{powerfs.New(), make(chan struct{}, 2)}
		disk.gate <- struct{}{} // the first header
		disk.gate <- struct{}{} // the reserve
		s := open(t, small(disk))
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := s.Append(ctx, []byte("late"), spool.Ordinary)
		if !errors.Is(err, spool.ErrInDoubt) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		close(disk.gate)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if all := readAll(t, s, 1); len(all) != 1 || string(all[0].Data) != "late" {
			t.Errorf("read %v", all)
		}
		_, err = s.Append(ctx, []byte("never"), spool.Ordinary)
		if errors.Is(err, spool.ErrInDoubt) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a dead context was let in: %v", err)
		}
		s.Close()
	})
}

func TestSecondOpenOfAFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, spool.Config{Dir: dir})
	if _, err := spool.Open(spool.Config{Dir: dir}); !errors.Is(err, spool.ErrLocked) {
		t.Fatalf("got %v, want ErrLocked", err)
	}
	s.Close()
	open(t, spool.Config{Dir: dir})
}

func TestQuotaRefusesOrdinaryAndLeavesTheReserveToClosing(t *testing.T) {
	t.Parallel()
	fs := powerfs.New()
	cfg := small(fs)
	cfg.Quota, cfg.Reserve = 32<<10, 8<<10
	s := open(t, cfg)
	rec := []byte(strings.Repeat("x", 500))
	var last uint64
	for {
		seq, err := s.Append(t.Context(), rec, spool.Ordinary)
		if err != nil {
			if !errors.Is(err, spool.ErrFull) || errors.Is(err, spool.ErrInDoubt) {
				t.Fatal(err)
			}
			break
		}
		last = seq
	}
	if st := s.Stats(); !st.Full || st.Bytes > cfg.Quota-cfg.Reserve {
		t.Errorf("full %v with %d bytes of %d", st.Full, st.Bytes, cfg.Quota)
	}
	for i := range 10 {
		seq, err := s.Append(t.Context(), rec, spool.Closing)
		if err != nil {
			t.Fatalf("closing record %d: %v", i, err)
		}
		if seq != last+1 {
			t.Fatalf("seq %d after %d: a refused record used one up", seq, last)
		}
		last = seq
	}
	room := s.Room()
	if err := s.Trim(last); err != nil {
		t.Fatal(err)
	}
	<-room
	appendOK(t, s, "again")
	if st := s.Stats(); st.Bytes > 3*cfg.Segment {
		t.Errorf("%d bytes left after trim", st.Bytes)
	}
	if got := readAll(t, s, last+1); len(got) != 1 || string(got[0].Data) != "again" {
		t.Errorf("read %v", got)
	}
}

func TestFloorIsNeverUsedAgain(t *testing.T) {
	t.Parallel()
	cfg := small(powerfs.New())
	cfg.Floor, cfg.Epoch = 41, 7
	s := open(t, cfg)
	if seq := appendOK(t, s, "x"); seq != 42 || s.Epoch() != 7 {
		t.Errorf("seq %d epoch %d", seq, s.Epoch())
	}
	if got := readAll(t, s, 1); len(got) != 1 || got[0].Seq != 42 || got[0].Lost != 0 {
		t.Errorf("read %+v", got)
	}
}

func TestConfigReportsEveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	_, err := spool.Open(spool.Config{Quota: 1, Segment: 1, Linger: time.Second, Lazy: -1, Batch: -1, Label: strings.Repeat("l", 256), Reserve: -1})
	for _, field := range []string{"dir", "quota", "segment", "linger", "lazy", "batch", "label", "reserve"} {
		if err == nil || !strings.Contains(err.Error(), "invalid "+field) {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
}

// A spool whose one file may take the whole quota would be full for good once that file
// is: it cannot be removed while it is written to.
func TestSegmentLeavesRoomForItsFollowers(t *testing.T) {
	t.Parallel()
	for _, cfg := range []spool.Config{{Segment: 1<<29 + 1}, {Quota: 64 << 10, Segment: 16<<10 + 1}} {
		cfg.Dir, cfg.FS = "/s", powerfs.New()
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "a quarter of the quota") {
			t.Errorf("segment %d of %d: %v", cfg.Segment, cfg.Quota, err)
		}
		cfg.Segment--
		if err := cfg.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestClosedSpoolRefuses(t *testing.T) {
	t.Parallel()
	s := open(t, small(powerfs.New()))
	s.Close()
	if _, err := s.Append(t.Context(), nil, spool.Closing); !errors.Is(err, spool.ErrClosed) {
		t.Errorf("got %v", err)
	}
	r := s.Reader(1)
	if _, err := r.Next(t.Context()); !errors.Is(err, spool.ErrClosed) {
		t.Errorf("reader: %v", err)
	}
	if _, err := s.Append(t.Context(), make([]byte, spool.MaxRecord+1), spool.Ordinary); !errors.Is(err, spool.ErrTooBig) {
		t.Errorf("got %v", err)
	}
}
