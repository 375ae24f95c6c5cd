package spool_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tierlock/tierlock/audit/spool"
	"github.com/tierlock/tierlock/audit/spool/powerfs"
)

// life opens a folder twice, appends, turns files over, trims and closes; it ends where
// the power goes. Records come one at a time, so that every run makes the same calls.
func life(fs spool.FS, acked map[uint64]string) (trimmed, epoch uint64, whole bool) {
	for open := range 2 {
		s, err := spool.Open(small(fs))
		if err != nil {
			return trimmed, epoch, false
		}
		epoch = s.Epoch()
		whole = true
		for i := 0; i < 12 && whole; i++ {
			rec := fmt.Sprintf("%d-%d-%s", open, i, strings.Repeat("z", 100*(i%4)))
			room := spool.Ordinary
			if i%3 == 0 {
				room = spool.Closing
			}
			var seq uint64
			if seq, err = s.Append(context.Background(), []byte(rec), room); err == nil {
				acked[seq] = rec
			}
			whole = err == nil
		}
		if whole {
			trimmed = 6
			whole = s.Trim(trimmed) == nil
		}
		if s.Close() != nil || !whole {
			return trimmed, epoch, false
		}
	}
	return trimmed, epoch, true
}

// cutAtEveryCall cuts the power at each call in turn that changes the disk, and lets it
// forget what it may. It returns how many calls there are and what went wrong.
func cutAtEveryCall(seeds uint64, over func(*powerfs.FS) spool.FS) (calls int, faults []error) {
	for ; ; calls++ {
		ended := true
		for seed := range seeds {
			disk := powerfs.New()
			disk.CutAfter(calls)
			acked := map[uint64]string{}
			trimmed, epoch, whole := life(over(disk), acked)
			disk.Crash(seed)
			if err := checkAcked(over(disk), acked, trimmed, epoch); err != nil {
				faults = append(faults, fmt.Errorf("call %d, seed %d: %w", calls, seed, err))
			}
			ended = ended && whole
		}
		if ended {
			return calls, faults
		}
	}
}

func TestSoakPowerLossAtEveryCallLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	calls, faults := cutAtEveryCall(uint64(rounds(8, 200)), func(d *powerfs.FS) spool.FS { return d })
	for _, err := range faults {
		t.Error(err)
	}
	if calls < 50 {
		t.Errorf("only %d calls: the test looks in the wrong place", calls)
	}
}

// Each kind of sync is there for a reason: without it the same runs lose something.
func TestPowerLossAtEveryCallNoticesEachMissingSync(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]func(*powerfs.FS) spool.FS{
		"no fsync of files":   func(d *powerfs.FS) spool.FS { return noFileSync{d} },
		"no fsync of folders": func(d *powerfs.FS) spool.FS { return noDirSync{d} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, faults := cutAtEveryCall(8, lie); len(faults) == 0 {
				t.Error("nothing was lost")
			}
		})
	}
}

// noFileSync syncs names and never what stands in the files.
type noFileSync struct{ *powerfs.FS }

func (d noFileSync) Create(name string) (spool.File, error) {
	f, err := d.FS.Create(name)
	return noSyncFile{f}, err
}

func (d noFileSync) Open(name string) (spool.File, error) {
	f, err := d.FS.Open(name)
	return noSyncFile{f}, err
}
