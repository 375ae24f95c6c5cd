package faults

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/servers"
)

// servedAgain is how long after its end a master is replaced and the new one serves.
const servedAgain = 5 * time.Second

// fleet is a node on several servers.
func fleet(t *testing.T, cfg redisstore.Config, hooks gateway.Hooks) *site {
	t.Helper()
	cfg.PoolSize = pool
	s := &site{T: t, node: newNode(t, cfg, setup{hooks: hooks})}
	s.eventually(10*time.Second, "it is served", func() bool { return served(s.orders) })
	return s
}

func sentinelWakesTheOld(t *testing.T) {
	w := servers.Sentinels(t, 1)
	var told atomic.Int64 // of the loss of a
	s := fleet(t, redisstore.Config{Addrs: w.Addrs(), Sentinel: &redisstore.SentinelConfig{Master: w.Name}}, gateway.Hooks{
		Lost: func(i gateway.LostInfo) {
			if i.Grant.Key.String() == "biz:order:lock:a" {
				told.Add(1)
			}
		},
	})
	unaware := newNode(t, redisstore.Config{Addrs: []string{w.Nodes[0].Addr()}}, setup{}) // has not heard of sentinels
	s.eventually(5*time.Second, "the unaware is served", func() bool { return served(unaware.orders) })
	door := newResource(t, "a")
	w.Nodes[0].Freeze()
	frozen := time.Now()
	s.eventually(20*time.Second, "served by the promoted", func() bool { return served(s.orders) })
	if took := tookSince(frozen); took > servedAgain {
		t.Errorf("served %v after the freeze", took)
	}
	holds, again, done := make(chan tierlock.Grant, 1), make(chan struct{}), make(chan error, 1)
	var work context.Context
	go func() {
		done <- s.orders.Do(t.Context(), "a", func(ctx context.Context, g tierlock.Grant) error {
			work = ctx
			if err := door.enter(g.Token); err != nil {
				t.Errorf("the holder enters: %v", err)
			}
			holds <- g
			select {
			case <-again:
			case <-ctx.Done():
			}
			return door.enter(g.Token)
		})
	}()
	var ours tierlock.Grant
	select {
	case ours = <-holds:
	case err := <-done:
		t.Fatalf("the holder's work: %v", err)
	}
	w.Nodes[0].Thaw()
	var a answer
	s.eventually(5*time.Second, "the old master grants what is held", func() bool { a = ask(unaware.orders, "a"); return a.err == nil })
	// Two hold the key, and the later token is that of the one nobody looks at any more. The
	// resource lets one of them in from now on.
	if err := door.enter(a.lock.Grant().Token); err != nil || a.lock.Grant().Token <= ours.Token {
		t.Errorf("the rival enters: %v, token %d after %d", err, a.lock.Grant().Token, ours.Token)
	}
	close(again)
	if err := <-done; !errors.Is(err, guard.ErrStale) || !errors.Is(err, tierlock.ErrLost) {
		t.Errorf("both were let in: %v", err)
	}
	if cause := context.Cause(work); !errors.Is(cause, tierlock.ErrLost) || !errors.Is(cause, guard.ErrStale) {
		t.Errorf("the refused holder's context ended by %v", cause)
	}
	s.eventually(time.Second, "the loss is told", func() bool { return told.Load() > 0 })
	promoted := client(t, w.Nodes[1].Addr())
	for i := range 10 { // whoever has heard of the failover never goes back
		l := s.must(s.orders, strconv.Itoa(i))
		if promoted.Exists(t.Context(), l.Grant().Key.String()).Val() != 1 {
			t.Error("a lock is not on the promoted master")
		}
		_ = l.Unlock(t.Context())
	}
	if n := told.Load(); n != 1 {
		t.Errorf("the loss was told %d times", n)
	}
}

func sentinelFailsOverByHand(t *testing.T) {
	const unheard = 8 // locks that span the failover
	w := servers.Sentinels(t, 1)
	s := fleet(t, redisstore.Config{Addrs: w.Addrs(), Sentinel: &redisstore.SentinelConfig{Master: w.Name}}, gateway.Hooks{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var grants, losses, told atomic.Int64
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				a := ask(s.orders, strconv.Itoa(n), gateway.WithTTL(time.Second))
				if a.err != nil {
					wait(10 * time.Millisecond)
					continue
				}
				grants.Add(1)
				work := a.lock.Context(t.Context())
				select {
				case <-work.Done():
					losses.Add(1)
					if held, err := a.lock.IsHeld(t.Context()); held || err != nil {
						t.Errorf("told of the loss, and then held %v, %v", held, err)
					}
				case <-time.After(5 * time.Millisecond):
				}
				_ = a.lock.Unlock(t.Context())
			}
		})
	}
	s.eventually(5*time.Second, "there is load", func() bool { return grants.Load() > 20 })
	// The replica hears no more: what is taken from now on is lost with the failover.
	old, promoted := client(t, w.Nodes[0].Addr()), client(t, w.Nodes[1].Addr())
	for _, words := range [][]any{{"acl", "setuser", "default", "-psync", "-sync"}, {"client", "kill", "type", "replica"}} {
		if err := old.Do(t.Context(), words...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range unheard {
		l := s.must(s.orders, "unheard"+strconv.Itoa(i), gateway.WithTTL(3*time.Second))
		if promoted.Exists(t.Context(), l.Grant().Key.String()).Val() != 0 {
			t.Fatal("the replica has the lock")
		}
		work := l.Context(t.Context())
		all.Go(func() {
			<-work.Done()
			if !errors.Is(context.Cause(work), tierlock.ErrLost) {
				return // the test is over
			}
			told.Add(1)
			for range 20 {
				if held, err := l.IsHeld(t.Context()); held || err != nil {
					t.Errorf("told of the loss, and then held %v, %v", held, err)
				}
				if err := l.Renew(t.Context(), time.Second); !errors.Is(err, tierlock.ErrLost) {
					t.Errorf("told of the loss, and then renewed: %v", err)
				}
				wait(50 * time.Millisecond)
			}
		})
	}
	if err := client(t, w.Addrs()[0]).Do(t.Context(), "sentinel", "failover", w.Name).Err(); err != nil {
		t.Fatal(err)
	}
	s.eventually(20*time.Second, "the sentinels have another master", func() bool { return w.Master(t) == w.Nodes[1].Addr() })
	s.eventually(10*time.Second, "the promoted serves", func() bool {
		a := ask(s.orders, "after")
		defer func() { _ = a.lock.Unlock(t.Context()) }()
		return a.err == nil && promoted.Exists(t.Context(), "biz:order:lock:after").Val() == 1
	})
	s.eventually(10*time.Second, "every lost lock is told", func() bool { return told.Load() == unheard })
	stop()
	all.Wait()
	t.Logf("%d grants, %d losses, and all %d of what the promoted had not heard of", grants.Load(), losses.Load(), told.Load())
}

// masters is how many a Cluster has here: two of three are enough to go on.
const masters = 3

// cluster is a Redis Cluster and a node on it.
type cluster struct {
	*site
	servers *servers.RedisCluster
	bosses  [masters]*redis.Client
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	return clusterWith(t, redisstore.Config{})
}

// clusterWith is newCluster with other settings of the store.
func clusterWith(t *testing.T, cfg redisstore.Config) *cluster {
	t.Helper()
	c := &cluster{servers: servers.Cluster(t, masters, 0)}
	for i, shard := range c.servers.Shards {
		c.bosses[i] = client(t, shard[0].Addr())
	}
	cfg.Addrs, cfg.Cluster = c.servers.Addrs(), true
	c.site = fleet(t, cfg, gateway.Hooks{})
	for n := range masters {
		c.eventually(10*time.Second, "every shard serves", func() bool {
			a := ask(c.orders, c.idOn(n, 0))
			defer func() { _ = a.lock.Unlock(t.Context()) }()
			return a.err == nil
		})
	}
	return c
}

// idOn is the i-th id whose key is served by that master at the start.
func (c *cluster) idOn(shard, i int) string {
	c.Helper()
	for n := 0; ; n++ {
		id := "c" + strconv.Itoa(n)
		if c.slot(id)*masters/16384 == shard {
			if i--; i < 0 {
				return id
			}
		}
	}
}

func (c *cluster) slot(id string) int {
	c.Helper()
	return c.slotOf("biz:order:lock:" + id)
}

func (c *cluster) slotOf(key string) int {
	c.Helper()
	slot, err := c.bosses[0].ClusterKeySlot(c.Context(), key).Result()
	if err != nil {
		c.Fatal(err)
	}
	return int(slot)
}

// told sends a master a command of the Cluster.
func (c *cluster) told(shard int, words ...any) string {
	c.Helper()
	text, err := c.bosses[shard].Do(c.Context(), words...).Text()
	if err != nil {
		c.Fatalf("%v: %v", words, err)
	}
	return text
}

// begin starts to move slot from the first master to the second, end says that it is done.
func (c *cluster) begin(slot int) {
	c.told(1, "cluster", "setslot", slot, "importing", c.told(0, "cluster", "myid"))
	c.told(0, "cluster", "setslot", slot, "migrating", c.told(1, "cluster", "myid"))
}

func (c *cluster) end(slot int) {
	id := c.told(1, "cluster", "myid")
	c.told(1, "cluster", "setslot", slot, "node", id)
	c.told(0, "cluster", "setslot", slot, "node", id)
}

// carry moves what is in slot, a key at a time, and tells whether there was one.
func (c *cluster) carry(slot int) bool {
	keys, err := c.bosses[0].ClusterGetKeysInSlot(c.Context(), slot, 1).Result()
	if err != nil {
		c.Fatal(err)
	}
	if len(keys) == 0 {
		return false
	}
	_, port, _ := strings.Cut(c.servers.Shards[1][0].Addr(), ":")
	c.told(0, "migrate", "127.0.0.1", port, keys[0], 0, 1000)
	return true
}

// stays checks that no target of any chain has left its normal state.
func (c *cluster) stays() {
	c.Helper()
	for _, chain := range c.gw.Status().Chains {
		for _, target := range chain.Targets {
			if target.State != degrade.Normal {
				c.Errorf("chain %s, target %s: %v", chain.Chain, target.Target, target.State)
			}
		}
	}
}

func moved(t *testing.T) {
	c := newCluster(t)
	id := c.idOn(0, 3)
	c.begin(c.slot(id))
	c.end(c.slot(id))
	a := ask(c.orders, id)
	if a.err != nil || a.took > inTime {
		t.Fatalf("after the move: %v", a)
	}
	if c.bosses[1].Exists(t.Context(), "biz:order:lock:"+id).Val() != 1 {
		t.Error("the lock is not where the slot is")
	}
	c.stays()
	if err := a.lock.Unlock(t.Context()); err != nil {
		t.Errorf("unlock: %v", err)
	}
}

// mayMiss is how many asks a slot's move may leave without an answer in time: one of each
// that asks, where the machine is busy.
const mayMiss = 4

func slotMoves(t *testing.T) {
	c := newCluster(t)
	id := c.idOn(0, 3)
	slot := c.slot(id)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var inside, grants, unanswered atomic.Int64
	var last atomic.Uint64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				a := ask(c.orders, id)
				if a.took > inTime {
					t.Errorf("answered after %v", a.took)
				}
				if a.err != nil {
					if a.reason() == tierlock.ReasonAttempt {
						unanswered.Add(1)
					} else if !errors.Is(a.err, tierlock.ErrHeld) {
						t.Errorf("neither granted nor held: %v", a)
					}
					wait(2 * time.Millisecond)
					continue
				}
				grants.Add(1)
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d are inside", n)
				}
				if token := uint64(a.lock.Grant().Token); token <= last.Swap(token) {
					t.Errorf("token %d after a higher one", token)
				}
				wait(time.Millisecond)
				inside.Add(-1)
				_ = a.lock.Unlock(t.Context())
			}
		})
	}
	c.eventually(5*time.Second, "there is load", func() bool { return grants.Load() > 20 })
	c.begin(slot)
	wait(50 * time.Millisecond)
	for c.carry(slot) {
		wait(20 * time.Millisecond)
	}
	c.end(slot)
	before := grants.Load()
	c.eventually(5*time.Second, "granted after the move", func() bool { return grants.Load() > before+5 })
	stop()
	all.Wait()
	if n := unanswered.Load(); n > mayMiss {
		t.Errorf("%d asks had no answer inside the attempt, %d grants", n, grants.Load())
	}
	c.eventually(5*time.Second, "nothing is in doubt", func() bool { return c.gw.Status().InDoubt == 0 })
	if c.bosses[1].Exists(t.Context(), "biz:order:lock:"+id).Val() != 0 {
		t.Error("a key is left")
	}
}

func oneMasterGone(t *testing.T) {
	c := newCluster(t)
	dead, well := c.idOn(0, 5), c.idOn(1, 5)
	deadCoupon, wellCoupon := c.couponOn(0), c.couponOn(1)
	c.servers.Shards[0][0].Kill()
	c.eventually(10*time.Second, "its keys are local", func() bool {
		a := ask(c.coupons, deadCoupon)
		defer func() { _ = a.lock.Unlock(t.Context()) }()
		return a.err == nil && a.tier() == tierlock.Local
	})
	c.is(ask(c.orders, dead), errNotServed)
	for i := range 50 {
		a := ask(c.orders, well)
		if a.err != nil || a.tier() != tierlock.Shared {
			t.Fatalf("a key of the other master: %v", a)
		}
		_ = a.lock.Unlock(t.Context())
		a = ask(c.coupons, wellCoupon)
		if a.err != nil || a.tier() != tierlock.Shared {
			t.Fatalf("ask %d, a weak key of the other master: %v", i, a)
		}
		_ = a.lock.Unlock(t.Context())
	}
}

// couponOn is an id of the weak chain that this master serves.
func (c *cluster) couponOn(shard int) string {
	c.Helper()
	for n := 0; ; n++ {
		id := "w" + strconv.Itoa(n)
		if c.slotOf("biz:coupon:lock:"+id)*masters/16384 == shard {
			return id
		}
	}
}
