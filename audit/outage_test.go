package audit_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/tierlock/tierlock/audit"
)

// outage is what a long one comes to: hours of a busy process, one after the other.
const outageEvents = 9_000

// TestLongOutageKeepsMemoryFlatAndLosesNothing: the backlog lies on the disk, and what the
// process keeps of it does not grow with it. Afterwards all of it arrives, at a multiple of
// the speed at which it came.
func TestLongOutageKeepsMemoryFlatAndLosesNothing(t *testing.T) { // alone: it looks at the whole heap
	sink := newMemory(12)
	away := true
	sink.fate = func(int, audit.Message) error {
		if away {
			return errAway
		}
		return nil
	}
	l, err := audit.Open(audit.Config{Dir: t.TempDir(), Producer: "shop-1", Sink: sink, Heartbeat: time.Hour, Segment: 1 << 20, Quota: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	ids := make(map[string]bool, outageEvents)
	fill := func(n int) {
		for i := range n {
			ev := grant(t, i%500)
			ids[ev.ID.Fingerprint()] = true
			l.Note(&ev)
			if i%1000 == 999 {
				if err := l.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	fill(2000) // buffers have their size
	before := heap()
	fill(outageEvents - 2000)
	grown := heap() - before
	st := l.Stats()
	if st.Backlog() < outageEvents || st.Bytes < 2<<20 || st.Overflow != 0 || st.SendErrors == 0 {
		t.Errorf("the outage: %+v", st)
	}
	// The names of the grants are the test's own.
	if own := int64(outageEvents * 64); grown > own+(1<<20) {
		t.Errorf("the heap grew by %d bytes over a backlog of %d", grown, st.Bytes)
	}
	sink.set(func(*memory) { away = false })
	drain(t, l)
	shut(t, l)
	for _, ev := range sink.ofType(t, audit.TypeAcquire) {
		delete(ids, ev.Holder)
	}
	if acc := sink.account(t); len(ids) != 0 || !acc.Complete() {
		t.Errorf("%d events did not arrive, %+v", len(ids), acc)
	}
	if st := l.Stats(); st.Bytes > 2<<20 || st.Dead != 0 {
		t.Errorf("afterwards: %+v", st)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
