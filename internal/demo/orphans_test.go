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
					a.granted(id)
				}
				if n := len(a.due(time.Now())); n != 0 {
					t.Fatalf("%d due at once", n)
				}
				time.Sleep(settleTime)
				if n := len(a.due(time.Now())); n != c.due {
					t.Fatalf("%d due after %v, want %d", n, settleTime, c.due)
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
		if len(a.due(time.Now())) != 0 {
			t.Fatal("due while the store is away")
		}
		s.probe = nil
		probe()
		time.Sleep(settleTime - time.Millisecond)
		probe() // a later good probe does not begin it again
		if len(a.due(time.Now())) != 0 {
			t.Fatal("due before the time to settle was over")
		}
		time.Sleep(time.Millisecond)
		if len(a.due(time.Now())) != 1 {
			t.Fatal("not due after it")
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
	long := time.Now().Add(-time.Hour)
	a.open[left] = question{key(t, "left"), long}
	a.open[gone] = question{key(t, "gone"), long}
	a.open[tierlock.NewRequestID()] = question{key(t, "anothers"), long}
	o := &orphans{peek: p, asked: []*asked{a}}
	o.look(time.Now())
	o.look(time.Now())
	if o.found != 1 || o.err != nil {
		t.Fatalf("%d orphans, %v; want 1", o.found, o.err)
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
