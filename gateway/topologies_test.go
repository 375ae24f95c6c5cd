package gateway_test

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/servers"
)

// onStore is a gateway with a strong and a weak chain on a Redis of any topology.
func onStore(t *testing.T, cfg redisstore.Config) (*gateway.Gateway, *redisstore.Store) {
	t.Helper()
	return onStoreWith(t, cfg, func(*gateway.Policy) {})
}

func onStoreWith(t *testing.T, cfg redisstore.Config, change func(*gateway.Policy), hooks ...gateway.Hooks) (*gateway.Gateway, *redisstore.Store) {
	t.Helper()
	order := strong()
	change(&order)
	store, err := redisstore.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	g, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{"order": order, "coupon": weak()},
		Stores: map[string]tierlock.Backend{"main": store}, Audit: new(gatewaytest.Audit), Hooks: gateway.Join(hooks...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = g.Close(ctx)
	})
	return g, store
}

// A shard that is dead takes nobody's keys but its own down a tier, and only until it is
// back.
func TestDeadShardDegradesItsOwnKeysOnly(t *testing.T) {
	t.Parallel()
	cluster := servers.Cluster(t, 3, 0)
	g, store := onStore(t, redisstore.Config{Addrs: cluster.Addrs(), Cluster: true})
	orders, coupons := chain(t, g, "order"), chain(t, g, "coupon")
	ctx := t.Context()
	next := 0
	fresh := func(c *gateway.Chain, dead bool) string { // an id on the first shard, or on another
		for {
			next++
			id := strconv.Itoa(next)
			key, err := tierlock.ParseKey("biz:" + map[bool]string{true: "order", false: "coupon"}[c == orders] + ":lock:" + id)
			if err != nil {
				t.Fatal(err)
			}
			if (store.Traits().Sharder.Target(key) == "shard-1") == dead {
				return id
			}
		}
	}
	shared := func(c *gateway.Chain, id string) bool {
		l, err := c.TryLock(ctx, id)
		defer func() { _ = l.Unlock(ctx) }()
		return err == nil && l.Grant().Tier == tierlock.Shared
	}
	for _, c := range []*gateway.Chain{orders, coupons} {
		if !shared(c, "0") { // the map is known
			t.Fatal("not shared while all is well")
		}
	}

	cluster.Shards[0][0].Kill()
	for range 20 {
		if l, err := coupons.TryLock(ctx, fresh(coupons, true)); err != nil || l.Grant().Tier != tierlock.Local {
			t.Errorf("weak, on the dead shard: %v, %v", l.Grant().Tier, err)
		}
		if _, err := orders.TryLock(ctx, fresh(orders, true)); !errors.Is(err, tierlock.ErrSystem) {
			t.Errorf("strong, on the dead shard: %v", err)
		}
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); { // past the time in which the others find out
		for _, c := range []*gateway.Chain{orders, coupons} {
			if !shared(c, fresh(c, false)) {
				t.Fatal("a key of another shard is not shared")
			}
		}
	}

	cluster.Shards[0][0].Restart()
	back := time.Now()
	waitFor(t, "its keys are shared again", func() bool {
		return shared(orders, fresh(orders, true)) && shared(coupons, fresh(coupons, true))
	})
	if took := time.Since(back); took > 5*time.Second {
		t.Errorf("shared again after %v", took)
	}
}

// resource is a database whose rows are entered with a grant's token first.
func resource(t *testing.T) func(tierlock.Grant) error {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+t.TempDir()+"/shop.db?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), guard.Schema(guard.SQLite)); err != nil {
		t.Fatal(err)
	}
	return func(g tierlock.Grant) error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		if err := guard.Enter(t.Context(), tx, guard.SQLite, g.Key, g.Token); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}
}
