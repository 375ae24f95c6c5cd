package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/breaker"
)

// TestSlowlyFailingStoreOpens is one call a second, each failing after 200 ms: windows
// that forget would never trip.
func TestSlowlyFailingStoreOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sensor(t, breaker.Config{Failures: 7, Open: time.Minute})
		calls := 0
		for !s.Read(time.Now()).Open {
			p := enter(t, s)
			time.Sleep(200 * time.Millisecond)
			p.Exit(fault(tierlock.ReasonBroken))
			time.Sleep(800 * time.Millisecond)
			if calls++; calls > 7 {
				t.Fatal("closed after seven failures in a row")
			}
		}
		if calls != 7 {
			t.Errorf("open after %d calls", calls)
		}
		wantErr(t, s, soon(), breaker.ErrOpen)
	})
}

func TestWhatOpensTheBreaker(t *testing.T) {
	for _, c := range []struct {
		end  error
		open bool
	}{
		{fault(tierlock.ReasonDown), true},
		{fault(tierlock.ReasonBroken), true},
		{fault(tierlock.ReasonDenied), true},
		{errors.New("no fault at all"), true},
		{fmt.Errorf("wrapped: %w", fault(tierlock.ReasonDown)), true},
		{fault(tierlock.ReasonAttempt), false},
		{fault(tierlock.ReasonSaturated), false},
		{fault(tierlock.ReasonCanceled), false},
		{fault(tierlock.ReasonWrongType), false},
		{context.Canceled, false},
		{context.DeadlineExceeded, false},
		{nil, false}, // "held by another" too: an answer
	} {
		t.Run(fmt.Sprint(c.end), func(t *testing.T) {
			s := sensor(t, breaker.Config{})
			for range 5 {
				enter(t, s).Exit(c.end)
			}
			if r := s.Read(time.Now()); r.Open != c.open || (r.Failures == 5) != c.open {
				t.Errorf("%+v, want open %v", r, c.open)
			}
		})
	}
}

func TestAnAnswerEndsARowOfFailures(t *testing.T) {
	s := sensor(t, breaker.Config{})
	for range 10 {
		fails(t, s, 4, tierlock.ReasonDown)
		enter(t, s).Exit(fault(tierlock.ReasonCanceled)) // says nothing
		if r := s.Read(time.Now()); r.Failures != 4 || !r.Refused || r.Open {
			t.Fatalf("%+v", r)
		}
		enter(t, s).Exit(nil)
		if r := s.Read(time.Now()); r.Failures != 0 || r.Refused {
			t.Fatalf("%+v", r)
		}
	}
}

// opened returns a sensor whose breaker has opened and may now be tried.
func opened(t *testing.T) *breaker.Sensor {
	s := sensor(t, breaker.Config{})
	fails(t, s, 5, tierlock.ReasonBroken)
	wantErr(t, s, soon(), breaker.ErrOpen)
	time.Sleep(2*time.Second + 1)
	if !s.Read(time.Now()).Open {
		t.Error("looking at an open breaker closed it")
	}
	return s
}

func TestOneTrialDecides(t *testing.T) {
	for _, c := range []struct {
		name string
		end  error
		open bool
	}{
		{"an answer closes", nil, false},
		{"a failure opens", fault(tierlock.ReasonBroken), true},
		{"a timeout opens", fault(tierlock.ReasonAttempt), true},
		{"no connection opens", fault(tierlock.ReasonSaturated), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := opened(t)
				trial, err := s.Enter(t.Context(), soon())
				if err != nil {
					t.Fatal(err)
				}
				wantErr(t, s, soon(), breaker.ErrOpen) // one at a time
				time.Sleep(100 * time.Millisecond)
				trial.Exit(c.end)
				trial.Exit(nil)
				r := s.Read(time.Now())
				if r.Open != c.open || !c.open && r.Failures != 0 {
					t.Errorf("%+v", r)
				}
				if c.open {
					wantErr(t, s, soon(), breaker.ErrOpen)
				} else {
					enter(t, s).Exit(nil)
				}
			})
		})
	}
}

// TestHungTrialDoesNotWedge leaves a trial without its report, as a driver that hangs
// does: the next one starts within twice the open time.
func TestHungTrialDoesNotWedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t)
		hung, err := s.Enter(t.Context(), soon())
		if err != nil {
			t.Fatal(err)
		}
		var next breaker.Pass
		start := time.Now()
		for next, err = s.Enter(t.Context(), soon()); err != nil; next, err = s.Enter(t.Context(), soon()) {
			if time.Since(start) > 4*time.Second {
				t.Fatal("wedged")
			}
			time.Sleep(10 * time.Millisecond)
		}
		hung.Exit(nil) // too late: it is not the trial any more
		if !s.Read(time.Now()).Open {
			t.Error("a result nobody waits for closed the breaker")
		}
		next.Exit(nil)
		if s.Read(time.Now()).Open {
			t.Error("still open")
		}
	})
}

// TestCancelledTrials decide nothing, do not wedge, and do not let everybody through.
func TestCancelledTrials(t *testing.T) {
	for _, r := range []tierlock.Reason{tierlock.ReasonCanceled, tierlock.ReasonWrongType} {
		t.Run(string(r), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := opened(t)
				trials := 0
				for range 1000 { // 10 s
					if p, err := s.Enter(t.Context(), soon()); err == nil {
						trials++
						p.Exit(fault(r))
					}
					time.Sleep(10 * time.Millisecond)
				}
				if trials < 15 || trials > 20 {
					t.Errorf("%d trials in 10 s", trials)
				}
				if !s.Read(time.Now()).Open {
					t.Error("closed by nothing")
				}
				time.Sleep(time.Second)
				enter(t, s).Exit(nil)
				if s.Read(time.Now()).Open {
					t.Error("still open after an answer")
				}
			})
		})
	}
}

func TestWaitersLeaveWhenTheBreakerOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sensor(t, breaker.Config{Wire: 5})
		var in []breaker.Pass
		for range 5 {
			in = append(in, enter(t, s))
		}
		result := make(chan error)
		for i := range 4 {
			go func() {
				p, err := s.Enter(t.Context(), breaker.Ask{Strong: i%2 == 0, Deadline: time.Now().Add(time.Second)})
				p.Exit(nil)
				result <- err
			}()
		}
		synctest.Wait()
		start := time.Now()
		done := make(chan struct{}) // not one slot gets free
		for _, p := range in {
			p.Exit(&tierlock.Fault{Reason: tierlock.ReasonBroken, InDoubt: true, Done: done})
		}
		for range 4 {
			if err := <-result; !errors.Is(err, breaker.ErrOpen) || time.Since(start) > 0 {
				t.Errorf("waiter: %v after %v", err, time.Since(start))
			}
		}
		close(done)
		synctest.Wait()
		if s.Out() != 0 {
			t.Errorf("%d out", s.Out())
		}
	})
}

// TestSlotWonBehindAnOpenBreakerIsGivenBack has the breaker open between the hand-over of
// a slot and the moment its new owner wakes.
func TestSlotWonBehindAnOpenBreakerIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sensor(t, breaker.Config{Wire: 5})
		var in []breaker.Pass
		for range 5 {
			in = append(in, enter(t, s))
		}
		result := make(chan error)
		for range 3 {
			go func() {
				p, err := s.Enter(t.Context(), soon())
				p.Exit(nil)
				result <- err
			}()
		}
		synctest.Wait()
		for _, p := range in {
			p.Exit(fault(tierlock.ReasonBroken))
		}
		for range 3 {
			if err := <-result; err != nil && !errors.Is(err, breaker.ErrOpen) {
				t.Errorf("waiter: %v", err)
			}
		}
		if s.Out() != 0 {
			t.Errorf("%d out", s.Out())
		}
	})
}

// TestLateResultsOfAFormerEraAreIgnored keeps operations out over a reset by a good
// probe, of a breaker that had opened and of one that had only begun to count.
func TestLateResultsOfAFormerEraAreIgnored(t *testing.T) {
	for _, failures := range []int{1, 5} {
		synctest.Test(t, func(t *testing.T) {
			s := sensor(t, breaker.Config{Probe: func(context.Context) error { return nil }})
			fails(t, s, failures, tierlock.ReasonDown)
			var late []breaker.Pass
			for range 10 {
				late = append(late, s.Count(breaker.Ask{Strong: true}))
			}
			run(t, s)
			time.Sleep(200 * time.Millisecond)
			if r := s.Read(time.Now()); r.Open || r.Refused || r.Probes == 0 {
				t.Fatalf("a good probe left %+v", r)
			}
			for _, p := range late {
				p.Exit(fault(tierlock.ReasonDown))
			}
			if r := s.Read(time.Now()); r.Open || r.Refused || r.Failures != 0 || r.Probes == 0 {
				t.Errorf("late results count: %+v", r)
			}
			enter(t, s).Exit(fault(tierlock.ReasonDown))
			if r := s.Read(time.Now()); !r.Refused || r.Failures != 1 || r.Probes != 0 {
				t.Errorf("a new result does not count: %+v", r)
			}
		})
	}
}

// TestResultsFromBeforeATripAreIgnoredAfterIt keeps operations out from before the breaker
// opened until a trial has closed it.
func TestResultsFromBeforeATripAreIgnoredAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sensor(t, breaker.Config{})
		var late []breaker.Pass
		for range 5 {
			late = append(late, enter(t, s))
		}
		fails(t, s, 5, tierlock.ReasonBroken)
		time.Sleep(2*time.Second + 1)
		enter(t, s).Exit(nil)
		for _, p := range late {
			p.Exit(fault(tierlock.ReasonBroken))
		}
		if r := s.Read(time.Now()); r.Open || r.Failures != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestForcedAsksPassAnOpenBreaker: an operator who wants the store asked is not told what the
// breaker thinks, and what comes of it is read all the same.
func TestForcedAsksPassAnOpenBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sensor(t, breaker.Config{Failures: 2})
		fails(t, s, 2, tierlock.ReasonBroken)
		wantErr(t, s, soon(), breaker.ErrOpen)
		forced := soon()
		forced.Forced = true
		for range 3 {
			p, err := s.Enter(t.Context(), forced)
			if err != nil {
				t.Fatal(err)
			}
			p.Exit(fault(tierlock.ReasonBroken))
		}
		if r := s.Read(time.Now()); !r.Open || r.Failures != 5 {
			t.Errorf("five broke: %+v", r)
		}
		p, err := s.Enter(t.Context(), forced)
		p.Exit(nil)
		if r := s.Read(time.Now()); err != nil || !r.Open || r.Failures != 0 {
			t.Errorf("%v; one answered is no trial: %+v", err, r)
		}
		time.Sleep(2*time.Second + 1)
		enter(t, s).Exit(nil)
		if s.Read(time.Now()).Open {
			t.Error("a trial did not close it")
		}
	})
}

// TestForcedAsksStayInLine when the breaker opens, and are served by the next free slot.
func TestForcedAsksStayInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sensor(t, breaker.Config{Wire: 6})
		var in []breaker.Pass
		for range 6 {
			in = append(in, enter(t, s))
		}
		result := map[bool]chan error{true: make(chan error, 1), false: make(chan error, 1)}
		for forced, told := range result {
			ask := soon()
			ask.Forced = forced
			go func() {
				p, err := s.Enter(t.Context(), ask)
				p.Exit(nil)
				told <- err
			}()
		}
		synctest.Wait()
		never := make(chan struct{}) // five slots are not given back
		for _, p := range in[:5] {
			p.Exit(&tierlock.Fault{Reason: tierlock.ReasonBroken, Done: never})
		}
		if err := <-result[false]; !errors.Is(err, breaker.ErrOpen) {
			t.Errorf("not forced: %v", err)
		}
		in[5].Exit(nil)
		if err := <-result[true]; err != nil {
			t.Errorf("forced: %v", err)
		}
		close(never)
		synctest.Wait()
		if s.Out() != 0 {
			t.Errorf("%d out", s.Out())
		}
	})
}

// TestTallyNamesWhoIsOut, operations that were given up and are still out included.
func TestTallyNamesWhoIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sensor(t, breaker.Config{Wire: 8})
		var coupons, orders breaker.Tally
		ask := soon()
		ask.Tally = &coupons
		var in []breaker.Pass
		for range 3 {
			p, err := s.Enter(t.Context(), ask)
			if err != nil {
				t.Fatal(err)
			}
			in = append(in, p)
		}
		held := s.Count(breaker.Ask{Strong: true, Tally: &orders})
		done := make(chan struct{})
		in[0].Exit(&tierlock.Fault{Reason: tierlock.ReasonAttempt, Done: done})
		in[1].Exit(nil)
		in[1].Exit(nil)
		if c, o := coupons.Out(), orders.Out(); c != 2 || o != 1 || s.Out() != 3 {
			t.Errorf("%d and %d of %d out, want 2 and 1 of 3", c, o, s.Out())
		}
		close(done)
		synctest.Wait()
		in[2].Exit(nil)
		held.Exit(nil)
		if c, o := coupons.Out(), orders.Out(); c != 0 || o != 0 || s.Out() != 0 {
			t.Errorf("%d and %d of %d are left", c, o, s.Out())
		}
	})
}

// TestChangedMayCallBack would hang if the callback ran under a lock, gobreaker's or ours.
func TestChangedMayCallBack(t *testing.T) {
	var s *breaker.Sensor
	calls := 0
	s, err := breaker.New(breaker.Config{Changed: func() {
		calls++
		s.Read(time.Now())
		s.Worry()
		s.Count(breaker.Ask{Strong: true}).Exit(nil)
		s.Out()
	}})
	if err != nil {
		t.Fatal(err)
	}
	fails(t, s, 7, tierlock.ReasonWrongType)
	enter(t, s).Exit(nil)
	if calls != 0 {
		t.Errorf("%d calls for what is no fault", calls)
	}
	called := make(chan struct{})
	go func() {
		defer close(called)
		fails(t, s, 7, tierlock.ReasonAttempt)
	}()
	select {
	case <-called:
		s.Close() // not in a clean-up, which would wait for the lock that is held
	case <-time.After(20 * time.Second):
		t.Fatal("a lock is held while Changed is called")
	}
	if calls != 7 {
		t.Errorf("%d calls for 7 faults", calls)
	}
}
