package breaker_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/breaker"
)

// target is what is probed: it answers as told, and notes when it was asked.
type target struct {
	mu     sync.Mutex // guards all below
	answer error      // nil: well
	takes  time.Duration
	at     []time.Time
	out    int // probes out now
	worst  int // probes out at once
}

// never is a target that swallows what it is asked.
const never = time.Hour

func (g *target) probe(ctx context.Context) error {
	g.mu.Lock()
	answer, takes := g.answer, g.takes
	g.at = append(g.at, time.Now())
	g.out++
	g.worst = max(g.worst, g.out)
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.out--
		g.mu.Unlock()
	}()
	select {
	case <-time.After(takes):
		return answer
	case <-ctx.Done():
		return fault(tierlock.ReasonAttempt)
	}
}

// becomes changes how the target answers from the next probe on.
func (g *target) becomes(answer error, takes time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answer, g.takes = answer, takes
}

// asked is when it was probed.
func (g *target) asked() []time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.at)
}

func (g *target) atOnce() (now, worst int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.out, g.worst
}

// gaps are the times between probes, the first from since.
func (g *target) gaps(since time.Time) (gaps []time.Duration) {
	for _, at := range g.asked() {
		gaps = append(gaps, at.Sub(since))
		since = at
	}
	return gaps
}

// probed runs body with a sensor whose probe loop asks g.
func probed(t *testing.T, g *target, body func(t *testing.T, s *breaker.Sensor)) {
	synctest.Test(t, func(t *testing.T) {
		s := sensor(t, breaker.Config{Probe: g.probe})
		run(t, s)
		body(t, s)
		if _, worst := g.atOnce(); worst > 1 {
			t.Errorf("%d probes out at once", worst)
		}
	})
}

func TestNoProbesWhileCalm(t *testing.T) {
	g := &target{}
	probed(t, g, func(t *testing.T, s *breaker.Sensor) {
		for range 100 {
			enter(t, s).Exit(nil)
			enter(t, s).Exit(fault(tierlock.ReasonCanceled))
			time.Sleep(time.Second)
		}
		if len(g.asked()) != 0 {
			t.Errorf("%d probes", len(g.asked()))
		}
	})
}

func TestProbesWhileWorried(t *testing.T) {
	g := &target{}
	probed(t, g, func(t *testing.T, s *breaker.Sensor) {
		start := time.Now()
		for range 50 { // 10 s
			s.Worry()
			time.Sleep(200 * time.Millisecond)
		}
		gaps := g.gaps(start)
		if gaps[0] > 125*time.Millisecond {
			t.Errorf("first probe after %v", gaps[0])
		}
		same := true
		for _, gap := range gaps[1:] {
			if gap < 375*time.Millisecond || gap > 625*time.Millisecond {
				t.Errorf("gap of %v", gap)
			}
			same = same && gap == gaps[1]
		}
		if same {
			t.Error("no jitter")
		}
		if n := len(g.asked()); n < 16 || n > 27 {
			t.Errorf("%d probes in 10 s", n)
		}
		time.Sleep(3 * time.Second)
		n := len(g.asked())
		time.Sleep(time.Minute)
		if len(g.asked()) != n {
			t.Errorf("%d probes with no worry left", len(g.asked())-n)
		}
		if r := s.Read(time.Now()); r.Probes != n || r.FastProbes != n || r.Unanswered != 0 {
			t.Errorf("%d answered probes read as %+v", n, r)
		}
	})
}

// TestSwallowedProbes is a store frozen in place: nothing is refused and nothing answered.
func TestSwallowedProbes(t *testing.T) {
	g := &target{takes: never}
	probed(t, g, func(t *testing.T, s *breaker.Sensor) {
		enter(t, s).Exit(fault(tierlock.ReasonAttempt))
		start := time.Now()
		for s.Read(time.Now()).Unanswered < time.Second {
			if time.Since(start) > 1200*time.Millisecond {
				t.Fatalf("not noticed: %+v", s.Read(time.Now()))
			}
			time.Sleep(10 * time.Millisecond)
		}
		for range 10 { // nobody else worries: its own lost probes keep the loop going
			time.Sleep(time.Second)
		}
		if r := s.Read(time.Now()); r.Unanswered < 10*time.Second || r.ProbeFailed || r.Probes != 0 {
			t.Errorf("ten seconds on: %+v", r)
		}

		// Now that probes are lost for good, a timeout is a failure like another.
		for range 5 {
			enter(t, s).Exit(fault(tierlock.ReasonAttempt))
		}
		if r := s.Read(time.Now()); !r.Open || r.Failures != 5 {
			t.Errorf("timeouts of a silent store: %+v", r)
		}
		g.becomes(nil, 0)
		time.Sleep(1100 * time.Millisecond)
		if r := s.Read(time.Now()); r.Unanswered != 0 || r.Open || r.Failures != 0 || r.Probes == 0 {
			t.Errorf("after it answers: %+v", r)
		}
	})
}

// TestLostProbeOfALivingStore loses probes only: the traffic that is answered meanwhile
// shows that the store is well.
func TestLostProbeOfALivingStore(t *testing.T) {
	g := &target{takes: never}
	probed(t, g, func(t *testing.T, s *breaker.Sensor) {
		early := enter(t, s)
		s.Worry()
		time.Sleep(900 * time.Millisecond)
		early.Exit(nil) // went out before the probe: no proof
		if r := s.Read(time.Now()); r.Unanswered < 700*time.Millisecond {
			t.Fatalf("an answer from before the probe counts: %+v", r)
		}
		for range 20 {
			enter(t, s).Exit(nil)
			if r := s.Read(time.Now()); r.Unanswered != 0 {
				t.Fatalf("right after an answer: %+v", r)
			}
			time.Sleep(500 * time.Millisecond)
			if r := s.Read(time.Now()); r.Unanswered > 500*time.Millisecond {
				t.Fatalf("half a second after an answer: %+v", r)
			}
		}
	})
}

func TestFirstHardFaultIsProbedFast(t *testing.T) {
	g := &target{answer: fault(tierlock.ReasonDown)}
	probed(t, g, func(t *testing.T, s *breaker.Sensor) {
		start := time.Now()
		fails(t, s, 1, tierlock.ReasonDown)
		time.Sleep(10 * time.Second)
		for i, gap := range g.gaps(start) {
			low, high := 375*time.Millisecond, 625*time.Millisecond
			if i <= 5 {
				low, high = 75*time.Millisecond, 125*time.Millisecond
			}
			if gap < low || gap > high {
				t.Errorf("probe %d after %v", i, gap)
			}
		}
		if r := s.Read(time.Now()); !r.ProbeFailed || !r.Refused || r.Unanswered != 0 {
			t.Errorf("refused probes: %+v", r)
		}
		g.becomes(nil, 0)
		time.Sleep(time.Second)
		if r := s.Read(time.Now()); r.ProbeFailed || r.Refused || r.Failures != 0 || r.Probes == 0 {
			t.Errorf("answered probes: %+v", r)
		}
	})
}

// TestHardFaultHurriesThePlannedProbe has a probe planned for later already.
func TestHardFaultHurriesThePlannedProbe(t *testing.T) {
	g := &target{}
	probed(t, g, func(t *testing.T, s *breaker.Sensor) {
		s.Worry()
		time.Sleep(150 * time.Millisecond)
		if len(g.asked()) != 1 {
			t.Fatalf("%d probes", len(g.asked()))
		}
		fails(t, s, 1, tierlock.ReasonBroken)
		time.Sleep(130 * time.Millisecond)
		if len(g.asked()) != 2 {
			t.Errorf("%d probes 130 ms after a hard fault", len(g.asked()))
		}
	})
}

func TestFailedProbeIsOneWord(t *testing.T) {
	for r, failed := range map[tierlock.Reason]bool{
		tierlock.ReasonBroken: true, tierlock.ReasonDenied: true, tierlock.ReasonDown: true,
		tierlock.ReasonAttempt: false, tierlock.ReasonSaturated: false, tierlock.ReasonCanceled: false,
	} {
		g := &target{answer: fault(r)}
		probed(t, g, func(t *testing.T, s *breaker.Sensor) {
			s.Worry()
			time.Sleep(200 * time.Millisecond)
			got := s.Read(time.Now())
			if got.ProbeFailed != failed || (got.Unanswered > 0) == failed || got.Refused != (r == tierlock.ReasonDown) {
				t.Errorf("%s: %+v", r, got)
			}
		})
	}
}

func TestFastProbesAreUnderHalfAnAttempt(t *testing.T) {
	g := &target{takes: 99 * time.Millisecond}
	probed(t, g, func(t *testing.T, s *breaker.Sensor) {
		worry := func() {
			for range 10 {
				s.Worry()
				time.Sleep(200 * time.Millisecond)
			}
		}
		worry()
		if r := s.Read(time.Now()); r.FastProbes < 3 || r.FastProbes != r.Probes {
			t.Errorf("fast: %+v", r)
		}
		g.becomes(nil, 100*time.Millisecond)
		worry()
		if r := s.Read(time.Now()); r.FastProbes != 0 || r.Probes < 6 {
			t.Errorf("slow: %+v", r)
		}
	})
}

func TestTimeoutsCountByTheirTimeOnTheWire(t *testing.T) {
	g := &target{}
	probed(t, g, func(t *testing.T, s *breaker.Sensor) {
		timeout := func(wire time.Duration) {
			p := enter(t, s)
			time.Sleep(wire)
			p.Exit(fault(tierlock.ReasonAttempt))
		}
		timeout(179 * time.Millisecond) // a caller in a hurry, or who had waited for a slot
		if r := s.Read(time.Now()); r.Timeouts != 0 {
			t.Errorf("a short one counts: %+v", r)
		}
		time.Sleep(150 * time.Millisecond)
		if len(g.asked()) == 0 {
			t.Error("a short one is not looked into")
		}
		timeout(180 * time.Millisecond)
		timeout(200 * time.Millisecond)
		if r := s.Read(time.Now()); r.Timeouts != 2 || r.Failures != 0 || r.Open {
			t.Errorf("two whole ones: %+v", r)
		}
		time.Sleep(800 * time.Millisecond)
		if r := s.Read(time.Now()); r.Timeouts != 1 {
			t.Errorf("a second after the first: %+v", r)
		}
	})
}

// What hung in an outage and ends when it is over says nothing of the store that has come
// back: a release may hang for two seconds.
func TestTimeoutsOfAnOutageAreNoSlowness(t *testing.T) {
	for name, outage := range map[string]func(t *testing.T, g *target, s *breaker.Sensor){
		"silent": func(_ *testing.T, g *target, s *breaker.Sensor) {
			g.becomes(nil, never)
			s.Worry()
			time.Sleep(1500 * time.Millisecond)
			g.becomes(nil, 0)
			time.Sleep(1100 * time.Millisecond)
		},
		"refused": func(t *testing.T, g *target, s *breaker.Sensor) {
			enter(t, s).Exit(fault(tierlock.ReasonDown))
			time.Sleep(200 * time.Millisecond)
		},
		"a failed probe": func(_ *testing.T, g *target, s *breaker.Sensor) {
			g.becomes(fault(tierlock.ReasonBroken), 0)
			s.Worry()
			time.Sleep(200 * time.Millisecond)
			g.becomes(nil, 0)
			time.Sleep(700 * time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := &target{}
			probed(t, g, func(t *testing.T, s *breaker.Sensor) {
				early := enter(t, s)
				time.Sleep(200 * time.Millisecond)
				var hung []breaker.Pass
				for range 16 {
					hung = append(hung, s.Count(breaker.Ask{Strong: true}))
				}
				early.Exit(fault(tierlock.ReasonAttempt))
				outage(t, g, s)
				if r := s.Read(time.Now()); r.Probes == 0 || r.Unanswered != 0 || r.Timeouts != 0 {
					t.Fatalf("after the outage: %+v", r)
				}
				for _, p := range hung {
					p.Exit(fault(tierlock.ReasonAttempt))
				}
				if r := s.Read(time.Now()); r.Timeouts != 0 {
					t.Errorf("%d timeouts of the outage count", r.Timeouts)
				}
				p := enter(t, s)
				time.Sleep(200 * time.Millisecond)
				p.Exit(fault(tierlock.ReasonAttempt))
				if r := s.Read(time.Now()); r.Timeouts != 1 {
					t.Errorf("%d timeouts, want the one since", r.Timeouts)
				}
			})
		})
	}
}

// TestTimeSpentWaitingForASlotIsNotTimeOnTheWire has an attempt that gets its slot with
// 50 ms left: that the store does not answer within them says nothing.
func TestTimeSpentWaitingForASlotIsNotTimeOnTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sensor(t, breaker.Config{Wire: 1})
		held := enter(t, s)
		time.AfterFunc(150*time.Millisecond, func() { held.Exit(nil) })
		p, err := s.Enter(t.Context(), soon())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
		p.Exit(fault(tierlock.ReasonAttempt))
		if r := s.Read(time.Now()); r.Timeouts != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestProbeOfAKeyThatIsNoLockIsAnswered: the store is alive enough to say so.
func TestProbeOfAKeyThatIsNoLockIsAnswered(t *testing.T) {
	g := &target{answer: fault(tierlock.ReasonWrongType)}
	probed(t, g, func(t *testing.T, s *breaker.Sensor) {
		fails(t, s, 1, tierlock.ReasonDown)
		time.Sleep(200 * time.Millisecond)
		if r := s.Read(time.Now()); r.Probes == 0 || r.Refused || r.ProbeFailed || r.Unanswered != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestStoreThatCannotBeAsked has no Prober: time stands in for its probes.
func TestStoreThatCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changed atomic.Int64
		s := sensor(t, breaker.Config{Changed: func() { changed.Add(1) }})
		run(t, s)
		fails(t, s, 1, tierlock.ReasonDown)
		changed.Store(0)
		worry := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				s.Worry()
			}
		}
		worry(1900 * time.Millisecond)
		if r := s.Read(time.Now()); !r.Refused || r.Probes != 0 || changed.Load() != 0 {
			t.Errorf("within Open: %+v, %d changes", r, changed.Load())
		}
		worry(time.Second)
		if r := s.Read(time.Now()); r.Refused || r.Failures != 0 || r.Probes == 0 || changed.Load() == 0 {
			t.Errorf("past Open: %+v, %d changes", r, changed.Load())
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &target{takes: never}
		var changed atomic.Int64
		s := sensor(t, breaker.Config{Probe: g.probe, Changed: func() { changed.Add(1) }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Run(ctx)
		}()
		s.Worry()
		time.Sleep(150 * time.Millisecond)
		if now, _ := g.atOnce(); now != 1 {
			t.Fatalf("%d probes out", now)
		}
		cancel()
		start := time.Now()
		<-ended
		if time.Since(start) != 0 || changed.Load() != 0 {
			t.Errorf("ended after %v with %d changes: its own end is no evidence", time.Since(start), changed.Load())
		}
	})
}
