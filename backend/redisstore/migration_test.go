package redisstore_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// A Cluster moves slots and loses a master under load: no lock is held twice or lost, and
// what is not touched does not notice.
func TestClusterChangesUnderLoad(t *testing.T) { //nolint:tparallel // one after the other, on one Cluster
	t.Parallel()
	c := servers.Cluster(t, 3, 1)
	for _, addr := range c.Addrs() {
		enroll(t, addr, slices.Concat(neededCommands, usefulCommands, clusterNeeded, clusterUseful, neededKeys))
	}
	log := new(diary)
	store := open(t, redisstore.Config{
		Addrs: []string{c.Shards[2][0].Addr()}, Cluster: true, Username: "tierlock", Password: "secret",
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	take(t, store, newHold(t, minute), tierlock.Granted) // the map is known
	t.Run("a slot stands half moved", func(t *testing.T) { slotStandsHalfMoved(t, c, store) })
	t.Run("an entered lock is kept", func(t *testing.T) { enteredLockIsKept(t, c, store) })
	t.Run("tokens rise where lock and fence are apart", func(t *testing.T) { tokensRiseWhereTheyAreApart(t, c, store) })
	t.Run("a slot migrates", func(t *testing.T) { slotMigrates(t, c, store) })
	t.Run("a master freezes", func(t *testing.T) { masterFreezes(t, c, store) })
	t.Run("the whole Cluster is down", func(t *testing.T) { wholeClusterIsDown(t, c, store, log) })
}

// resource is what locks protect: it notices two holders, and tokens that fall.
type resource struct {
	inside atomic.Int64
	last   atomic.Uint64
	grants atomic.Int64
}

// slotMigrates moves one slot there and back again while its keys are locked, renewed and
// given back, fenced and not.
func slotMigrates(t *testing.T, c *servers.RedisCluster, store *redisstore.Store) {
	const keys, rounds = 8, 4
	slot, all := keysOfOneSlot(t, c, keys)
	slow := newSlot{admin(t, c.Shards[0][0].Addr()), admin(t, c.Shards[1][0].Addr()), slot}
	resources := make([]resource, keys)
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	var late atomic.Int64
	defer workers.Wait()
	defer stop()
	for n := range 2 * keys {
		workers.Go(func() {
			for ctx.Err() == nil {
				if !work(t, store, all[n%keys], n%keys%2 == 0, &resources[n%keys]) {
					late.Add(1)
				}
			}
		})
	}
	total := func() (sum int64) {
		for i := range resources {
			sum += resources[i].grants.Load()
		}
		return sum
	}
	eventually(t, "there is load", func() bool { return total() > 50 })
	for range rounds {
		slow.migrate(t)
		slow.from, slow.to = slow.to, slow.from
	}
	before := make([]int64, keys)
	for i := range resources {
		before[i] = resources[i].grants.Load()
	}
	eventually(t, "every key is granted after the last migration", func() bool {
		for i := range resources {
			if resources[i].grants.Load() == before[i] {
				return false
			}
		}
		return true
	})
	stop()
	workers.Wait()
	t.Logf("%d grants, %d questions without an answer in time", total(), late.Load())
	for i, key := range all {
		look(t, store, tierlock.Hold{Key: key, ID: tierlock.NewRequestID()}, tierlock.Gone)
		if resources[i].grants.Load() == 0 {
			t.Errorf("%s was never granted", key)
		}
	}
}

// work is one turn of a worker. It tells whether every question was answered in time.
func work(t *testing.T, store *redisstore.Store, key tierlock.Key, fenced bool, r *resource) bool {
	hold := tierlock.Hold{Key: key, ID: tierlock.NewRequestID(), TTL: minute}
	ctx, deadline := within(t, attempt)
	answer, err := store.Acquire(ctx, tierlock.Request{Hold: hold, NotAfter: deadline, Fenced: fenced})
	if err != nil {
		var f *tierlock.Fault
		if !errors.As(err, &f) || f.Reason != tierlock.ReasonAttempt && f.Reason != tierlock.ReasonSaturated { // it stood in line till its deadline
			t.Errorf("acquire: %v", err)
			return false
		}
		if f.InDoubt { // the machine is busy: what the gateway's ledger does
			<-time.After(time.Until(deadline))
			ctx, _ = within(t, 5*time.Second)
			if _, err := store.Release(ctx, hold); err != nil {
				t.Errorf("release of what is in doubt: %v", err)
			}
		}
		return false
	}
	if answer.Status != tierlock.Granted {
		<-time.After(time.Millisecond)
		return true
	}
	r.grants.Add(1)
	if n := r.inside.Add(1); n != 1 {
		t.Errorf("%d hold %s", n, key)
	}
	if last := r.last.Swap(uint64(answer.Token)); fenced && uint64(answer.Token) <= last {
		t.Errorf("token %d after %d", answer.Token, last)
	}
	ctx, _ = within(t, 5*time.Second)
	if answers, err := store.Renew(ctx, []tierlock.Hold{hold}); err != nil || answers[0].Status != tierlock.Mine {
		t.Errorf("renew: %v, %v", answers[0].Status, err)
	}
	r.inside.Add(-1)
	if answer, err := store.Release(ctx, hold); err != nil || answer.Status != tierlock.Released {
		t.Errorf("release: %v, %v", answer.Status, err)
	}
	return true
}

// newSlot is a slot on its way.
type newSlot struct {
	from, to *redis.Client
	slot     int
}

// migrate does what redis-cli --cluster reshard does, one key at a time and with pauses, so
// that the slot is for a while in two places.
func (s newSlot) migrate(t *testing.T) {
	t.Helper()
	s.begin(t)
	for {
		keys, err := s.from.ClusterGetKeysInSlot(t.Context(), s.slot, 1).Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		s.carry(t, keys[0])
		<-time.After(10 * time.Millisecond)
	}
	s.end(t)
}

// begin has the slot be in two places.
func (s newSlot) begin(t *testing.T) {
	t.Helper()
	s.do(t, s.to, "cluster", "setslot", s.slot, "importing", s.do(t, s.from, "cluster", "myid").Val())
	s.do(t, s.from, "cluster", "setslot", s.slot, "migrating", s.do(t, s.to, "cluster", "myid").Val())
}

// carry moves one key.
func (s newSlot) carry(t *testing.T, key string) {
	t.Helper()
	if got := s.do(t, s.from, "migrate", "127.0.0.1", port(t, s.to.Options().Addr), key, 0, 1000).Val(); got != "OK" && got != "NOKEY" {
		t.Fatalf("%s: %v", key, got)
	}
}

// end gives the slot, which has no key at its old place any more, to the new one.
func (s newSlot) end(t *testing.T) {
	t.Helper()
	to := s.do(t, s.to, "cluster", "myid").Val()
	s.do(t, s.to, "cluster", "setslot", s.slot, "node", to)
	s.do(t, s.from, "cluster", "setslot", s.slot, "node", to)
}

func (newSlot) do(t *testing.T, client *redis.Client, words ...any) *redis.Cmd {
	t.Helper()
	cmd := client.Do(t.Context(), words...)
	if cmd.Err() != nil {
		t.Fatal(cmd.Err())
	}
	return cmd
}

// keysOfOneSlot finds keys that share a slot of the first shard.
func keysOfOneSlot(t *testing.T, c *servers.RedisCluster, n int) (slot int, keys []tierlock.Key) {
	t.Helper()
	boss := admin(t, c.Shards[0][0].Addr())
	slot = -1
	for i := 0; len(keys) < n; i++ {
		text := "biz:test:lock:m" + strconv.Itoa(i)
		key, err := tierlock.ParseKey(text)
		if err != nil {
			t.Fatal(err)
		}
		at := redisstore.SlotOf(key)
		if slot < 0 && at >= 4000 && at < 5000 { // keyOfFirstShard takes those below
			slot = at
		}
		if at == slot {
			keys = append(keys, key)
		}
	}
	if told, err := boss.ClusterKeySlot(t.Context(), keys[0].String()).Result(); err != nil || int(told) != slot {
		t.Fatalf("slot %d, %v, want %d", told, err, slot)
	}
	return slot, keys
}

// masterFreezes takes the second shard's master away. Its own keys are served by the
// replica in time; those of the others are granted within each attempt all the while.
func masterFreezes(t *testing.T, c *servers.RedisCluster, store *redisstore.Store) {
	name := func(key tierlock.Key) string { return store.Traits().Sharder.Target(key) }
	onDead := func(key tierlock.Key) bool { return name(key) == "shard-2" }
	onOthers := func(key tierlock.Key) bool { return name(key) != "shard-2" }
	held, _ := grantedAgain(t, store, onDead)
	replica := admin(t, c.Shards[1][1].Addr()).Conn()
	if err := replica.ReadOnly(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lock is on the replica", func() bool { return replica.Exists(t.Context(), held.Key.String()).Val() == 1 })
	_ = replica.Close()

	c.Shards[1][0].Freeze()
	frozen := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	others.Go(func() {
		refused := 0
		for n := 0; ctx.Err() == nil; n++ {
			hold := newHold(t, minute)
			if !onOthers(hold.Key) {
				continue
			}
			if answer, err := try(t, store, hold); err != nil || answer.Status != tierlock.Granted {
				refused++
			}
			<-time.After(5 * time.Millisecond)
		}
		if refused > 0 {
			t.Errorf("%d keys of the other shards were not granted at once", refused)
		}
	})
	_, served := grantedAgain(t, store, onDead)
	stop()
	others.Wait()
	t.Logf("served %v after the freeze", served.Sub(frozen))
	if served.Sub(frozen) > servedIn {
		t.Errorf("served %v after the freeze", served.Sub(frozen))
	}
	if !onDead(held.Key) {
		t.Error("the shard has another name after its failover")
	}
	ctxt, _ := within(t, time.Second)
	if answers, err := store.Renew(ctxt, []tierlock.Hold{held}); err != nil || answers[0].Status != tierlock.Mine {
		t.Errorf("renew at the promoted replica: %v, %v", answers[0].Status, err)
	}
	if err := store.Probe(ctxt, "shard-2"); err != nil {
		t.Errorf("probe: %v", err)
	}

	c.Shards[1][0].Thaw()
	for range 20 { // it never goes back
		hold, _ := grantedAgain(t, store, onDead)
		look(t, store, hold, tierlock.Mine)
	}
	give(t, store, held, tierlock.Released)
}
