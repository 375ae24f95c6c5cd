package redisstore_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
)

// The server's clock may be anywhere: only how fast it runs matters.
func TestServerClockMayBeHoursOff(t *testing.T) {
	for name, offset := range map[string]time.Duration{"ahead": 3 * time.Hour, "behind": -3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			server := miniredis.RunT(t)
			tell := func() { server.SetTime(time.Now().Add(offset)) }
			tell()
			store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
			take(t, store, newHold(t, minute), tierlock.Granted)
			if bound, ok := store.ClockError(); !ok || bound < 3*time.Hour-time.Minute || bound > 3*time.Hour+time.Minute {
				t.Errorf("clock error %v, %t, want about 3h", bound, ok)
			}
			hold, notAfter := newHold(t, minute), time.Now().Add(-10*time.Millisecond)
			tell()
			ctx, _ := within(t, time.Second)
			if answer, err := store.Acquire(ctx, tierlock.Request{Hold: hold, NotAfter: notAfter}); err != nil || answer.Status != tierlock.Late {
				t.Errorf("past not-after: %v, %v", answer.Status, err)
			}
		})
	}
}

// A clock stepped forward makes the server refuse what is in time. The refusal carries its
// new time, and the one retry that is allowed uses it.
func TestAcquireRefusedAfterAStepIsAskedOnceMore(t *testing.T) {
	server := miniredis.RunT(t)
	server.SetTime(time.Now())
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	take(t, store, newHold(t, minute), tierlock.Granted)
	listening(t, admin(t, server.Addr()), 1) // its subscription is there, and asks no more
	for _, step := range []time.Duration{time.Hour, 2 * time.Hour} {
		server.SetTime(time.Now().Add(step))
		before := server.CommandCount()
		take(t, store, newHold(t, minute), tierlock.Granted)
		if asked := server.CommandCount() - before; asked > 2*8 { // each script counts its own commands too
			t.Errorf("step %v: %d commands", step, asked)
		}
	}
}

// A request that is late by the server's clock and by ours stays late: nothing is retried.
func TestLateRequestIsAskedOnce(t *testing.T) {
	server := miniredis.RunT(t)
	server.SetTime(time.Now())
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	take(t, store, newHold(t, minute), tierlock.Granted)
	listening(t, admin(t, server.Addr()), 1) // its subscription is there, and asks no more
	before := server.CommandCount()
	ctx, _ := within(t, time.Second)
	answer, err := store.Acquire(ctx, tierlock.Request{Hold: newHold(t, minute), NotAfter: time.Now().Add(-time.Minute)})
	if err != nil || answer.Status != tierlock.Late {
		t.Fatalf("%v, %v", answer.Status, err)
	}
	if asked := server.CommandCount() - before; asked > 2 {
		t.Errorf("%d commands, want the script and its TIME", asked)
	}
}
