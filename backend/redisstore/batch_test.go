package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// asked is one acquire under way.
type asked struct {
	hold   tierlock.Hold
	answer tierlock.Answer
	err    error
	took   time.Duration
}

// gather has all holds asked for in one batch, which travels when go is called; results
// come from wait.
func gather(t *testing.T, store *redisstore.Store, holds []tierlock.Hold, budget func(i int) time.Duration) (g redisstore.Gathering, wait func() []asked) {
	t.Helper()
	g = store.Gather(t, holds[0].Key)
	results := make([]asked, len(holds))
	var all sync.WaitGroup
	for i, hold := range holds {
		all.Go(func() {
			began := time.Now()
			ctx, deadline := within(t, budget(i))
			answer, err := store.Acquire(ctx, tierlock.Request{Hold: hold, NotAfter: deadline, Fenced: i%2 == 0})
			results[i] = asked{hold, answer, err, time.Since(began)}
		})
	}
	eventually(t, "all stand in line", func() bool { return g.InLine() == len(holds) })
	return g, func() []asked { all.Wait(); return results }
}

func patient(int) time.Duration { return 5 * time.Second }

func newHolds(t *testing.T, n int) []tierlock.Hold {
	t.Helper()
	holds := make([]tierlock.Hold, n)
	for i := range holds {
		holds[i] = newHold(t, minute)
	}
	return holds
}

// What one operation of a batch meets is its own affair, whatever its neighbours are.
func TestOperationsOfOneBatchDoNotFailEachOther(t *testing.T) {
	for name, slotted := range map[string]bool{"one call": false, "a call for each slot": true} {
		t.Run(name, func(t *testing.T) {
			server := servers.Redis(t)
			store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
			if slotted {
				store.Slotted()
			}
			boss := admin(t, server.Addr())
			holds := newHolds(t, 60)
			for i, hold := range holds {
				switch i % 6 {
				case 1, 2: // no lock; fenced and not
					boss.SAdd(t.Context(), hold.Key.String(), "member")
				case 3:
					take(t, store, tierlock.Hold{Key: hold.Key, ID: tierlock.NewRequestID(), TTL: minute}, tierlock.Granted)
				case 4: // no fence record
					boss.Set(t.Context(), "{"+hold.Key.String()+"}:fence", "no token", 0)
				case 5:
					take(t, store, hold, tierlock.Granted)
				}
			}
			before := calls(t, server.Addr())
			g, wait := gather(t, store, holds, patient)
			g.Go()
			for i, a := range wait() {
				switch i % 6 {
				case 4:
					look(t, store, a.hold, tierlock.Gone)
					fallthrough
				case 1, 2:
					wantFault(t, a.err, tierlock.ReasonWrongType, false)
					continue
				}
				want := []tierlock.Status{0: tierlock.Granted, 3: tierlock.Held, 5: tierlock.Mine}[i%6]
				if a.err != nil || a.answer.Status != want || want == tierlock.Granted && a.answer.Token == 0 {
					t.Errorf("%d: %+v, %v, want %v", i, a.answer, a.err, want)
				}
			}
			if made := calls(t, server.Addr()) - before; !slotted && made != 11 { // 10 of them looks
				t.Errorf("%d calls for one batch", made)
			}
		})
	}
}

// A batch of a server that hangs is no more than each of its callers' own trouble: each is
// answered at its own deadline, in doubt, and counted until the server answers.
func TestEachOfABatchIsAnsweredAtItsOwnDeadline(t *testing.T) {
	server := servers.Redis(t)
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	take(t, store, newHold(t, minute), tierlock.Granted) // connects
	holds := newHolds(t, 50)
	const long = 5 * time.Second
	g, wait := gather(t, store, holds, func(i int) time.Duration {
		if i == 0 {
			return long
		}
		return attempt
	})
	server.Freeze()
	g.Go()
	eventually(t, "the others have gone", func() bool { return store.Gone() == len(holds)-1 })
	if loose := store.Loose(""); loose != 0 {
		t.Errorf("%d loose: they would count twice, by Fault.Done too", loose)
	}
	server.Thaw()
	all := wait()
	if all[0].err != nil || all[0].answer.Status != tierlock.Granted {
		t.Errorf("with time enough: %v, %v", all[0].answer.Status, all[0].err)
	}
	give(t, store, all[0].hold, tierlock.Released)
	for _, a := range all[1:] {
		wantFault(t, a.err, tierlock.ReasonAttempt, true)
		if a.took > attempt+10*grace {
			t.Errorf("answered after %v, want %v", a.took, attempt)
		}
		var fault *tierlock.Fault
		if errors.As(a.err, &fault); fault.Done == nil {
			t.Fatal("nothing tells when the batch has ended")
		}
		select {
		case <-fault.Done:
		case <-time.After(long):
			t.Fatal("the batch has ended, and Done does not say so")
		}
	}
	if gone := store.Gone(); gone != 0 {
		t.Errorf("%d on their way after the end", gone)
	}
	for _, key := range locks(t, admin(t, server.Addr())) {
		for _, a := range all[1:] {
			if a.hold.Key.String() == key {
				t.Errorf("a lock that nobody holds: %s", key)
			}
		}
	}
}

// Who never left the line was sent nowhere: there is nothing to settle.
func TestWhoIsStillInLineIsInNoDoubt(t *testing.T) {
	server := servers.Redis(t)
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	holds := newHolds(t, 4)
	g, wait := gather(t, store, holds, func(i int) time.Duration { return []time.Duration{attempt, attempt / 4}[i%2] })
	for i, a := range wait() {
		wantFault(t, a.err, []tierlock.Reason{tierlock.ReasonSaturated, tierlock.ReasonAttempt}[i%2], false)
	}
	g.Go()
	for _, hold := range holds {
		look(t, store, hold, tierlock.Gone)
	}
}

func TestCancelEndsTheWaitOfABatchAtOnce(t *testing.T) {
	server := servers.Redis(t)
	link := newProxy(t, server.Addr())
	store := open(t, redisstore.Config{Addrs: []string{link.addr()}})
	take(t, store, newHold(t, minute), tierlock.Granted) // connects
	for name, travelling := range map[string]bool{"in line": false, "on its way": true} {
		t.Run(name, func(t *testing.T) {
			g := store.Gather(t, newHold(t, minute).Key)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() {
				deadline := time.Now().Add(10 * time.Second)
				_, err := store.Acquire(tierlock.Until(ctx, deadline), tierlock.Request{Hold: newHold(t, minute), NotAfter: deadline})
				ended <- err
			}()
			eventually(t, "it stands in line", func() bool { return g.InLine() == 1 })
			deliver := link.holdRequests()
			defer deliver()
			if travelling {
				g.Go()
				eventually(t, "it travels", func() bool { return link.held.Load() > 0 })
			}
			cancel()
			began := time.Now()
			wantFault(t, <-ended, tierlock.ReasonCanceled, travelling)
			if took := time.Since(began); took > time.Second {
				t.Errorf("took %v", took)
			}
			deliver()
			if !travelling {
				g.Go()
			}
			// Whoever has left stands in line till somebody looks: the next test would take him
			// for its own.
			eventually(t, "nothing is on its way", func() bool { return store.Gone() == 0 && g.InLine() == 0 })
		})
	}
}

// Two connections that say no more hold two callers up; the line behind them gets others, and
// is served within the attempt. What the machine takes is measured on a store without dead
// connections at the same time, and a round in which that one is slow is taken again.
func TestDeadConnectionsDoNotHoldUpTheLine(t *testing.T) {
	server := servers.Redis(t)
	link := newProxy(t, server.Addr())
	store := open(t, redisstore.Config{Addrs: []string{link.addr()}})
	well := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	take(t, store, newHold(t, minute), tierlock.Granted)
	take(t, well, newHold(t, minute), tierlock.Granted)
	listening(t, admin(t, server.Addr()), 2) // or a subscription would be held, too
	deliver := link.holdRequests()
	defer deliver()
	ctx, cancel := context.WithCancel(t.Context())
	var stuck sync.WaitGroup
	defer stuck.Wait()
	defer cancel()
	deadline := time.Now().Add(30 * time.Second)
	for i := range 2 {
		stuck.Go(func() {
			if _, err := store.Acquire(tierlock.Until(ctx, deadline), tierlock.Request{Hold: newHold(t, minute), NotAfter: deadline}); err == nil {
				t.Errorf("a dead connection answered")
			}
		})
		eventually(t, "it is stuck", func() bool { return link.held.Load() == int64(i+1) })
	}
	link.hold.Store(nil) // for those to come
	for range 100 {
		var slowest, slowestWell time.Duration
		var both sync.WaitGroup
		both.Go(func() { slowest = slowestOf(t, store, 20) })
		both.Go(func() { slowestWell = slowestOf(t, well, 20) })
		both.Wait()
		switch {
		case slowest < attempt:
			return
		case slowestWell < attempt/4:
			t.Fatalf("the line behind dead connections was not served in %v, another one took %v", slowest, slowestWell)
		}
	}
	t.Error("the line behind dead connections was never served in time")
}

// slowestOf asks for n holds at once, each within the attempt, and returns what the slowest
// took; one that was not granted took more than the attempt.
func slowestOf(t *testing.T, store *redisstore.Store, n int) (slowest time.Duration) {
	var all sync.WaitGroup
	took := make([]time.Duration, n)
	for i := range took {
		all.Go(func() {
			began := time.Now()
			if answer, err := try(t, store, newHold(t, minute)); err != nil || answer.Status != tierlock.Granted {
				began = began.Add(-attempt)
			}
			took[i] = time.Since(began)
		})
	}
	all.Wait()
	return slices.Max(took)
}

// A connection that is never made takes nobody with it: those in line go over the one that
// is there.
func TestConnectionThatIsNotThereYetTakesNobody(t *testing.T) {
	server := servers.Redis(t)
	link := newProxy(t, server.Addr())
	store := open(t, redisstore.Config{Addrs: []string{link.addr()}})
	take(t, store, newHold(t, minute), tierlock.Granted) // connects
	link.mute.Store(true)
	link.delay.Store(int64(4 * redisstore.Stall)) // so that others are sent to help
	g, wait := gather(t, store, newHolds(t, 3*redisstore.MaxOps), func(int) time.Duration { return 2 * time.Second })
	g.Go()
	for _, a := range wait() {
		if a.err != nil || a.answer.Status != tierlock.Granted {
			t.Fatalf("%v, %v", a.answer.Status, a.err)
		}
	}
}

func TestBatchIsSentAgainToAServerThatForgotTheScript(t *testing.T) {
	server := servers.Redis(t)
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	g, wait := gather(t, store, newHolds(t, 50), patient)
	if err := admin(t, server.Addr()).ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	g.Go()
	for _, a := range wait() {
		if a.err != nil || a.answer.Status != tierlock.Granted {
			t.Fatalf("%v, %v", a.answer.Status, a.err)
		}
	}
}

func TestCloseAnswersWhoStandsInLineAndWhoTravels(t *testing.T) {
	for name, travelling := range map[string]bool{"in line": false, "on their way": true} {
		t.Run(name, func(t *testing.T) {
			server := servers.Redis(t)
			store, err := redisstore.New(redisstore.Config{Addrs: []string{server.Addr()}})
			if err != nil {
				t.Fatal(err)
			}
			take(t, store, newHold(t, minute), tierlock.Granted)
			g, wait := gather(t, store, newHolds(t, 50), func(int) time.Duration { return time.Minute })
			if travelling {
				server.Freeze()
				g.Go()
				eventually(t, "they travel", func() bool { return g.InLine() == 0 && g.OnTheWire() })
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
			for _, a := range wait() {
				wantFault(t, a.err, tierlock.ReasonBroken, travelling)
			}
		})
	}
}

// Releases and renewals of one server travel together, each with its own answer.
func TestReleasesAndRenewalsTravelTogether(t *testing.T) {
	server := servers.Redis(t)
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	boss := admin(t, server.Addr())
	holds := newHolds(t, 60)
	for i, hold := range holds {
		switch i % 3 {
		case 0:
			take(t, store, hold, tierlock.Granted)
		case 1:
			boss.SAdd(t.Context(), hold.Key.String(), "member")
		}
	}
	g := store.Gather(t, holds[0].Key)
	var all sync.WaitGroup
	for i, hold := range holds {
		all.Go(func() {
			ctx, _ := within(t, 5*time.Second)
			var status tierlock.Status
			var err error
			kept := tierlock.Mine
			if i%2 == 0 {
				var answer tierlock.Answer
				answer, err = store.Release(ctx, hold)
				status, kept = answer.Status, tierlock.Released
			} else {
				var answers []tierlock.Answer
				answers, err = store.Renew(ctx, []tierlock.Hold{hold})
				status = answers[0].Status
			}
			if want := []tierlock.Status{kept, 0, tierlock.Gone}[i%3]; status != want || (err != nil) != (want == 0) {
				t.Errorf("%d: %v, %v, want %v", i, status, err, want)
			}
		})
	}
	eventually(t, "all stand in line", func() bool { return g.InLine() == len(holds) })
	before := calls(t, server.Addr())
	g.Go()
	all.Wait()
	if made := calls(t, server.Addr()) - before; made != 2 {
		t.Errorf("%d calls, want one of each script", made)
	}
}

// calls counts the scripts that a server has run by name.
func calls(t *testing.T, addr string) int {
	t.Helper()
	stats := admin(t, addr).InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_evalsha")
	var n int
	if _, err := fmt.Sscanf(stats, "calls=%d", &n); err != nil && stats != "" {
		t.Fatalf("%q: %v", stats, err)
	}
	return n
}
