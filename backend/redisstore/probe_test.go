package redisstore_test

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// A server whose replies take 400 ms is slow, not down: the first probe too, which has its
// connection to make, is answered within the second after which silence means down.
func TestFirstProbeOfASlowServerIsAnswered(t *testing.T) {
	server := servers.Redis(t)
	link := newProxy(t, server.Addr())
	store := open(t, redisstore.Config{Addrs: []string{link.addr()}})
	take(t, store, newHold(t, minute), tierlock.Granted) // it has served before it became slow
	link.delay.Store(int64(400 * time.Millisecond))
	ctx, _ := within(t, time.Second)
	if err := store.Probe(ctx, ""); err != nil {
		t.Errorf("probe: %v", err)
	}
}

func TestProbesLeaveNothingBehind(t *testing.T) {
	server := servers.Redis(t)
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	for range 10 {
		ctx, _ := within(t, time.Second)
		if err := store.Probe(ctx, ""); err != nil {
			t.Fatal(err)
		}
	}
	if keys := admin(t, server.Addr()).Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("keys %q", keys)
	}
}
