package spool_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tierlock/tierlock/audit/spool"
	"github.com/tierlock/tierlock/audit/spool/powerfs"
)

// twoFiles is a closed spool of 40 records in several files of one epoch.
func twoFiles(t *testing.T) (*powerfs.FS, spool.Config, []string) {
	t.Helper()
	disk := powerfs.New()
	cfg := small(disk)
	cfg.Label = "shop-1"
	s := open(t, cfg)
	for i := range 40 {
		appendOK(t, s, fmt.Sprintf("record %d %s", i+1, strings.Repeat("x", 60)))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names := segmentNames(disk)
	if len(names) < 2 {
		t.Fatalf("%d files", len(names))
	}
	return disk, cfg, names
}

func spans(t *testing.T, f *spool.Folder) (lost []spool.Span, bad int64) {
	t.Helper()
	checks, err := f.Check()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		lost, bad = append(lost, c.Lost...), bad+c.Bad
		if c.Header {
			bad++
		}
	}
	return lost, bad
}

func look(t *testing.T, disk spool.FS) *spool.Folder {
	t.Helper()
	f, err := spool.Look(disk, "/s")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestLookChangesNothingAndSeesWhatAnOpenWould(t *testing.T) {
	t.Parallel()
	disk, cfg, names := twoFiles(t)
	last := names[len(names)-1]
	disk.Put(last, append(disk.Files()[last], "torn"...))
	before := disk.Files()
	f := look(t, disk)
	lost, bad := spans(t, f)
	if len(lost) != 0 || bad != 0 || f.Former().Torn != 4 || f.Former().Last != 40 || f.First() != 1 || f.InUse() {
		t.Errorf("lost %v, bad %d, former %+v", lost, bad, f.Former())
	}
	if !maps.EqualFunc(before, disk.Files(), bytes.Equal) {
		t.Error("a file was changed")
	}
	s := open(t, cfg)
	if got, want := s.Former(), f.Former(); got.Last != want.Last || got.Torn != want.Torn || got.Label != "shop-1" {
		t.Errorf("open found %+v, look %+v", got, want)
	}
	if !look(t, disk).InUse() {
		t.Error("in use, and not told")
	}
}

func TestLookRefusesWhatIsNoSpoolAndMakesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := spool.Look(nil, dir); !errors.Is(err, spool.ErrNoSpool) {
		t.Errorf("got %v", err)
	}
	if _, err := spool.Repair(nil, dir); !errors.Is(err, spool.ErrNoSpool) {
		t.Errorf("got %v", err)
	}
	if names, err := (spool.OS{}).ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
}

// hurt damages the first file in its header and in the middle, and the last one's tail.
func hurt(t *testing.T) (disk *powerfs.FS, cfg spool.Config, first string) {
	t.Helper()
	disk, cfg, names := twoFiles(t)
	first = names[0]
	content := disk.Files()[first]
	content[20] ^= 1 // its header
	at := bytes.Index(content, []byte("record 2 "))
	content[at] ^= 1
	disk.Put(first, content)
	last := names[len(names)-1]
	disk.Put(last, append(disk.Files()[last], "torn"...))
	return disk, cfg, first
}

func TestRepairKeepsEveryIntactRecordAndTheBytesAsTheyWere(t *testing.T) {
	t.Parallel()
	disk, cfg, first := hurt(t)
	before := disk.Files()[first]
	lost, bad := spans(t, look(t, disk))
	if want := []spool.Span{{From: 2, To: 2}}; !slices.Equal(lost, want) || bad == 0 {
		t.Fatalf("lost %v, bad %d", lost, bad)
	}
	done, err := spool.Repair(disk, "/s")
	if err != nil {
		t.Fatal(err)
	}
	if len(done) != 2 || done[0].Torn != 4 || done[1].Bad == 0 || !done[1].Header || done[1].Label != "shop-1" {
		t.Errorf("mended %+v", done)
	}
	if !bytes.Equal(disk.Files()[first+".quarantine"], before) {
		t.Error("the bytes as they were are not beside the file")
	}
	f := look(t, disk)
	if lost, bad := spans(t, f); len(lost) != 1 || bad != 0 || f.Former().Torn != 0 {
		t.Errorf("after: lost %v, bad %d, torn %d", lost, bad, f.Former().Torn)
	}
	if again, err := spool.Repair(disk, "/s"); err != nil || len(again) != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
	checkHurt(t, disk, cfg)
}

// checkHurt reads what hurt left: all but record 2, which is reported.
func checkHurt(t *testing.T, disk *powerfs.FS, cfg spool.Config) {
	t.Helper()
	cfg.FS = disk
	s := open(t, cfg)
	defer s.Close()
	all := readAll(t, s, 1)
	if len(all) != 40 || all[1].Lost != 2 || all[1].Seq != 2 {
		t.Fatalf("%d records, the second %+v", len(all), all[1])
	}
	for i, rec := range all {
		if i != 1 && !strings.HasPrefix(string(rec.Data), fmt.Sprintf("record %d ", i+1)) {
			t.Errorf("record %d is %.20q", i+1, rec.Data)
		}
	}
}

// Wherever the power goes, a repaired folder has every record that the damaged one had.
func TestRepairSurvivesAPowerLossAtEveryCall(t *testing.T) {
	t.Parallel()
	for calls, whole := 0, false; !whole; calls++ {
		for seed := range uint64(8) {
			disk, cfg, _ := hurt(t)
			disk.CutAfter(calls)
			_, err := spool.Repair(disk, "/s")
			whole = err == nil // and then the power goes after the last call
			disk.Crash(seed)
			if lost, _ := spans(t, look(t, disk)); !slices.Equal(lost, []spool.Span{{From: 2, To: 2}}) {
				t.Fatalf("%d calls, seed %d: lost %v", calls, seed, lost)
			}
			if _, err := spool.Repair(disk, "/s"); err != nil {
				t.Fatalf("%d calls, seed %d: once more: %v", calls, seed, err)
			}
			checkHurt(t, disk, cfg)
		}
		if whole && calls < 5 {
			t.Fatalf("only %d calls: the test looks in the wrong place", calls)
		}
	}
}

func TestRepairOfAFolderInUseIsRefused(t *testing.T) {
	t.Parallel()
	disk, cfg, _ := twoFiles(t)
	s := open(t, cfg)
	defer s.Close()
	if _, err := spool.Repair(disk, "/s"); !errors.Is(err, spool.ErrLocked) {
		t.Errorf("got %v", err)
	}
}
