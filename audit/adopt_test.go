package audit_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/spool/powerfs"
)

// orphan is the disk of a producer that recorded n grants and was killed.
func orphan(t *testing.T, n int) *powerfs.FS {
	t.Helper()
	disk := powerfs.New()
	l := open(t, config(disk, nil))
	for i := range n {
		record(t, l, i)
	}
	disk.CutAfter(0)
	shutDead(t, l)
	disk.Kill()
	return disk
}

func adopting(disk *powerfs.FS, sink audit.Sink) audit.Config {
	cfg := config(disk, sink)
	cfg.Producer = "daemon-1"
	return cfg
}

func TestAdoptForwardsWhatADeadProducerLeftInItsNameAndSealsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, sink := orphan(t, 7), newMemory(3)
		after, err := audit.Adopt(t.Context(), adopting(disk, sink))
		if err != nil {
			t.Fatal(err)
		}
		if !after.Settled() || after.Producer != "shop-1" || after.Backlog() != 0 {
			t.Errorf("after: %+v", after)
		}
		if acc := sink.account(t); acc.Producer != "shop-1" || acc.Crashed != 1 || len(acc.Missing)+len(acc.Breaks)+len(acc.Unsealed) != 0 {
			t.Errorf("account %+v", acc)
		}
		if n := len(sink.ofType(t, audit.TypeAcquire)); n != 7 {
			t.Errorf("%d acquires", n)
		}
		if n := len(sink.ofType(t, audit.TypeHeartbeat)); n != 0 {
			t.Errorf("%d heartbeats of a dead producer", n)
		}
		// Nothing is left to do: not even an epoch is begun.
		before := disk.Files()
		if again, err := audit.Adopt(t.Context(), adopting(disk, sink)); err != nil || !reflect.DeepEqual(again, after) {
			t.Errorf("%+v, %v", again, err)
		}
		if got := disk.Files(); !slices.Equal(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(got))) {
			t.Error("files were made or removed")
		}
	})
}

func TestAdoptLeavesTheFolderFreeWhileTheSinkIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := orphan(t, 3)
		before := disk.Files()
		if _, err := audit.Adopt(t.Context(), adopting(disk, newMemory(0))); !errors.Is(err, errAway) {
			t.Errorf("got %v", err)
		}
		if len(disk.Files()) != len(before) {
			t.Error("the folder was opened")
		}
		// A sink that goes away meanwhile: the folder is given back when ctx ends.
		sink := newMemory(2)
		sink.hang = true
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begun := time.Now()
		left, err := audit.Adopt(ctx, adopting(disk, sink))
		if err == nil || left.InUse || left.Backlog() == 0 || time.Since(begun) > 4*time.Second {
			t.Errorf("%v, %+v after %v", err, left, time.Since(begun))
		}
		sink.set(func(s *memory) { s.hang = false })
		if left, err = audit.Adopt(t.Context(), adopting(disk, sink)); err != nil || !left.Settled() {
			t.Errorf("%v, %+v", err, left)
		}
		if n := len(sink.ofType(t, audit.TypeAcquire)); n != 3 {
			t.Errorf("%d acquires", n)
		}
	})
}

func TestAdoptOfAFolderInUseIsRefused(t *testing.T) {
	t.Parallel()
	disk := powerfs.New()
	l := open(t, config(disk, nil))
	record(t, l, 1)
	if f, err := audit.Adopt(t.Context(), adopting(disk, newMemory(1))); !errors.Is(err, audit.ErrLocked) || !f.InUse {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := audit.Inspect(disk, "/audit"); err != nil || !f.InUse || f.Settled() || f.Producer != "shop-1" {
		t.Errorf("%+v, %v", f, err)
	}
	record(t, l, 2) // its owner did not notice
	shut(t, l)
}
