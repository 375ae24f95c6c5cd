package spool_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/tierlock/tierlock/audit/spool"
	"github.com/tierlock/tierlock/audit/spool/powerfs"
)

// written is a closed spool of n records in batches of one, all in one file.
func written(t *testing.T, n int) (disk *powerfs.FS, cfg spool.Config, name string) {
	t.Helper()
	disk = powerfs.New()
	cfg = small(disk)
	cfg.Segment = 64 << 10
	s := open(t, cfg)
	for i := range n {
		appendOK(t, s, fmt.Sprintf("record %d", i+1))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return disk, cfg, segmentNames(disk)[0]
}

func segmentNames(disk *powerfs.FS) (names []string) {
	for name := range disk.Files() {
		if strings.HasSuffix(name, ".seg") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// lastBatch is where the last of n batches of one record begins.
func lastBatch(content []byte, n int) int {
	const head, commit = 17, 17 + 12
	return len(content) - commit - head - len(fmt.Sprintf("record %d", n))
}

// checkTorn opens a folder whose last batch was hurt: the others must be whole, the rest
// must be kept beside and counted, and the folder must take records again.
func checkTorn(t *testing.T, disk *powerfs.FS, cfg spool.Config, name string, hurt []byte, whole int, what string) {
	t.Helper()
	disk.Put(name, hurt)
	s, err := spool.Open(cfg)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer s.Close() // twice is no harm
	f := s.Former()
	seq := appendOK(t, s, "after")
	all := readAll(t, s, 1)
	if f.Last != uint64(whole) || seq != f.Last+1 || len(all) != whole+1 {
		t.Fatalf("%s: last %d, next seq %d, %d records", what, f.Last, seq, len(all))
	}
	for i, rec := range all[:whole] {
		if rec.Lost != 0 || string(rec.Data) != fmt.Sprintf("record %d", i+1) {
			t.Fatalf("%s: record %d is %q", what, i+1, rec.Data)
		}
	}
	kept := disk.Files()[name+".torn"]
	if left := len(disk.Files()[name]); int64(len(kept)) != f.Torn || !bytes.HasSuffix(hurt, kept) || left+len(kept) != len(hurt) {
		t.Fatalf("%s: %d bytes cut, %d kept, %d of %d left", what, f.Torn, len(kept), left, len(hurt))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := spool.Open(cfg) // that nothing is torn any more, in what is no tail now
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer again.Close()
	if now := readAll(t, again, 1); again.Former().Torn != 0 || len(now) != whole+1 || slices.ContainsFunc(now, func(r spool.Record) bool { return r.Lost != 0 }) {
		t.Fatalf("%s: opened once more, %d records, %d bytes torn", what, len(now), again.Former().Torn)
	}
}

func TestTornTailIsCutAtEveryByteOfTheLastBatch(t *testing.T) {
	t.Parallel()
	const n = 5
	disk, cfg, name := written(t, n)
	content := disk.Files()[name]
	for size := lastBatch(content, n); size < len(content); size++ {
		disk, cfg := powerfs.New(), cfg
		cfg.FS = disk
		checkTorn(t, disk, cfg, name, content[:size], n-1, fmt.Sprintf("truncated to %d", size))
	}
}

func TestTornTailIsCutForEveryFlippedBitOfTheLastBatch(t *testing.T) {
	t.Parallel()
	const n = 3
	disk, cfg, name := written(t, n)
	content := disk.Files()[name]
	for bit := lastBatch(content, n) * 8; bit < len(content)*8; bit++ {
		disk, cfg := powerfs.New(), cfg
		cfg.FS = disk
		hurt := bytes.Clone(content)
		hurt[bit/8] ^= 1 << (bit % 8)
		checkTorn(t, disk, cfg, name, hurt, n-1, fmt.Sprintf("bit %d flipped", bit))
	}
}

func TestTornTailOfZeroesIsCut(t *testing.T) {
	t.Parallel()
	const n = 3
	disk, cfg, name := written(t, n)
	content := disk.Files()[name]
	for at := lastBatch(content, n); at < len(content); at++ {
		disk, cfg := powerfs.New(), cfg
		cfg.FS = disk
		hurt := bytes.Clone(content)
		clear(hurt[at:])
		if bytes.Equal(hurt, content) {
			continue
		}
		checkTorn(t, disk, cfg, name, hurt, n-1, fmt.Sprintf("zeroes from %d", at))
	}
}

func TestDamageIsReportedWithItsExactRange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		hurt   func(b []byte, at func(seq int) int) []byte
		lo, hi uint64
	}{
		{"one byte of one record", func(b []byte, at func(int) int) []byte { b[at(4)+20] ^= 1; return b }, 4, 4},
		{"a length that reaches far", func(b []byte, at func(int) int) []byte { b[at(4)+2] = 0xf; return b }, 4, 4},
		{"a run of zeroes", func(b []byte, at func(int) int) []byte { clear(b[at(3)+5 : at(6)+5]); return b }, 3, 6},
		{"a piece cut out", func(b []byte, at func(int) int) []byte { return append(b[:at(2)+3], b[at(5)+9:]...) }, 2, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			disk, cfg, name := written(t, 9)
			content := disk.Files()[name]
			at := func(seq int) int { return bytes.Index(content, fmt.Appendf(nil, "record %d", seq)) - 17 }
			disk.Put(name, c.hurt(bytes.Clone(content), at))

			s := open(t, cfg)
			appendOK(t, s, "record 10")
			all := readAll(t, s, 1)
			var lost []spool.Record
			got := uint64(0)
			for _, rec := range all {
				switch {
				case rec.Lost != 0:
					lost = append(lost, rec)
				case string(rec.Data) != fmt.Sprintf("record %d", rec.Seq):
					t.Errorf("record %d is %q", rec.Seq, rec.Data)
				default:
					got++
				}
			}
			if len(lost) != 1 || lost[0].Lost != c.lo || lost[0].Seq != c.hi || got != 10-(c.hi-c.lo+1) {
				t.Errorf("lost %+v, %d whole records; want %d to %d", lost, got, c.lo, c.hi)
			}
			if st := s.Stats(); st.Damaged != c.hi-c.lo+1 {
				t.Errorf("%d counted as damaged", st.Damaged)
			}
			// The file is not removed but set aside.
			if err := s.Trim(10); err != nil {
				t.Fatal(err)
			}
			if _, ok := disk.Files()[name+".damaged"]; !ok {
				t.Errorf("the damaged file is gone: %v", segmentNames(disk))
			}
		})
	}
}

func TestDamagedHeaderLosesOnlyTheLabel(t *testing.T) {
	t.Parallel()
	disk, cfg, name := written(t, 3)
	content := disk.Files()[name]
	content[20] ^= 0xff
	disk.Put(name, content)
	s := open(t, cfg)
	if all := readAll(t, s, 1); len(all) != 3 || all[0].Epoch != 1 || all[0].Label != "" {
		t.Errorf("read %+v", all)
	}
}

func TestForeignFilesAreLeftAlone(t *testing.T) {
	t.Parallel()
	disk := powerfs.New()
	for _, name := range []string{"notes.txt", "0000000001-0000000001-0000000000000000000x.seg", "cursor"} {
		disk.Put(filepath.Join("/s", name), []byte("mine"))
	}
	s := open(t, small(disk))
	appendOK(t, s, "x")
	if err := s.Trim(100); err != nil {
		t.Fatal(err)
	}
	if got := disk.Files()["/s/notes.txt"]; string(got) != "mine" {
		t.Errorf("notes.txt is %q", got)
	}
}

// A batch whose sync failed stands in two files. What the first holds of it is void, also
// for a reader that looks for something to go on with after damage.
func TestDamageBeforeAVoidBatchIsReportedExactly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := powerfs.New()
		cfg := small(disk)
		s := open(t, cfg)
		appendOK(t, s, "record 1")
		appendOK(t, s, "record 2")
		disk.Failing(once("sync", 1, syscall.EIO))
		if err := s.Add(t.Context(), []byte("record 3"), spool.Ordinary); err != nil {
			t.Fatal(err)
		}
		appendOK(t, s, "record 4") // the same batch
		s.Close()
		name := segmentNames(disk)[0]
		content := disk.Files()[name]
		for _, hurt := range []string{"record 2", "record 3"} {
			at := bytes.Index(content, []byte(hurt))
			if at < 0 {
				t.Fatalf("%s does not stand in the first file", hurt)
			}
			content[at] ^= 1
		}
		disk.Put(name, content)
		s = open(t, cfg)
		all := readAll(t, s, 1)
		if len(all) != 4 || all[1].Lost != 2 || all[1].Seq != 2 || string(all[2].Data) != "record 3" {
			t.Errorf("read %+v", all)
		}
		s.Close()
	})
}
