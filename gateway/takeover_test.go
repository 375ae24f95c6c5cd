package gateway_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/internal/servers"
)

// takenOver is a store of which one master can be lost with what it granted last.
type takenOver struct {
	cfg     redisstore.Config
	master  *servers.RedisServer
	replica *servers.RedisServer
}

func sentinelTakenOver(t *testing.T) takenOver {
	t.Helper()
	w := servers.Sentinels(t, 1)
	return takenOver{
		cfg:    redisstore.Config{Addrs: w.Addrs(), Sentinel: &redisstore.SentinelConfig{Master: w.Name}},
		master: w.Nodes[0], replica: w.Nodes[1],
	}
}

func clusterTakenOver(t *testing.T) takenOver {
	t.Helper()
	c := servers.Cluster(t, 3, 1)
	return takenOver{cfg: redisstore.Config{Addrs: c.Addrs(), Cluster: true}, master: c.Shards[0][0], replica: c.Shards[0][1]}
}

// loseAndFreeze has the replica lack all that it was told, as one does that is promoted
// before the last writes have come, and freezes the master.
func (o takenOver) loseAndFreeze(t *testing.T) {
	t.Helper()
	boss := redis.NewClient(&redis.Options{Addr: o.replica.Addr(), DisableIdentity: true})
	defer func() { _ = boss.Close() }()
	for _, command := range [][]any{{"config", "set", "replica-read-only", "no"}, {"flushall"}, {"config", "set", "replica-read-only", "yes"}} {
		if err := boss.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(command, err)
		}
	}
	o.master.Freeze()
}

// unfencedOn is a strong chain without tokens on a store of its own, and the store.
func unfencedOn(t *testing.T, cfg redisstore.Config, delay time.Duration) (*gateway.Chain, *redisstore.Store) {
	t.Helper()
	store, err := redisstore.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	p := strong()
	p.Fencing, p.LockDelay = false, delay
	g, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{"order": p}, Stores: map[string]tierlock.Backend{"main": store}, Audit: new(gatewaytest.Audit),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(t.Context()) })
	return chain(t, g, "order"), store
}

// A master is lost with the locks that it granted last. Whoever was there before grants none
// of them anew until lock_delay, a ttl, has passed since the take-over, and so until its
// holder has stopped; keys of other shards are granted meanwhile. Without lock_delay two hold,
// and so they do where a process has met the promoted server first: nothing tells it when that
// was promoted.
func TestATakeOverIsWaitedOut(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	for name, start := range map[string]func(*testing.T) takenOver{"Sentinel": sentinelTakenOver, "Cluster": clusterTakenOver} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := start(t)
			before, store := unfencedOn(t, o.cfg, -1)
			patient, _ := unfencedOn(t, o.cfg, ttl)
			hasty, _ := unfencedOn(t, o.cfg, -1)
			warm(t, before, hasty)
			waitFor(t, "it has met the master, who may be too young for it", func() bool {
				_, err := patient.TryLock(t.Context(), "met")
				return err == nil || verdict(t, err).Reason == tierlock.ReasonRecovering
			})
			onLost := func(id string) bool {
				k, err := tierlock.ParseKey("biz:order:lock:" + id)
				if err != nil {
					t.Fatal(err)
				}
				return !o.cfg.Cluster || store.Traits().Sharder.Target(k) == "shard-1"
			}
			var ids []string // of the master that is lost
			other := "met"   // of another shard
			for n := 0; len(ids) < 3; n++ {
				id := "k" + strconv.Itoa(n)
				if onLost(id) {
					ids = append(ids, id)
				} else {
					other = id
				}
			}
			hold := func(id string, ttl time.Duration) *gateway.Lock {
				l, err := before.TryLock(t.Context(), id, gateway.WithTTL(ttl), gateway.WithoutRenew())
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			long, late := hold(ids[1], time.Minute), hold(ids[2], time.Minute)
			short := hold(ids[0], ttl)
			working := short.Context(t.Context())

			o.loseAndFreeze(t)
			waitFor(t, "whoever waits for nothing is granted what another holds", func() bool {
				_, err := hasty.TryLock(t.Context(), ids[1])
				return err == nil
			})
			if long.Context(t.Context()).Err() != nil {
				t.Error("its holder had ended: the lock was not lost under it")
			}
			newcomer, _ := unfencedOn(t, o.cfg, time.Second)
			waitFor(t, "whoever has met the promoted server first is granted too", func() bool {
				_, err := newcomer.TryLock(t.Context(), ids[2])
				return err == nil
			})
			if late.Context(t.Context()).Err() != nil {
				t.Error("its holder had ended")
			}

			refused, elsewhere := 0, false
			waitFor(t, "lock_delay is over", func() bool {
				_, err := patient.TryLock(t.Context(), ids[0])
				if err == nil {
					return true
				}
				if verdict(t, err).Reason == tierlock.ReasonRecovering {
					refused++
				}
				if l, err := patient.TryLock(t.Context(), other); err == nil && !elsewhere {
					elsewhere = true
					_ = l.Unlock(t.Context())
				}
				pause(10 * time.Millisecond)
				return false
			})
			if working.Err() == nil {
				t.Error("granted anew while its holder worked")
			}
			if refused == 0 {
				t.Error("never told that it has to wait")
			}
			if o.cfg.Cluster && !elsewhere {
				t.Error("keys of other shards waited too")
			}
			t.Logf("refused %d times", refused)
			o.master.Thaw()
		})
	}
}
