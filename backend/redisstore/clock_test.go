package redisstore

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A server whose clock is off by any amount, replies of any speed: what the server is told
// to refuse after is never later than it should be, and comes close.
func TestClockIsNeverAheadOfTheServers(t *testing.T) {
	const seed = 20261129
	random := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		offset := time.Duration(random.Int64N(int64(48*time.Hour))) - 24*time.Hour
		start := time.Now()
		c := clock{start: start}
		now := start
		quickest := time.Hour
		for range 50 {
			now = now.Add(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
			sent := now
			there, back := time.Duration(random.Int64N(int64(5*time.Millisecond))), time.Duration(random.Int64N(int64(5*time.Millisecond)))
			quickest = min(quickest, back)
			now = now.Add(there)
			server := now.Add(offset).Truncate(time.Microsecond)
			now = now.Add(back)
			c.learn(sent, now, server)
			limit := now.Add(200 * time.Millisecond)
			told, truth := c.server(limit), limit.Add(offset).UnixMicro()
			if told > truth {
				t.Fatalf("seed %d: told %d µs later than the truth", seed, told-truth)
			}
			if slack := time.Duration(truth-told) * time.Microsecond; slack > quickest+500*time.Microsecond {
				t.Fatalf("seed %d: told %v before the truth, though a reply took %v", seed, slack, quickest)
			}
		}
	}
}

func TestClockWidensWithAge(t *testing.T) {
	c := clock{start: time.Now()}
	c.learn(c.start, c.start, c.start)
	for age, want := range map[time.Duration]time.Duration{0: 0, time.Second: 200 * time.Microsecond, time.Hour: 720 * time.Millisecond} {
		at := c.start.Add(age)
		if early := at.Sub(time.UnixMicro(c.server(at))); early < want || early > want+2*time.Microsecond {
			t.Errorf("after %v: %v early, want %v", age, early, want)
		}
	}
}

func TestClockFollowsAStepOfTheServers(t *testing.T) {
	c := clock{start: time.Now()}
	c.learn(c.start, c.start.Add(time.Millisecond), c.start)
	for _, step := range []time.Duration{time.Hour, -2 * time.Hour} {
		sent := c.start.Add(time.Second)
		if !c.learn(sent, sent.Add(time.Millisecond), sent.Add(step)) {
			t.Errorf("step %v: not noticed", step)
		}
		if got := time.UnixMicro(c.server(sent)).Sub(sent); got > step || got < step-2*time.Millisecond {
			t.Errorf("step %v: server taken to be %v ahead", step, got)
		}
	}
}

func TestClockForgetsAnotherServer(t *testing.T) {
	c := clock{start: time.Now()}
	c.meet("a")
	c.learn(c.start, c.start, c.start)
	if c.meet("a") || c.meet("") || c.server(c.start) == 0 {
		t.Fatal("forgot the same server")
	}
	if !c.meet("b") || c.server(c.start) != 0 {
		t.Error("remembers the former server's clock")
	}
	if _, ok := c.wallError(c.start); ok {
		t.Error("bounds an unknown clock's error")
	}
}

func TestWallErrorCoversOffsetAndRoundTrip(t *testing.T) {
	c := clock{start: time.Now()}
	c.learn(c.start, c.start.Add(4*time.Millisecond), c.start.Add(10*time.Millisecond))
	bound, ok := c.wallError(c.start.Add(4 * time.Millisecond))
	if !ok || bound < 10*time.Millisecond || bound > 11*time.Millisecond {
		t.Errorf("bound %v, %t, want 10ms and a little", bound, ok)
	}
}

func TestRunIDIsReadFromInfo(t *testing.T) {
	info := "# Server\r\nredis_version:7.0.15\r\nrun_id:8a1f\r\ntcp_port:6379\r\n"
	for text, want := range map[string]string{info: "8a1f", "": "", "# Server\r\n": "", "run_id:": ""} {
		if got := infoField(text, "run_id"); got != want {
			t.Errorf("run_id in %q: %q", text, got)
		}
	}
}
