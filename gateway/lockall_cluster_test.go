package gateway_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
)

// All or nothing over the masters of a Cluster: one key of three is held, then one master
// is dead.
func TestLockAllOverTheMastersOfACluster(t *testing.T) {
	t.Parallel()
	cluster := servers.Cluster(t, 3, 0)
	g, store := onStore(t, redisstore.Config{Addrs: cluster.Addrs(), Cluster: true})
	orders := chain(t, g, "order")
	warm(t, orders)  // the map is known
	var ids []string // one on each
	seen := map[string]bool{}
	for n := 0; len(ids) < 3; n++ {
		id := fmt.Sprint("k", n)
		key, err := tierlock.ParseKey("biz:order:lock:" + id)
		if err != nil {
			t.Fatal(err)
		}
		if target := store.Traits().Sharder.Target(key); !seen[target] {
			seen[target], ids = true, append(ids, id)
		}
	}
	all := func() error {
		locks, err := orders.LockAll(t.Context(), ids)
		if err == nil {
			for _, grant := range locks.Grants() {
				if grant.Tier != tierlock.Shared || grant.Token == 0 {
					t.Errorf("%+v", grant)
				}
			}
		}
		return errors.Join(err, locks.Unlock(t.Context()))
	}
	waitFor(t, "all three are locked", func() bool { return all() == nil })
	nothingLeft(t, g, cluster.Addrs()...)

	held, err := orders.Lock(t.Context(), ids[2], gateway.WithWait(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := all(); !errors.Is(err, tierlock.ErrHeld) {
		t.Errorf("one is held: %v", err)
	}
	waitFor(t, "only the held one stands", func() bool {
		keys := 0
		for _, addr := range cluster.Addrs() {
			keys += len(redisKeys(t, addr))
		}
		return keys == 1 && g.Status().InDoubt == 0
	})
	if ok, err := held.IsHeld(t.Context()); !ok || err != nil {
		t.Errorf("its holder: %t, %v", ok, err)
	}
	if err := held.Unlock(t.Context()); err != nil {
		t.Error(err)
	}

	var well []string
	for n, shard := range cluster.Shards {
		if n > 0 {
			well = append(well, shard[0].Addr())
		}
	}
	cluster.Shards[0][0].Kill()
	for range 5 {
		if err := all(); !errors.Is(err, tierlock.ErrSystem) && !errors.Is(err, tierlock.ErrTimeout) {
			t.Errorf("a master is dead: %v", err)
		}
	}
	waitFor(t, "nothing stands on the masters that live", func() bool {
		return len(redisKeys(t, well[0]))+len(redisKeys(t, well[1])) == 0
	})
	cluster.Shards[0][0].Restart()
	waitFor(t, "all three are locked again", func() bool { return all() == nil })
	nothingLeft(t, g, cluster.Addrs()...)
}
