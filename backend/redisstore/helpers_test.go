package redisstore_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
)

const (
	attempt = 200 * time.Millisecond // the requirement's first step down
	grace   = 20 * time.Millisecond  // the contract's
	minute  = time.Minute            // ttl of holds that no test waits out
)

func newHold(t testing.TB, ttl time.Duration) tierlock.Hold {
	t.Helper()
	key, err := tierlock.ParseKey("biz:test:lock:" + tierlock.NewRequestID().Secret())
	if err != nil {
		t.Fatal(err)
	}
	return tierlock.Hold{Key: key, ID: tierlock.NewRequestID(), TTL: ttl}
}

// within is a context with a deadline and no timer, and its deadline.
func within(t testing.TB, d time.Duration) (context.Context, time.Time) {
	deadline := time.Now().Add(d)
	return tierlock.Until(t.Context(), deadline), deadline
}

// try asks for hold as the gateway does: fenced, refused after the attempt.
func try(t testing.TB, store *redisstore.Store, hold tierlock.Hold) (tierlock.Answer, error) {
	ctx, deadline := within(t, attempt)
	return store.Acquire(ctx, tierlock.Request{Hold: hold, NotAfter: deadline, Fenced: true})
}

// take asks for hold and fails unless the answer has the status.
func take(t testing.TB, store *redisstore.Store, hold tierlock.Hold, want tierlock.Status) tierlock.Answer {
	t.Helper()
	ctx, deadline := within(t, 5*time.Second)
	answer, err := store.Acquire(ctx, tierlock.Request{Hold: hold, NotAfter: deadline, Fenced: true})
	if err != nil || answer.Status != want {
		t.Fatalf("acquire: %v, %v, want %v", answer.Status, err, want)
	}
	return answer
}

// give releases hold and fails unless the answer has the status.
func give(t testing.TB, store *redisstore.Store, hold tierlock.Hold, want tierlock.Status) {
	t.Helper()
	ctx, _ := within(t, 5*time.Second)
	if answer, err := store.Release(ctx, hold); err != nil || answer.Status != want {
		t.Fatalf("release: %v, %v, want %v", answer.Status, err, want)
	}
}

// look looks hold up and fails unless the answer has the status.
func look(t testing.TB, store *redisstore.Store, hold tierlock.Hold, want tierlock.Status) {
	t.Helper()
	ctx, _ := within(t, 5*time.Second)
	if answer, err := store.Lookup(ctx, hold); err != nil || answer.Status != want {
		t.Fatalf("lookup: %v, %v, want %v", answer.Status, err, want)
	}
}

// wantFault fails unless err is a fault with the reason and the doubt.
func wantFault(t testing.TB, err error, reason tierlock.Reason, inDoubt bool) {
	t.Helper()
	var fault *tierlock.Fault
	if !errors.As(err, &fault) || fault.Reason != reason || fault.InDoubt != inDoubt {
		t.Fatalf("error %v (%T), want a fault with reason %s, in doubt %t", err, err, reason, inDoubt)
	}
}

// after waits until count has grown.
func after(t testing.TB, count func() int64) {
	t.Helper()
	before := count()
	eventually(t, "it goes on", func() bool { return count() > before })
}

// free is an address where nobody listens.
func free(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	return listener.Addr().String()
}

// eventually fails when ok does not come.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// port is the port of an address.
func port(t testing.TB, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
