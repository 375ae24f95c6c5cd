package spool_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/tierlock/tierlock/audit/spool"
	"github.com/tierlock/tierlock/audit/spool/powerfs"
)

// noSync is a disk driver that lies: nothing it says is synced is.
type noSync struct{ *powerfs.FS }

type noSyncFile struct{ spool.File }

func (d noSync) Create(name string) (spool.File, error) {
	f, err := d.FS.Create(name)
	return noSyncFile{f}, err
}

func (d noSync) Open(name string) (spool.File, error) {
	f, err := d.FS.Open(name)
	return noSyncFile{f}, err
}
func (noSync) SyncDir(string) error { return nil }
func (noSyncFile) Sync() error      { return nil }

// noDirSync syncs files and never their names.
type noDirSync struct{ *powerfs.FS }

func (noDirSync) SyncDir(string) error { return nil }

// powerRun writes to a spool on fs from several goroutines until the power goes at some
// call, several times over, and tells what is wrong with what is found at the end: a
// record that was acknowledged and is gone or changed, a seq twice, a hole.
func powerRun(disk *powerfs.FS, fs spool.FS, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	acked := map[uint64]string{}
	var trimmed, epoch uint64
	for life := range 4 {
		if life > 0 || rng.IntN(2) == 0 {
			disk.CutAfter(1 + rng.IntN(80))
		}
		s, err := spool.Open(small(fs))
		if err == nil {
			if s.Epoch() <= epoch {
				s.Close()
				return fmt.Errorf("epoch %d after %d", s.Epoch(), epoch)
			}
			epoch = s.Epoch()
			writeUntilDark(s, rng.Uint64(), acked)
			if rng.IntN(3) == 0 && len(acked) > 0 {
				trimmed = max(trimmed, uint64(rng.IntN(len(acked))))
				_ = s.Trim(trimmed) // the power may go meanwhile
			}
		}
		disk.CutAfter(0)
		if s != nil {
			_ = s.Close() // its disk is gone
		}
		if rng.IntN(4) == 0 {
			disk.Kill()
		} else {
			disk.Crash(rng.Uint64())
		}
	}
	return checkAcked(fs, acked, trimmed, epoch)
}

// writeUntilDark appends from four goroutines and notes what was acknowledged.
func writeUntilDark(s *spool.Spool, seed uint64, acked map[uint64]string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, g))
			for i := range 12 {
				rec := fmt.Sprintf("%x-%d-%d-%0*d", seed, g, i, rng.IntN(900), 0)
				if rng.IntN(4) == 0 {
					_ = s.Add(context.Background(), []byte("nobody waits"), spool.Ordinary)
				}
				seq, err := s.Append(context.Background(), []byte(rec), spool.Ordinary)
				if err != nil {
					return
				}
				mu.Lock()
				acked[seq] = rec
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func checkAcked(fs spool.FS, acked map[uint64]string, trimmed, epoch uint64) error {
	s, err := spool.Open(small(fs))
	if err != nil {
		return fmt.Errorf("open after the crash: %w", err)
	}
	defer s.Close()
	if s.Epoch() <= epoch {
		return fmt.Errorf("epoch %d after %d", s.Epoch(), epoch)
	}
	r := s.Reader(1)
	defer r.Close()
	last := uint64(0)
	for {
		rec, ok, err := r.TryNext()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if rec.Lost != 0 {
			return fmt.Errorf("%d to %d are reported as damaged", rec.Lost, rec.Seq)
		}
		if last != 0 && rec.Seq != last+1 {
			return fmt.Errorf("%d after %d", rec.Seq, last)
		}
		last = rec.Seq
		if want, ok := acked[rec.Seq]; ok && want != string(rec.Data) {
			return fmt.Errorf("record %d was %.20q, is %.20q", rec.Seq, want, rec.Data)
		}
		delete(acked, rec.Seq)
	}
	for seq := range acked {
		if seq >= trimmed {
			return fmt.Errorf("acknowledged record %d is gone (last is %d)", seq, last)
		}
	}
	return nil
}

// rounds is short unless this is a soak run.
func rounds(short, soak int) int {
	if os.Getenv("TIERLOCK_SOAK") != "" {
		return soak
	}
	return short
}

func TestSoakNothingAcknowledgedIsLostInAPowerLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds(250, 20000)) {
		disk := powerfs.New()
		if err := powerRun(disk, disk, seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// The test above would prove nothing if it passed without fsync.
func TestPowerLossIsNoticedWithoutSync(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]func(*powerfs.FS) spool.FS{
		"no fsync at all":     func(d *powerfs.FS) spool.FS { return noSync{d} },
		"no fsync of folders": func(d *powerfs.FS) spool.FS { return noDirSync{d} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := 0
			for seed := range uint64(100) {
				disk := powerfs.New()
				if err := powerRun(disk, lie(disk), seed); err != nil {
					found++
				}
			}
			if found == 0 {
				t.Error("100 power losses without sync, and none was noticed")
			}
		})
	}
}

func TestSoakNothingAcknowledgedIsLostWhenWritesAndSyncsFail(t *testing.T) {
	t.Parallel()
	boom := errors.New("EIO")
	for seed := range uint64(rounds(150, 5000)) {
		disk := powerfs.New()
		rng := rand.New(rand.NewPCG(seed, 7))
		chance := []int{3, 10, 40}[rng.IntN(3)]
		var mu sync.Mutex
		disk.Failing(func(string, int) error {
			mu.Lock()
			defer mu.Unlock()
			if rng.IntN(chance) == 0 {
				return boom
			}
			return nil
		})
		acked := map[uint64]string{}
		s, err := spool.Open(small(disk))
		if err != nil {
			continue // a disk that fails at once has acknowledged nothing
		}
		writeUntilDark(s, seed, acked)
		disk.Failing(nil)
		disk.CutAfter(0)
		_ = s.Close()
		disk.Crash(seed)
		if err := checkAcked(disk, acked, 0, s.Epoch()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
