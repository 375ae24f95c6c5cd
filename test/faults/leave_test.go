package faults

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/way"
)

// Callers leave at each wait of a request. Each has one outcome, and nothing of them is left.
func callersLeave(t *testing.T) {
	t.Run("at its deadline", callersRunOut)
	t.Run("standing in line", callersLeaveTheLine)
	t.Run("writing the request", callersLeaveTheWrite)
	t.Run("waiting for the fsync", callersLeaveTheDisk)
}

// callersRunOut is contexts that end by their own deadlines, which sockets keep too: in line
// for a connection, at a dial, at the reply, behind a holder, and before anything was asked.
func callersRunOut(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(s *site) (mend func())
		store   func(*redisstore.Config)
		id      string
		want    error
		reason  tierlock.Reason
	}{
		"standing in line till its own deadline": {
			store: func(c *redisstore.Config) { c.PoolSize = 1 },
			prepare: func(s *site) func() {
				s.way.Become(way.LoseReplies)
				done := make(chan struct{})
				go func() { defer close(done); ask(s.orders, "first") }()
				wait(20 * time.Millisecond)
				return func() { <-done; s.way.Become(way.None) }
			}, id: "a", want: tierlock.ErrTimeout, reason: tierlock.ReasonCanceled,
		},
		"waiting for a dial": {prepare: func(s *site) func() {
			s.way.Become(way.Silent)
			s.way.Lead(s.server.Addr()) // cuts what stands
			return func() { s.way.Become(way.None) }
		}, id: "a", want: tierlock.ErrTimeout, reason: tierlock.ReasonCanceled},
		"waiting for the reply": {prepare: func(s *site) func() {
			s.way.Become(way.LoseReplies)
			return func() { s.way.Become(way.None) }
		}, id: "a", want: tierlock.ErrTimeout, reason: tierlock.ReasonCanceled},
		"waiting for the holder": {prepare: func(s *site) func() {
			l := s.must(s.orders, "held")
			return func() { _ = l.Unlock(s.Context()) }
		}, id: "held", want: tierlock.ErrHeld, reason: tierlock.ReasonHeld},
		"before it asked": {prepare: func(*site) func() { return func() {} }, id: "", want: tierlock.ErrTimeout, reason: tierlock.ReasonCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, setup{store: c.store})
			mend := c.prepare(s)
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
			if c.id == "" {
				cancel()
				c.id = "a"
			}
			began := time.Now()
			l, err := s.orders.Lock(ctx, c.id)
			s.is(answer{l, err, tookSince(began)}, c.want, c.reason)
			cancel()
			mend()
			s.serves()
			s.nothingIsLeft()
			s.wireIsEmpty()
		})
	}
}

// one is a store with a single connection: while it is out, everybody else stands in line.
func one(c *redisstore.Config) { c.PoolSize = 1 }

// occupied has somebody be on the only connection and wait for his reply. Among what he
// starts is who carries the others when he is back.
func (s *site) occupied() (by *leavers, got <-chan answer) {
	s.Helper()
	s.way.Become(way.HoldReplies)
	by = s.leavers()
	first := make(chan answer, 1)
	by.labelled(func() { first <- ask(s.orders, "first") })
	s.eventually(patient, "the first request is done by the server", func() bool {
		return s.boss.Exists(s.Context(), "biz:order:lock:first").Val() == 1
	})
	return by, first
}

// Who leaves while he stands in line was sent nowhere: the server never hears of him, nothing
// of him is in doubt, and who stood behind him is served.
func callersLeaveTheLine(t *testing.T) {
	const callers = 20
	var settled atomic.Int64
	s := newSite(t, setup{
		store: one, policy: patiently, hooks: gateway.Hooks{Settled: func(gateway.SettleInfo) { settled.Add(1) }},
	})
	_, first := s.occupied()
	behind := make(chan answer, 1)
	crowd := s.leavers()
	ids := numbered(t, "left", callers)
	crowd.come(s.orders, nil, ids...)
	standing := func(n int) func() bool { return func() bool { return crowd.stand("redisstore.(*batcher).wait") == n } }
	crowd.eventually(patient, "all stand in line", standing(callers))
	next := s.leavers() // one, who stays
	next.labelled(func() { behind <- ask(s.orders, "behind") })
	s.eventually(patient, "another stands behind them", func() bool { return next.stand("redisstore.(*batcher).wait") == 1 })
	crowd.goAway(callers, false)
	if n := crowd.stand(); n != 0 {
		t.Errorf("%d goroutines of those who left", n)
	}
	if n := s.out(); n != 2 { // the first and the one behind
		t.Errorf("%d on the wire when all have left, want 2", n)
	}
	s.way.Become(way.None)
	for who, a := range map[string]<-chan answer{"first": first, "behind": behind} {
		if a := <-a; a.err != nil || a.tier() != tierlock.Shared {
			t.Errorf("%s: %v", who, a)
		} else if err := a.lock.Unlock(t.Context()); err != nil {
			t.Errorf("%s: unlock: %v", who, err)
		}
	}
	crowd.nothingStays()
	for _, id := range ids { // a fence record outlives its lock
		if s.boss.Exists(t.Context(), "{biz:order:lock:"+id+"}:fence").Val() != 0 {
			t.Errorf("the server granted %s, who had left the line", id)
		}
	}
	if n := settled.Load(); n != 0 {
		t.Errorf("%d settled of those who were never sent", n)
	}
}

// Who leaves while the call that carries him is being written is answered at once, though
// the write goes on. The server is told the rest of it afterwards, and grants what nobody
// waits for any more; all of that is given back.
func callersLeaveTheWrite(t *testing.T) {
	var settled, granted atomic.Int64
	s := newSite(t, setup{
		store: one, policy: patiently, way: func(w *way.Way) { narrow(t, w) },
		hooks: gateway.Hooks{Settled: func(i gateway.SettleInfo) {
			settled.Add(1)
			if i.Status == tierlock.Released {
				granted.Add(1)
			}
		}},
	})
	narrow(t, s.way)   // the connections that stand by now, at the store's end
	const callers = 64 // as many as share a call
	carrier, first := s.occupied()
	crowd := s.leavers()
	crowd.come(s.orders, nil, numbered(t, strings.Repeat("a-long-name.", 16), callers)...)
	crowd.eventually(patient, "all stand in line", func() bool { return crowd.stand("redisstore.(*batcher).wait") == callers })
	s.way.Become(way.HoldBack) // the first is answered, and what is sent then is not read
	writing := func() bool { return carrier.stand("redisstore.(*batcher).drive", "net.(*conn).Write") == 1 }
	crowd.eventually(patient, "their call is being written", writing)
	crowd.goAway(callers, true)
	if !writing() {
		t.Error("the write has ended before they left")
	}
	if n := s.out(); n != callers {
		t.Errorf("%d on the wire while the call is, want %d", n, callers)
	}
	s.way.Become(way.None)
	a := <-first
	if a.err != nil {
		t.Fatalf("the first: %v", a)
	}
	if err := a.lock.Unlock(t.Context()); err != nil {
		t.Errorf("the first: unlock: %v", err)
	}
	crowd.nothingStays()
	carrier.nothingStays()
	if settled.Load() != callers || granted.Load() == 0 {
		t.Errorf("%d settled, %d of them granted by the server; want %d, and some", settled.Load(), granted.Load(), callers)
	}
}

// Who leaves while a bypass grant's record waits for the disk gets no grant. The record may
// still land, and is then closed by its end; the one who waits for the same fsync and stays
// is granted.
func callersLeaveTheDisk(t *testing.T) {
	const callers = 8
	disk, dir := new(brake), t.TempDir()
	log, err := audit.Open(audit.Config{Dir: dir, FS: disk, Producer: "leave", Heartbeat: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close(context.Background()) })
	s := newSite(t, setup{policy: patiently, trail: log})
	s.order(t, "order", tierlock.ModeBypass)
	if err := log.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	crowd, stays := s.leavers(), s.leavers()
	release := disk.hold()
	t.Cleanup(release) // before anything is waited for
	granted := make(chan answer, 1)
	ids := numbered(t, "left", callers)
	crowd.come(s.orders, nil, ids...)
	stays.labelled(func() { granted <- ask(s.orders, "stays") })
	s.eventually(patient, "all wait for the disk", func() bool {
		const await = "spool.(*Spool).await"
		return crowd.stand(await) == callers && stays.stand(await) == 1
	})
	crowd.goAway(callers, false)
	if n := crowd.stand(); n != 0 {
		t.Errorf("%d goroutines of those who left", n)
	}
	release()
	if a := <-granted; a.err != nil || a.tier() != tierlock.Bypass {
		t.Errorf("who stays: %v", a)
	} else if err := a.lock.Unlock(t.Context()); err != nil {
		t.Errorf("who stays: unlock: %v", err)
	}
	if a := ask(s.orders, ids[0]); a.err != nil || a.tier() != tierlock.Bypass {
		t.Errorf("asked again: %v", a)
	} else if err := a.lock.Unlock(t.Context()); err != nil {
		t.Errorf("asked again: unlock: %v", err)
	}
	s.order(t, "order", tierlock.ModeAuto)
	crowd.nothingStays()
	for _, c := range s.gw.Status().Chains {
		if c.Live != 0 {
			t.Errorf("%d locks of chain %s in hand", c.Live, c.Chain)
		}
	}
	holdsOfNobody(t, log, dir, ids)
}

// holdsOfNobody checks the trail of those who left: a grant may be in it, and has an end of
// no length then, as one that was rolled back; all but the last of ids[0], who asked again.
func holdsOfNobody(t *testing.T, log *audit.Log, dir string, ids []string) {
	t.Helper()
	if err := log.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	begun, ended, forced := map[string]int{}, map[string]int{}, 0
	err := audit.Dump(t.Context(), &brake{}, dir, 1, 0, func(line []byte) error {
		e, err := audit.Parse(line)
		if err != nil {
			return err
		}
		key := e.Key.String()
		switch e.Type {
		case audit.TypeAcquire:
			begun[key]++
		case audit.TypeEnd:
			ended[key]++
			if e.How == audit.Forced {
				forced++
				if e.Outcome != audit.RolledBack || !e.EndedAt.Equal(e.GrantedAt) || e.Reason != tierlock.ReasonUnrecorded {
					t.Errorf("the end of who left: %s", line)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range append(ids, "stays") {
		key, want := "biz:order:lock:"+id, 1
		if i == 0 {
			want = 2 // again
		}
		if begun[key] != want || ended[key] != want {
			t.Errorf("%s: %d grants and %d ends in the trail, want %d", key, begun[key], ended[key], want)
		}
	}
	if forced != len(ids) {
		t.Errorf("%d ends of grants that nobody got, want %d", forced, len(ids))
	}
}
