package faults

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/localfallback"
)

// Keys without end on the local tier. Those that nobody has any more make room, the oldest
// first; those that are held are never pushed out: then it refuses. Its memory is bounded.
func keysWithoutEnd(t *testing.T) {
	const most, mib = 1000, 1 << 20
	asked := 20_000
	if soak() {
		asked = 1_000_000
	}
	s := newSite(t, setup{policy: func(p *gateway.Policy) {
		p.Local = localfallback.Policy{TTL: 10 * time.Minute, Permits: 1, Keys: most}
		p.Audit.Record = audit.RecordOff // or the test's own trail grows
	}})
	s.server.Kill()
	s.eventually(time.Second, "the weak chain is local", func() bool {
		a := ask(s.coupons, "first")
		defer func() { _ = a.lock.Unlock(t.Context()) }()
		return a.err == nil
	})
	var held []*gateway.Lock
	hold := func(id string) (ok bool) {
		a := ask(s.coupons, id)
		if a.err == nil {
			held = append(held, a.lock)
		} else if r := a.reason(); r != tierlock.ReasonFull && r != tierlock.ReasonLate { // late: the machine is busy
			t.Fatalf("key %s: %v", id, a)
		}
		return a.err == nil
	}
	for i := range most / 2 {
		hold("held" + strconv.Itoa(i))
	}
	before, refused := heap(), 0
	for i := range asked { // each is idle at once
		a := ask(s.coupons, "idle"+strconv.Itoa(i))
		if a.err != nil {
			refused++
		}
		_ = a.lock.Unlock(t.Context())
	}
	if refused > asked/1000 { // late
		t.Errorf("%d of %d were refused, with room for the half of a full table", refused, asked)
	}
	for i := range asked {
		hold("more" + strconv.Itoa(i))
	}
	if len(held) != most {
		t.Errorf("%d held, want %d", len(held), most)
	}
	if grown := heap() - before; grown > 32*mib { // others of this process run beside
		t.Errorf("%d keys have cost %d MiB", 2*asked, grown/mib)
	}
	for _, l := range held {
		if ok, err := l.IsHeld(t.Context()); !ok || err != nil {
			t.Fatalf("a holder was pushed out: %v, %v", ok, err)
		}
		_ = l.Unlock(t.Context())
	}
	if a := ask(s.coupons, "again"); a.err != nil {
		t.Errorf("after all were given back: %v", a)
	}
}

// heap is what is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
