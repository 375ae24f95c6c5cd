package incident

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
)

// flood is a closed source of one partition that makes its events while it is read: holds of
// two processes, one of a thousand overlapped by the next of its key.
type flood struct {
	holds  int // in all
	next   int64
	made   int
	seqs   [2]uint64
	most   uint64 // of the heap, seen between two batches
	keys   []tierlock.Key
	opened bool
}

const floodKeys = 10_000

func (f *flood) Next(context.Context) (reconcile.Batch, error) {
	if !f.opened {
		f.opened = true
		return reconcile.Batch{Assigned: []reconcile.Mark{{}}}, nil
	}
	if f.made >= f.holds {
		return reconcile.Batch{}, io.EOF
	}
	const batch = 5000
	var b reconcile.Batch
	put := func(shop int, ev audit.Event) {
		f.seqs[shop]++
		ev.Producer, ev.Epoch, ev.Seq, ev.Prev = fmt.Sprint("shop-", shop), 1, f.seqs[shop], f.seqs[shop]-1
		b.Records = append(b.Records, reconcile.Record{Offset: f.next, Time: ev.Time(), Value: ev.AppendJSON(nil)})
		f.next++
	}
	for range batch {
		shop := f.made / floodKeys % 2
		from := at(time.Duration(f.made) * time.Millisecond)
		ev := audit.Event{
			Type: audit.TypeAcquire, Chain: "coupon", Key: f.keys[f.made%floodKeys], Holder: fmt.Sprintf("%016x", f.made), Tier: tierlock.Bypass, Store: "bypass",
			GrantedAt: from, TTL: 10 * time.Second, ClockError: time.Millisecond, Switch: order7,
			Business: audit.Business{Type: "coupon", ID: f.keys[f.made%floodKeys].String(), Op: "claim", Delta: 1},
		}
		put(shop, ev)
		last := 5 * time.Second
		if f.made%1000 == 0 {
			last = 11 * time.Second // its key comes again after 10
		}
		ev.Type, ev.How, ev.Outcome, ev.EndedAt, ev.Business = audit.TypeEnd, audit.Released, audit.Committed, from.Add(last), audit.Business{}
		put(shop, ev)
		f.made++
	}
	for shop := range f.seqs {
		put(shop, audit.Event{Type: audit.TypeHeartbeat, At: at(time.Duration(f.made)*time.Millisecond - time.Second)})
		if f.made >= f.holds {
			put(shop, audit.Event{Type: audit.TypeSeal, At: at(time.Duration(f.made)*time.Millisecond + 20*time.Second), Sealed: 1, First: 1, Last: f.seqs[shop], Clean: true})
		}
	}
	if f.made >= f.holds {
		b.CaughtUp, b.AsOf = []int{0}, time.Now()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.most = max(f.most, m.HeapAlloc)
	return b, nil
}

func (f *flood) Commit(context.Context, reconcile.Mark) error { return nil }
func (f *flood) Rewind(context.Context, int) error            { return fmt.Errorf("nothing of this is late") }

// TestSoakAMillionEventsInLittleMemory: what a report keeps grows with what is open and touched,
// not with what is read.
func TestSoakAMillionEventsInLittleMemory(t *testing.T) {
	if os.Getenv("TIERLOCK_SOAK") == "" {
		t.Skip("left out: reads a million events; run make soak")
	}
	f := &flood{holds: 500_000}
	for i := range floodKeys {
		f.keys = append(f.keys, key(t, fmt.Sprint("u", i)))
	}
	began := time.Now()
	r, err := Make(t.Context(), Config{From: begin, To: at(time.Duration(f.holds) * time.Millisecond), Author: "kim", Source: f})
	if err != nil {
		t.Fatal(err)
	}
	// The same ten keys every time: each is one chain of all its holds.
	holds, pairs := 0, 0
	for i := range r.Conflicts {
		holds, pairs = holds+r.Conflicts[i].Holds, pairs+r.Conflicts[i].CertainPairs
	}
	if r.Total.Bypassed != f.holds || r.Total.Records != floodKeys || r.Total.Certain != 10 || holds != f.holds/1000 || pairs != holds-10 || !r.Certificate.Complete {
		t.Errorf("total %+v, %d holds in conflict, %d pairs, complete %t", r.Total, holds, pairs, r.Certificate.Complete)
	}
	t.Logf("%d events in %s, most of the heap %d MB", f.next, time.Since(began).Round(time.Second/10), f.most>>20)
	if f.most > 512<<20 {
		t.Errorf("%d bytes of heap", f.most)
	}
}
