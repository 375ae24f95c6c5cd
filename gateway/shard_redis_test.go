package gateway_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
)

// On a real Redis, two instances agree on the slot of an id: ids of one slot exclude one
// another, those of different slots do not, and nothing is left.
func TestShardsOfTwoInstancesOnRealRedis(t *testing.T) {
	server := servers.Redis(t)
	boss := redis.NewClient(&redis.Options{Addr: server.Addr(), DisableIdentity: true})
	defer func() { _ = boss.Close() }()
	p := strong() // never local, however long the machine stalls
	p.Shards = 8
	here, there := chainOn(t, server.Addr(), p), chainOn(t, server.Addr(), p)

	// The slots that TestOneIDAlwaysHasOneShard tells.
	slots := map[string]string{"10086": "biz:c:lock:shard:1", "10087": "biz:c:lock:shard:6", "shard:03": "biz:c:lock:shard:7", "shard:8": "biz:c:lock:shard:6"}
	for range 3 {
		for id, slot := range slots {
			for _, c := range []*gateway.Chain{here, there} {
				l := lockOf(t, c, id)
				if l.Grant().Key.String() != slot || boss.Exists(t.Context(), slot).Val() != 1 {
					t.Fatalf("%s: %+v, want it under %s", id, l.Grant(), slot)
				}
				giveBack(t, boss, l)
			}
		}
	}

	first := lockOf(t, here, "10087")
	for _, c := range []*gateway.Chain{here, there} {
		for _, id := range []string{"10087", "shard:8", "shard:6"} {
			wantHeld(t, c, id)
		}
	}
	others := []*gateway.Lock{lockOf(t, there, "10086"), lockOf(t, here, "shard:03")}
	if n := len(boss.Keys(t.Context(), "biz:*").Val()); n != 3 {
		t.Errorf("%d keys while three are held", n)
	}
	for _, l := range append(others, first) {
		giveBack(t, boss, l)
	}
	if left := boss.Keys(t.Context(), "biz:*").Val(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// lockOf asks until the store has granted id: what a late answer left is settled first.
func lockOf(t *testing.T, c *gateway.Chain, id string) (l *gateway.Lock) {
	t.Helper()
	waitFor(t, id+" is granted", func() (ok bool) {
		var err error
		l, err = c.TryLock(t.Context(), id)
		return err == nil
	})
	return l
}

// wantHeld asks until the store has answered, and fails unless id is held.
func wantHeld(t *testing.T, c *gateway.Chain, id string) {
	t.Helper()
	waitFor(t, "an answer for "+id, func() bool {
		l, err := c.TryLock(t.Context(), id)
		if err == nil {
			t.Errorf("%s: granted under %s, which is held", id, l.Grant().Key)
		}
		return err == nil || errors.Is(err, tierlock.ErrHeld)
	})
}

// giveBack gives l back and waits till its key is gone: a late answer leaves that to the ledger.
func giveBack(t *testing.T, boss *redis.Client, l *gateway.Lock) {
	t.Helper()
	_ = l.Unlock(t.Context())
	waitFor(t, "the key is gone", func() bool { return boss.Exists(t.Context(), l.Grant().Key.String()).Val() == 0 })
}
