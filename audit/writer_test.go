package audit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit/spool/powerfs"
)

func TestNoteTakenWhileTheLogCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(Config{Dir: "/spool", Producer: "p", FS: powerfs.New()})
		if err != nil {
			t.Fatal(err)
		}
		key, err := tierlock.ParseKey("biz:order:lock:1")
		if err != nil {
			t.Fatal(err)
		}
		// Close has said that it has begun, and has closed no stripe yet.
		l.closed.Store(true)
		l.notes.poke()
		synctest.Wait() // whatever the writer does about it is done
		ev := Acquired(tierlock.Grant{Chain: "order", Key: key, RequestID: tierlock.NewRequestID(), Tier: tierlock.Shared, AcquiredAt: time.Now()}, time.Second, 0)
		l.Note(&ev)
		l.closed.Store(false)
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if st := l.Stats(); st.Noted != 1 || st.Overflow != 0 {
			t.Errorf("1 note taken, %d written and %d refused", st.Noted, st.Overflow)
		}
	})
}

// Notes that come one at a time are written a few at a time: the writer gathers for a moment
// after each turn, and a flush does not wait for it.
func TestNotesGather(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(Config{Dir: "/spool", Producer: "p", FS: powerfs.New()})
		if err != nil {
			t.Fatal(err)
		}
		key, err := tierlock.ParseKey("biz:order:lock:1")
		if err != nil {
			t.Fatal(err)
		}
		note := func() {
			ev := Acquired(tierlock.Grant{Chain: "order", Key: key, RequestID: tierlock.NewRequestID(), Tier: tierlock.Shared, AcquiredAt: time.Now()}, time.Second, 0)
			l.Note(&ev)
			synctest.Wait()
		}
		written := func(want uint64, when string) {
			t.Helper()
			synctest.Wait()
			if got := l.Stats().Noted; got != want {
				t.Errorf("%s: %d notes written, want %d", when, got, want)
			}
		}
		note()
		written(1, "a note after silence is written at once")
		note()
		note()
		written(1, "the next gather")
		time.Sleep(rest)
		written(3, "a moment later")
		note()
		if err := l.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		written(4, "a flush does not wait")
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
