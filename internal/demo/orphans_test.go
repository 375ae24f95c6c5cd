//go:build !nodemo

package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/demo/memredis"
)

// scripted is a store that answers as told.
type scripted struct {
	tierlock.Backend
	answer tierlock.Answer
	err    error
	probe  error
}

func (s *scripted) Traits() tierlock.Traits             { return tierlock.Traits{Prober: s} }
func (s *scripted) Probe(context.Context, string) error { return s.probe }
func (s *scripted) Acquire(context.Context, tierlock.Request) (tierlock.Answer, error) {
	return s.answer, s.err
}

func TestOnlyWhatMayHaveBeenLeftBehindIsLookedFor(t *testing.T) {
	k := key(t, "biz:order:lock:1")
	fault := &tierlock.Fault{Reason: tierlock.ReasonAttempt, InDoubt: true}
	for name, c := range map[string]struct {
		store   scripted
		granted bool // the caller got it
		due     int
	}{
		"held by another":           {scripted{answer: tierlock.Answer{Status: tierlock.Held}}, false, 0},
		"too late":                  {scripted{answer: tierlock.Answer{Status: tierlock.Late}}, false, 0},
		"granted and handed out":    {scripted{answer: tierlock.Answer{Status: tierlock.Granted}}, true, 0},
		"granted and never used":    {scripted{answer: tierlock.Answer{Status: tierlock.Granted}}, false, 1},
		"no answer":                 {scripted{err: fault}, false, 1},
		"no answer, granted by try": {scripted{err: fault}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAsked(&c.store)
				id := tierlock.NewRequestID()
				_, _ = a.Acquire(t.Context(), tierlock.Request{Hold: tierlock.Hold{Key: k, ID: id}})
				if c.granted {
					a.forget(id)
				}
				if n := len(a.suspects(time.Now())); n != 0 {
					t.Fatalf("%d suspected at once", n)
				}
				time.Sleep(settleTime)
				if n := len(a.suspects(time.Now())); n != c.due {
					t.Fatalf("%d suspected after %v, want %d", n, settleTime, c.due)
				}
			})
		})
	}
}

func TestTimeToSettleBeginsWithTheFirstAnsweredProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{err: errors.New("gone"), probe: errors.New("gone")}
		a := newAsked(s)
		probe := func() { _ = a.Traits().Prober.Probe(t.Context(), "") }
		_, _ = a.Acquire(t.Context(), tierlock.Request{Hold: tierlock.Hold{Key: key(t, "k"), ID: tierlock.NewRequestID()}})
		probe()
		time.Sleep(time.Minute)
		if len(a.suspects(time.Now())) != 0 {
			t.Fatal("suspected while the store is away")
		}
		s.probe = nil
		probe()
		time.Sleep(settleTime - time.Millisecond)
		probe() // a later good probe does not begin it again
		if len(a.suspects(time.Now())) != 0 {
			t.Fatal("suspected before the time to settle was over")
		}
		time.Sleep(time.Millisecond)
		if len(a.suspects(time.Now())) != 1 {
			t.Fatal("not suspected after it")
		}
	})
}

func TestALockThatNobodyGotIsFoundInTheStore(t *testing.T) {
	redis, err := memredis.Start(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	left, gone := tierlock.NewRequestID(), tierlock.NewRequestID()
	set(t, redis.Addr(), "left", left.Secret())
	set(t, redis.Addr(), "anothers", tierlock.NewRequestID().Secret())

	p, err := openPeek(t.Context(), redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	a := newAsked(nil)
	began := time.Now()
	a.open[left] = question{key(t, "left"), began}
	a.open[gone] = question{key(t, "gone"), began}
	a.open[tierlock.NewRequestID()] = question{key(t, "anothers"), began}
	o := &orphans{peek: p, asked: []*asked{a}}
	for _, step := range []struct {
		after            time.Duration
		open, found, all int
	}{
		{0, 0, 0, 3},
		{settleTime, 1, 0, 1},
		{orphanTime - 1, 1, 0, 1},
		{orphanTime, 0, 1, 0},
		{time.Hour, 0, 1, 0},
	} {
		open := o.look(began.Add(step.after))
		if open != step.open || o.found != step.found || len(a.open) != step.all || o.err != nil {
			t.Fatalf("after %v: %d open, %d orphans, %d asked, %v; want %+v", step.after, open, o.found, len(a.open), o.err, step)
		}
	}
}

func set(t *testing.T, addr, k, v string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(k), k, len(v), v)
	if _, err := c.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
}
