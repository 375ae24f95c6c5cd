package drills

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
)

// leavesNothing checks that the store has no lock but the one that is held, once what was in
// doubt is settled. What a drill leaves would stand for the minute of its ttl. One is held so
// that the look itself is known to find locks.
func (i *instance) leavesNothing(t *testing.T, server *servers.RedisServer) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), DisableIdentity: true})
	defer func() { _ = client.Close() }()
	over := time.Now()
	var kept *gateway.Lock
	eventually(t, servedAgain(), "a payment is held", func() (held bool) {
		l, err := i.payments.TryLock(t.Context(), "kept")
		kept = l
		return err == nil
	})
	defer func() { _ = kept.Unlock(t.Context()) }()
	want := kept.Grant().Key.String()
	for {
		keys, err := client.Keys(t.Context(), "biz:*").Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 1 && keys[0] == want {
			t.Logf("no lock but the one that is held, %v after the drill", time.Since(over).Round(time.Millisecond))
			return
		}
		if ran(over) > lasts(20*time.Second, 10*time.Second) {
			status := i.gw.Status()
			t.Errorf("%d locks in the store, want the one of %s: %q …; %d in doubt, %d dropped", len(keys), want, keys[:min(3, len(keys))], status.InDoubt, status.Dropped)
			return
		}
		wait(50 * time.Millisecond)
	}
}
