package audit_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// oldFolder is what version 1 of the spool left behind: hello, two grants of which one has
// ended, an answer without a lock, and the seal. It is never written anew, so that what is
// on somebody's disk stays readable; a later format gets a folder of its own beside it.
const oldFolder = "testdata/spool-v1"

func TestFolderOfVersionOneIsReadAndForwarded(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(oldFolder); *update && err != nil {
		writeOldFolder(t)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(oldFolder)); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(oldFolder + "/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if got := dump(t, dir); !bytes.Equal(got, want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	sink := newMemory(2)
	l := open(t, audit.Config{Dir: dir, Producer: "shop-1", Sink: sink})
	drain(t, l)
	shut(t, l)
	if acc := sink.account(t); !acc.Complete() || len(sink.ofType(t, audit.TypeAcquire)) != 2 || len(sink.ofType(t, audit.TypeEnd)) != 1 || len(sink.ofType(t, audit.TypeOptimistic)) != 1 {
		t.Errorf("%+v", acc)
	}
}

func dump(t *testing.T, dir string) (all []byte) {
	t.Helper()
	err := audit.Dump(t.Context(), nil, dir, 0, 0, func(line []byte) error {
		all = append(append(all, line...), '\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func writeOldFolder(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	l := open(t, audit.Config{Dir: dir, Producer: "shop-1", Heartbeat: time.Hour})
	first := record(t, l, 1)
	record(t, l, 2)
	end := first
	end.Type, end.How, end.EndedAt = audit.TypeEnd, audit.Released, first.GrantedAt.Add(time.Second)
	point := audit.Optimistic("coupon", first.Key, tierlock.NewRequestID(), tierlock.ReasonSlow, audit.Unknown, first.GrantedAt)
	for _, ev := range []*audit.Event{&end, &point} {
		if err := l.Record(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, l)
	segments, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("%v, %v", segments, err)
	}
	content, err := os.ReadFile(segments[0])
	if err == nil {
		err = os.MkdirAll(oldFolder, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(oldFolder, filepath.Base(segments[0])), content, 0o644)
	}
	if err == nil {
		err = os.WriteFile(oldFolder+"/events.jsonl", dump(t, dir), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
