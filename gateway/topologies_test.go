package gateway_test

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"sync"
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
	store, err := redisstore.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	g, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{"order": strong(), "coupon": weak()},
		Stores: map[string]tierlock.Backend{"main": store}, Audit: new(gatewaytest.Audit),
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

// A master freezes, another is promoted, and the old one wakes up while one process has not
// heard of it: two hold a key. Tokens let the resource refuse whichever comes with the lower,
// the legitimate holder too, and the holder on the old master finds its lock lost.
func TestOldMasterThatWakesUpLeavesTwoHolders(t *testing.T) {
	t.Parallel()
	watched := servers.Sentinels(t, 1)
	old := watched.Nodes[0]
	sentinels := redisstore.Config{Addrs: watched.Addrs(), Sentinel: &redisstore.SentinelConfig{Master: watched.Name}}
	here, _ := onStore(t, sentinels)
	unaware, _ := onStore(t, redisstore.Config{Addrs: []string{old.Addr()}})
	orders, elsewhere := chain(t, here, "order"), chain(t, unaware, "order")
	ctx := t.Context()
	if _, err := orders.TryLock(ctx, "before"); err != nil {
		t.Fatal(err)
	}

	old.Freeze()
	frozen := time.Now()
	var legitimate *gateway.Lock
	waitFor(t, "strong is served by the promoted master", func() (ok bool) {
		l, err := orders.TryLock(ctx, "10086")
		legitimate = l
		return err == nil
	})
	took := time.Since(frozen)
	t.Logf("served through a gateway %v after the freeze", took)
	if took > 5*time.Second {
		t.Errorf("served %v after the freeze", took)
	}

	old.Thaw()
	var rival *gateway.Lock
	waitFor(t, "the old master grants the same key", func() (ok bool) {
		l, err := elsewhere.TryLock(ctx, "10086")
		rival = l
		return err == nil
	})
	if ok, err := legitimate.IsHeld(ctx); !ok || err != nil {
		t.Errorf("the legitimate holder: %t, %v", ok, err)
	}
	lower, higher := legitimate.Grant(), rival.Grant()
	if lower.Token >= higher.Token {
		t.Errorf("token %d on the promoted master, %d on the old one: want it higher, as its clock is later", lower.Token, higher.Token)
	}
	enter := resource(t)
	for _, turn := range []struct {
		g    tierlock.Grant
		want error
	}{{lower, nil}, {higher, nil}, {lower, guard.ErrStale}, {higher, nil}} {
		if err := enter(turn.g); !errors.Is(err, turn.want) {
			t.Errorf("token %d at the resource: %v, want %v", turn.g.Token, err, turn.want)
		}
	}

	var once sync.Once
	for end := time.Now().Add(30 * time.Second); ; { // the sentinels demote it when they have seen it for a while
		err := rival.Renew(ctx, time.Minute)
		if errors.Is(err, tierlock.ErrLost) {
			break
		}
		once.Do(func() { t.Logf("before it is demoted: %v", err) })
		if time.Now().After(end) {
			t.Fatalf("the holder on the old master never lost its lock: %v", err)
		}
		<-time.After(50 * time.Millisecond)
	}
	t.Logf("the old master was a copy of the promoted one %v after the freeze", time.Since(frozen))
	if ok, err := legitimate.IsHeld(ctx); !ok || err != nil {
		t.Errorf("the legitimate holder at the end: %t, %v", ok, err)
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
