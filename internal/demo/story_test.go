//go:build !nodemo

package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/trace"
	"github.com/tierlock/tierlock/reconcile"
)

// quick is the story in at most 15 s.
func quick() Timetable {
	t := Embedded()
	t.Normal, t.Slow, t.Saturated, t.Relief = time.Second, 1200*time.Millisecond, 2800*time.Millisecond, 600*time.Millisecond
	t.Down, t.Switch, t.StillDown, t.Back = 1300*time.Millisecond, 2500*time.Millisecond, time.Second, time.Second
	t.SaturateIn, t.RelaxIn, t.SteadyIn, t.RampEvery = 400*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond, 100*time.Millisecond
	t.Quiet, t.Heartbeat = 500*time.Millisecond, 200*time.Millisecond
	t.Slack, t.Repair = 10*time.Second, 60*time.Second // a busy machine may take its time
	// The race detector makes the stand-ins slow, and other tests run beside this one.
	t.Wire, t.Buyers, t.Claimers, t.Think = 4, 6, 6, 250*time.Millisecond
	t.Attempt = 250 * time.Millisecond
	t.Between = 30 * time.Millisecond // so that of few claims some meet
	return t
}

// tellQuietly runs the story and fails the test when it could not be told.
func tellQuietly(t *testing.T, o options, timetable Timetable, seams Seams) *Report {
	t.Helper()
	var told bytes.Buffer
	r, err := tell(t.Context(), o, timetable, seams, newView(&told), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("%v\n%s", err, told.String())
	}
	t.Cleanup(func() {
		if t.Failed() {
			newView(&told).summarize(r)
			t.Log(told.String())
		}
	})
	if sum := r.Outcomes.Success + r.Outcomes.Failure + r.Outcomes.Timeout + r.Outcomes.SystemError; sum != r.Requests {
		t.Errorf("%d requests were asked and %d answered", r.Requests, sum)
	}
	return r
}

func TestTheHonestStoryIsOK(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--output", "json"}, &stdout, &stderr, quick(), quick())
	var r Report
	dec := json.NewDecoder(&stdout)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		t.Error("stdout holds more than one object")
	}
	if !r.OK || code != 0 {
		t.Fatalf("exit code %d, faults %v\n%s", code, r.faults(), stderr.String())
	}
	if r.Business.OverLimitBefore == 0 || r.Conflicts.Oracle == 0 || r.Conflicts.Repaired == 0 {
		t.Errorf("there was nothing to find or to repair: %+v, %+v", r.Conflicts, r.Business)
	}
	if sum := r.Outcomes.Success + r.Outcomes.Failure + r.Outcomes.Timeout + r.Outcomes.SystemError; sum != r.Requests {
		t.Errorf("%d requests were asked and %d answered", r.Requests, sum)
	}
}

// Each lie makes one thing untrue that the report relies on. The report must see it.
func TestEveryLieIsSeen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seams     Seams
		timetable func(*Timetable)
		seen      func(*Report) bool
	}{
		"a lock that grants twice": {
			seams: Seams{Store: func(b tierlock.Backend) tierlock.Backend { return &grantsTwice{Backend: b} }},
			timetable: func(t *Timetable) { // a store that is never called slow, so that both instances ask it
				t.SKUs, t.Normal, t.Wire, t.Attempt, t.StaleTTL = 1, 3*time.Second, 64, 1500*time.Millisecond, 5*time.Second
			},
			seen: func(r *Report) bool { return r.Strong.Overlaps > 0 },
		},
		"a recorder that drops every thousandth event": {
			seams: Seams{Recorder: func() func(audit.Recorder) audit.Recorder {
				events := new(atomic.Int64)
				return func(r audit.Recorder) audit.Recorder { return dropper{r, events} }
			}()},
			timetable: func(t *Timetable) {
				t.Bypasses, t.Claimers, t.Rush, t.Users, t.Between = 2100, 24, time.Millisecond, 1000, 0
			},
			seen: func(r *Report) bool { return r.Audit.Missing > 0 && r.Tiers.Bypass > 2000 },
		},
		"an overlap rule that is blind to bypass": {
			seams: Seams{Rule: reconcile.Rule{Ignore: []tierlock.Tier{tierlock.Bypass}}},
			seen:  func(r *Report) bool { return r.Conflicts.Missed > 0 },
		},
		"a resource that checks no token": {
			seams: Seams{Enter: func(context.Context, guard.Tx, guard.Dialect, tierlock.Key, tierlock.Token) error { return nil }},
			seen:  func(r *Report) bool { return r.Strong.StaleTried > r.Strong.StaleRefused },
		},
		"no clean-up of acquires in doubt": {
			seams: Seams{Store: func(b tierlock.Backend) tierlock.Backend {
				return &leavesBehind{Backend: b, granted: map[tierlock.RequestID]bool{}}
			}},
			seen: func(r *Report) bool { return r.Orphans > 0 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timetable := quick()
			timetable.Repair = 30 * time.Second // most of what was lied about is never repaired
			if c.timetable != nil {
				c.timetable(&timetable)
			}
			r := tellQuietly(t, options{}, timetable, c.seams)
			if r.OK {
				t.Error("ok is true")
			}
			if !c.seen(r) {
				t.Errorf("the lie is not what made it so: %v", r.faults())
			}
		})
	}
}

// grantsTwice gives every second contender a lock that somebody else holds, with a token as
// a real store would mint it.
type grantsTwice struct {
	tierlock.Backend
	n    atomic.Int64
	last atomic.Uint64 // the highest token seen
}

func (g *grantsTwice) Acquire(ctx context.Context, req tierlock.Request) (tierlock.Answer, error) {
	ans, err := g.Backend.Acquire(ctx, req)
	if t := uint64(ans.Token); t > g.last.Load() {
		g.last.Store(t)
	}
	if err == nil && ans.Status == tierlock.Held && g.n.Add(1)%2 == 0 {
		return tierlock.Answer{
			Status: tierlock.Granted, Exclusive: true, Depth: 1, Token: tierlock.Token(g.last.Add(1)), Until: time.Now().Add(req.TTL - time.Second),
		}, nil
	}
	return ans, err
}

// dropper loses every thousandth event and says that it has it.
type dropper struct {
	audit.Recorder
	n *atomic.Int64 // shared by the instances
}

func (d dropper) drop() bool { return d.n.Add(1)%1000 == 0 }

func (d dropper) Record(ctx context.Context, ev *audit.Event) error {
	if d.drop() {
		return nil
	}
	return d.Recorder.Record(ctx, ev)
}

func (d dropper) Note(ev *audit.Event) {
	if !d.drop() {
		d.Recorder.Note(ev)
	}
}

// leavesBehind never gives back what it was not seen to grant.
type leavesBehind struct {
	tierlock.Backend
	mu      sync.Mutex
	granted map[tierlock.RequestID]bool
}

func (l *leavesBehind) Acquire(ctx context.Context, req tierlock.Request) (tierlock.Answer, error) {
	ans, err := l.Backend.Acquire(ctx, req)
	if err == nil && (ans.Status == tierlock.Granted || ans.Status == tierlock.Mine) {
		l.mu.Lock()
		l.granted[req.ID] = true
		l.mu.Unlock()
	}
	return ans, err
}

func (l *leavesBehind) Release(ctx context.Context, hold tierlock.Hold) (tierlock.Answer, error) {
	l.mu.Lock()
	granted := l.granted[hold.ID]
	l.mu.Unlock()
	if !granted {
		return tierlock.Answer{Status: tierlock.Gone}, nil
	}
	return l.Backend.Release(ctx, hold)
}

// A replay meets every part of the story, sells each line once though some come twice, and
// waits for its last event. As a soak it is a month of the real trace, over many rounds.
func TestAReplayIsPartOfTheStorySoak(t *testing.T) {
	t.Parallel()
	o, timetable, least := twelveSeconds(t), quick(), int64(612)
	if os.Getenv("TIERLOCK_SOAK") != "" {
		o = options{trace: "../../trace.csv", window: trace.Window{
			From: time.Date(2017, 3, 1, 0, 0, 0, 0, time.UTC), For: 31 * 24 * time.Hour, Speed: 5000,
		}}
		if _, err := os.Stat(o.trace); err != nil {
			t.Fatalf("%v: run make trace", err)
		}
		timetable.Repair, least = 20*time.Minute, 100_000
	}
	r := tellQuietly(t, o, timetable, Seams{})
	if !r.OK {
		t.Fatalf("faults %v", r.faults())
	}
	if r.Requests < least {
		t.Errorf("%d requests, the trace alone has %d", r.Requests, least)
	}
}

// twelveSeconds makes a trace of 600 lines, of which every fiftieth is delivered twice.
func twelveSeconds(t *testing.T) options {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trace.csv")
	from := time.Date(2017, 6, 17, 12, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	fmt.Fprintln(&b, trace.Header)
	for i := range 600 {
		at := from.Add(time.Duration(i) * 20 * time.Second).Format(time.RFC3339)
		if i%10 == 0 {
			fmt.Fprintf(&b, "%s,claim,r%d,%d,c1\n", at, i, i%50)
			continue
		}
		fmt.Fprintf(&b, "%s,sale,b%d-1,%d,p%d\n", at, i, i%50, i%7)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return options{trace: file, window: trace.Window{From: from, Speed: 1000}}
}
