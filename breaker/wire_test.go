package breaker_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/breaker"
)

func TestWeakCannotTakeTheReserve(t *testing.T) {
	for _, c := range []struct {
		name     string
		wire     int
		reserved float64
		weak     int
	}{
		{"a quarter", 8, 0, 6},
		{"rounded up", 5, 0, 3},
		{"two slots", 2, 0, 1},
		{"one slot has no reserve", 1, 0, 1},
		{"half", 8, .5, 4},
		{"none", 8, -1, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sensor(t, breaker.Config{Wire: c.wire, Reserved: c.reserved})
			for i := range c.weak {
				if _, err := s.Enter(t.Context(), breaker.Ask{}); err != nil {
					t.Fatalf("weak %d: %v", i, err)
				}
			}
			wantErr(t, s, breaker.Ask{}, breaker.ErrFull)
			if r := s.Read(time.Now()); r.WeakOccupancy != 1 || r.Occupancy != float64(c.weak)/float64(c.wire) {
				t.Errorf("full of weak operations: %+v", r)
			}
			for range c.wire - c.weak {
				enter(t, s)
			}
			wantErr(t, s, breaker.Ask{Strong: true}, breaker.ErrFull)
			if s.Out() != s.Limit() {
				t.Errorf("%d out of %d", s.Out(), s.Limit())
			}
		})
	}
}

func TestSlotGoesToWhoWaitedLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sensor(t, breaker.Config{Wire: 4})
		weak := make([]breaker.Pass, 3)
		for i := range weak {
			weak[i], _ = s.Enter(t.Context(), breaker.Ask{})
		}
		strong := enter(t, s)

		served := make(chan string, 4)
		line := func(name string, strong bool) {
			go func() {
				p, err := s.Enter(t.Context(), breaker.Ask{Strong: strong, Deadline: time.Now().Add(time.Second)})
				if err != nil {
					name += ": " + err.Error()
				}
				served <- name
				p.Exit(nil)
			}()
			synctest.Wait()
		}
		line("first, weak", false)
		line("second, strong", true)
		line("third, weak", false)

		// The strong slot is free, but the weak part is full: the first may not have it.
		strong.Exit(nil)
		if got := <-served; got != "second, strong" {
			t.Errorf("served %q", got)
		}
		synctest.Wait()
		select {
		case got := <-served:
			t.Errorf("served %q from the reserve", got)
		default:
		}
		weak[0].Exit(nil)
		if got := <-served; got != "first, weak" {
			t.Errorf("served %q", got)
		}
		if got := <-served; got != "third, weak" {
			t.Errorf("served %q", got)
		}
	})
}

func TestOlderWeakWaiterIsServedBeforeAStrongOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sensor(t, breaker.Config{Wire: 1})
		held := enter(t, s)
		served := make(chan bool, 2)
		for _, strong := range []bool{false, true} {
			go func() {
				p, err := s.Enter(t.Context(), breaker.Ask{Strong: strong, Deadline: time.Now().Add(time.Second)})
				if err != nil {
					t.Error(err)
				}
				served <- strong
				time.Sleep(time.Millisecond)
				p.Exit(nil)
			}()
			synctest.Wait()
		}
		held.Exit(nil)
		if first, second := <-served, <-served; first || !second {
			t.Errorf("served strong %v, then strong %v", first, second)
		}
		time.Sleep(time.Second)
	})
}

func TestWaitEndsAtTheDeadlineOrWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sensor(t, breaker.Config{Wire: 1})
		held := enter(t, s)
		start := time.Now()
		wantErr(t, s, soon(), breaker.ErrFull)
		if took := time.Since(start); took != 200*time.Millisecond {
			t.Errorf("gave up after %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := s.Enter(ctx, soon()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("caller's end: %v", err)
		}
		held.Exit(nil)
		enter(t, s).Exit(nil)
		if s.Out() != 0 {
			t.Errorf("%d out at the end", s.Out())
		}
	})
}

func TestSlotAtTheVeryDeadlineIsTooLate(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			s := sensor(t, breaker.Config{Wire: 1})
			held := enter(t, s)
			ask := soon()
			time.AfterFunc(time.Until(ask.Deadline), func() { held.Exit(nil) })
			wantErr(t, s, ask, breaker.ErrFull)
			synctest.Wait()
			if s.Out() != 0 {
				t.Fatalf("%d out", s.Out())
			}
		})
	}
}

// TestSlotHandedToOneWhoLeavesIsPassedOn makes a slot free in the same instant in which
// its next owner gives up. Whichever of the two is seen first, the one behind gets it.
func TestSlotHandedToOneWhoLeavesIsPassedOn(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			s := sensor(t, breaker.Config{Wire: 1})
			held := enter(t, s)
			ctx, cancel := context.WithCancel(t.Context())
			ask := breaker.Ask{Strong: true, Deadline: time.Now().Add(time.Second)}
			go func() {
				p, _ := s.Enter(ctx, ask)
				p.Exit(nil)
			}()
			synctest.Wait()
			behind := make(chan error)
			go func() {
				p, err := s.Enter(t.Context(), ask)
				behind <- err
				p.Exit(nil)
			}()
			synctest.Wait()
			go cancel()
			held.Exit(nil)
			start := time.Now()
			if err := <-behind; err != nil || time.Since(start) != 0 {
				t.Fatalf("the one behind: %v after %v", err, time.Since(start))
			}
			synctest.Wait()
			if s.Out() != 0 {
				t.Fatalf("%d out at the end", s.Out())
			}
		})
	}
}

// TestStorm has many goroutines enter, wait, be cancelled, abandon and exit. The limits
// hold at every moment and no slot is lost.
func TestStorm(t *testing.T) {
	const wire, weakPart = 8, 6
	s := sensor(t, breaker.Config{Wire: wire, Failures: 1 << 30})
	var out, weakOut, worst, worstWeak, served atomic.Int64
	raise := func(worst *atomic.Int64, n int64) {
		for was := worst.Load(); n > was && !worst.CompareAndSwap(was, n); was = worst.Load() {
		}
	}
	var all sync.WaitGroup
	for g := range 64 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 7))
			for range 300 {
				ctx, cancel := context.WithCancel(t.Context())
				if rnd.IntN(4) == 0 {
					time.AfterFunc(time.Duration(rnd.IntN(300))*time.Microsecond, cancel)
				}
				strong := g%2 == 0
				p, err := s.Enter(ctx, breaker.Ask{Strong: strong, Deadline: time.Now().Add(time.Duration(rnd.IntN(5000)) * time.Microsecond)})
				if err != nil {
					cancel()
					continue
				}
				served.Add(1)
				raise(&worst, out.Add(1))
				if !strong {
					raise(&worstWeak, weakOut.Add(1))
				}
				for range rnd.IntN(30) {
					runtime.Gosched() // keeps the slot while others ask
				}
				// Ours comes off before the sensor's, so ours is never the larger.
				out.Add(-1)
				if !strong {
					weakOut.Add(-1)
				}
				var end error
				if rnd.IntN(8) == 0 {
					done := make(chan struct{})
					end = &tierlock.Fault{Reason: tierlock.ReasonCanceled, InDoubt: true, Done: done}
					time.AfterFunc(time.Duration(rnd.IntN(300))*time.Microsecond, func() { close(done) })
				}
				p.Exit(end)
				if rnd.IntN(16) == 0 {
					p.Exit(nil)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if worst.Load() > wire || worstWeak.Load() > weakPart {
		t.Errorf("%d out at once of %d, %d weak of %d", worst.Load(), wire, worstWeak.Load(), weakPart)
	}
	if worst.Load() < wire/2 || served.Load() < 500 {
		t.Errorf("no storm: %d served, %d at once", served.Load(), worst.Load())
	}
	s.Close() // waits for the abandoned ones
	if s.Out() != 0 {
		t.Fatalf("%d slots lost", s.Out())
	}
	for range wire {
		enter(t, s)
	}
}

func TestAbandonedOperationCountsUntilItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loose := 0
		s := sensor(t, breaker.Config{Wire: 1, Loose: func() int { return loose }})
		done := make(chan struct{})
		enter(t, s).Exit(&tierlock.Fault{Reason: tierlock.ReasonAttempt, InDoubt: true, Done: done})
		if r := s.Read(time.Now()); r.Occupancy != 1 || s.Out() != 1 {
			t.Errorf("abandoned: occupancy %v, %d out", r.Occupancy, s.Out())
		}
		wantErr(t, s, soon(), breaker.ErrFull)
		time.AfterFunc(100*time.Millisecond, func() { close(done) })
		start := time.Now()
		p, err := s.Enter(t.Context(), soon())
		if err != nil || time.Since(start) != 100*time.Millisecond {
			t.Fatalf("after it is done: %v after %v", err, time.Since(start))
		}
		p.Exit(&tierlock.Fault{Reason: tierlock.ReasonAttempt, InDoubt: true, Done: done}) // closed already
		loose = 3
		if s.Out() != 3 || s.Read(time.Now()).Occupancy != 3 {
			t.Errorf("three loose: %d out", s.Out())
		}
	})
}

func TestCloseLetsAbandonedOperationsGo(t *testing.T) {
	s := sensor(t, breaker.Config{Wire: 1})
	never := &tierlock.Fault{Reason: tierlock.ReasonAttempt, InDoubt: true, Done: make(chan struct{})}
	enter(t, s).Exit(never)
	s.Close()
	s.Close()
	if s.Out() != 0 {
		t.Errorf("%d out after Close", s.Out())
	}
	enter(t, s).Exit(never) // starts nothing any more: goleak would see it
	if s.Out() != 0 {
		t.Errorf("%d out after Close", s.Out())
	}
}

func TestCountIsNeverRefused(t *testing.T) {
	s := sensor(t, breaker.Config{Wire: 1, Failures: 1})
	a, b := s.Count(breaker.Ask{Strong: true}), s.Count(breaker.Ask{Strong: true})
	if s.Out() != 2 {
		t.Errorf("%d out", s.Out())
	}
	wantErr(t, s, breaker.Ask{Strong: true}, breaker.ErrFull)
	a.Exit(nil)
	a.Exit(nil)
	breaker.Pass{}.Exit(nil)
	if s.Out() != 1 {
		t.Errorf("%d out after one left, twice", s.Out())
	}
	b.Exit(fault(tierlock.ReasonBroken))
	wantErr(t, s, breaker.Ask{Strong: true}, breaker.ErrOpen)
	s.Count(breaker.Ask{Strong: true}).Exit(nil)
	if s.Out() != 0 {
		t.Errorf("%d out", s.Out())
	}
}

// TestReleasesOfWeakChainsTakeNothingFromStrongOnes: they are never refused, so a flood of
// them would else fill the wire for everybody, and have the strong chains step down for it.
func TestReleasesOfWeakChainsTakeNothingFromStrongOnes(t *testing.T) {
	s := sensor(t, breaker.Config{Wire: 8})
	var releases []breaker.Pass
	for range 100 {
		releases = append(releases, s.Count(breaker.Ask{}))
	}
	wantErr(t, s, breaker.Ask{}, breaker.ErrFull)
	if r := s.Read(time.Now()); r.Occupancy != .75 || r.WeakOccupancy < 1 || s.Out() != 100 {
		t.Errorf("%d out: %+v; want three quarters full for strong chains, and full for weak ones", s.Out(), r)
	}
	for range 2 {
		defer enter(t, s).Exit(nil)
	}
	wantErr(t, s, breaker.Ask{Strong: true}, breaker.ErrFull)
	for _, p := range releases {
		p.Exit(nil)
	}
	if s.Out() != 2 {
		t.Errorf("%d out", s.Out())
	}
}

func TestTrickleIsTwoASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sensor(t, breaker.Config{})
		passed := 0
		for range 1000 { // 10 s
			p, err := s.Enter(t.Context(), breaker.Ask{Gate: breaker.GateTrickle})
			if err == nil {
				passed++
			} else if !errors.Is(err, breaker.ErrTrickle) {
				t.Fatal(err)
			}
			p.Exit(nil)
			time.Sleep(10 * time.Millisecond)
		}
		if passed != 20 {
			t.Errorf("%d passed in 10 s", passed)
		}
	})
}

func TestEachGateKeepsToItsShare(t *testing.T) {
	s := sensor(t, breaker.Config{Wire: 20})
	for _, c := range []struct {
		gate  breaker.Gate
		share float64
		want  int
	}{
		{breaker.GateRamp, .01, 1},
		{breaker.GateRamp, .1, 2},
		{breaker.GateRamp, .2, 4},
		{breaker.GateRamp, 1, 20},
		{breaker.GateUnder, .01, 1},
		{breaker.GateUnder, .8, 15},
		{breaker.GateUnder, .79, 15},
		{breaker.GateUnder, 1, 19},
	} {
		ask := breaker.Ask{Strong: true, Gate: c.gate, Share: c.share}
		var in []breaker.Pass
		for {
			p, err := s.Enter(t.Context(), ask)
			if err != nil {
				if !errors.Is(err, breaker.ErrShare) {
					t.Errorf("share %v: %v", c.share, err)
				}
				break
			}
			in = append(in, p)
		}
		if len(in) != c.want {
			t.Errorf("share %v: %d in, want %d", c.share, len(in), c.want)
		}
		for _, p := range in {
			p.Exit(nil)
		}
	}
}

// What goes out under a share is read as under it, on a wire of any width: a chain that waits
// for the wire to be free must not keep it from being so.
func TestWhatGoesOutUnderAShareIsReadAsUnderIt(t *testing.T) {
	const share = .8
	for limit := 2; limit <= 1100; limit++ {
		for _, strong := range []bool{true, false} {
			s := sensor(t, breaker.Config{Wire: limit})
			in := 0
			for ; ; in++ {
				if _, err := s.Enter(t.Context(), breaker.Ask{Strong: strong, Gate: breaker.GateUnder, Share: share}); err != nil {
					break
				}
			}
			r := s.Read(time.Now())
			if most := max(r.Occupancy, r.WeakOccupancy); in > 1 && most >= share {
				t.Fatalf("wire of %d, strong %v: %d in, occupancy %v", limit, strong, in, most)
			}
			if strong && float64(in+1)/float64(limit) < share {
				t.Fatalf("wire of %d: only %d in", limit, in)
			}
		}
	}
}

// A flood of weak chains takes its part of the ramp and not all of it; what it releases
// meanwhile takes nothing from the strong chains' part either.
func TestWeakFloodLeavesStrongChainsTheirPartOfTheRamp(t *testing.T) {
	s := sensor(t, breaker.Config{Wire: 40})
	weak := breaker.Ask{Gate: breaker.GateRamp, Share: .2}
	strong := weak
	strong.Strong = true
	enters := func(ask breaker.Ask) (in []breaker.Pass) {
		for {
			p, err := s.Enter(t.Context(), ask)
			if err != nil {
				if !errors.Is(err, breaker.ErrShare) {
					t.Fatal(err)
				}
				return in
			}
			in = append(in, p)
		}
	}
	flood := enters(weak)
	for range 10 {
		flood = append(flood, s.Count(breaker.Ask{}))
	}
	if n := len(flood) - 10; n != 6 {
		t.Errorf("%d weak ones in, want 6 of the 8 on the ramp", n)
	}
	if n := len(enters(strong)); n != 2 {
		t.Errorf("%d strong ones in beside the flood, want the other 2", n)
	}
}
