package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
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

// A server whose replies take most of the time that a probe has is slow and not down: whether
// the connection stands since before or has to be made, each probe is answered. Probes have
// two seconds here, so that a busy machine has its share.
func TestProbesOfASlowServerAreAnswered(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{1200 * time.Millisecond, 1600 * time.Millisecond} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprint(delay, " connections lost ", lost), func(t *testing.T) {
				t.Parallel()
				link, err := way.To(servers.Redis(t).Addr())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(link.Close)
				store := open(t, redisstore.Config{Addrs: []string{link.Addr()}})
				take(t, store, newHold(t, minute), tierlock.Granted)
				eventually(t, "a connection for probes stands ready", func() bool { return store.ReadyToProbe() > 0 })
				if lost {
					link.Cut()
					if err := link.Restore(); err != nil {
						t.Fatal(err)
					}
				}
				link.Delay(delay)
				for n := range 3 {
					ctx, _ := within(t, 2*time.Second)
					if err := store.Probe(ctx, ""); err != nil {
						t.Errorf("probe %d: %v", n, err)
					}
				}
				eventually(t, "a connection is left to the next one", func() bool { return store.ReadyToProbe() > 0 })
			})
		}
	}
}

// A greeting stands for the answer only where the question after it could not be answered in
// time: what lies between may greet for a server that is gone.
func TestAGreetingIsNoAnswer(t *testing.T) {
	addr := fake(t, map[string]said{
		"PING":    func(c *server.Peer, _ []string) { c.WriteOK() },
		"EVALSHA": func(*server.Peer, []string) {},
	})
	store := open(t, redisstore.Config{Addrs: []string{addr}})
	ctx, _ := within(t, time.Second)
	wantFault(t, store.Probe(ctx, ""), tierlock.ReasonAttempt, true)
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
