package history

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/servers"
)

// A master freezes, another is promoted, and the old one wakes up while one process has not
// heard of it: two hold a key, and what the old master granted last is forgotten. The
// registers are MariaDB's.
func TestSoakOverASentinelFailover(t *testing.T) {
	t.Parallel()
	w := servers.Sentinels(t, 1)
	old, promoted := w.Nodes[0], w.Nodes[1]
	r := runAt(t, guard.MySQL, place{Addrs: w.Addrs(), Sentinel: w.Name}, old)
	r.start(2, sound)
	r.eventually("there is load", r.someTaken)
	old.Freeze()
	// Whoever knows the old one only cannot give back what was copied to the promoted: so it
	// begins now.
	r.startAt(place{Addrs: []string{old.Addr()}}, 1, sound)
	r.look(promoted)
	granted := r.clock.now()
	r.eventually("the promoted serves", func() bool {
		return r.watch[0].Do(r.Context(), "role").Val().([]any)[0] == "master" && r.someTaken()
	})
	r.Logf("served %v after the freeze", time.Duration(r.clock.now()-granted))
	old.Thaw()
	r.suffer(
		trouble{name: "the old master grants beside", lasts: 2 * time.Second},
		trouble{name: "a process stands still", begin: r.workers[0].halt, end: r.workers[0].resume, lasts: 1500 * time.Millisecond},
	)
	h := r.end()
	r.judge(h, Always...)
	r.judge(h, "tokens") // one machine, one clock
	r.met(h, 50, Acquire, Granted)
	r.met(h, 20, Write, Accepted)
	r.met(h, 1, Write, Refused)
	if len(Overlaps(h)) == 0 {
		t.Error("no two holders met: nothing was forgotten")
	}
}

// someTaken tells whether a lock is taken within a moment.
func (r *run) someTaken() bool {
	first := r.standing()
	wait(100 * time.Millisecond)
	for key, holder := range r.standing() {
		if first[key] != holder {
			return true
		}
	}
	return false
}

func (r *run) eventually(what string, ok func() bool) {
	r.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); wait(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("not within 30 s: %s", what)
		}
	}
}

// The slot of one key moves, a record at a time, and the master of the other freezes until
// the Cluster counts it as failed. Nothing is forgotten.
func TestSoakOnAClusterWhoseSlotMoves(t *testing.T) {
	t.Parallel()
	c := servers.Cluster(t, 3, 0)
	var all []*servers.RedisServer
	for _, shard := range c.Shards {
		all = append(all, shard...)
	}
	r := runAt(t, guard.SQLite, place{Addrs: c.Addrs(), Cluster: true}, all...)
	r.start(3, sound)
	r.eventually("there is load", r.someTaken)
	m := r.moverOf(c, all, "biz:order:lock:"+registerKey)
	r.suffer(
		trouble{"the slot moves", m.begin, m.end, 0},
		trouble{"the other key's master is frozen", r.ownerOf(all, "biz:order:lock:"+ledgerKey).Freeze, r.ownerOf(all, "biz:order:lock:"+ledgerKey).Thaw, 2500 * time.Millisecond},
		trouble{"the slot's new master is frozen", all[m.to].Freeze, all[m.to].Thaw, 500 * time.Millisecond},
	)
	h := r.end()
	if m.carried == 0 {
		t.Error("no record was moved")
	}
	r.judge(h, WhileItRemembers...)
	r.met(h, 50, Acquire, Granted)
	r.met(h, 5, Acquire, "")
	r.met(h, 20, Write, Accepted)
}

// mover moves a slot from one master to the next.
type mover struct {
	*run
	slot, from, to int
	ids            [2]string
	carried        int
	port           string
}

const clusterSlots = 16384

func (r *run) slotOf(key string) int {
	slot, err := r.watch[0].ClusterKeySlot(r.Context(), key).Result()
	if err != nil {
		r.Fatal(err)
	}
	return int(slot)
}

// ownerOf is the master of a key at the start.
func (r *run) ownerOf(all []*servers.RedisServer, key string) *servers.RedisServer {
	return all[r.slotOf(key)*len(all)/clusterSlots]
}

func (r *run) moverOf(c *servers.RedisCluster, all []*servers.RedisServer, key string) *mover {
	m := &mover{run: r, slot: r.slotOf(key)}
	m.from = m.slot * len(all) / clusterSlots
	m.to = (m.from + 1) % len(all)
	m.ids = [2]string{c.ID(r.T, all[m.from]), c.ID(r.T, all[m.to])}
	m.port = all[m.to].Addr()[len("127.0.0.1:"):]
	return m
}

func (m *mover) told(where int, words ...any) {
	m.Helper()
	if err := m.watch[where].Do(m.Context(), words...).Err(); err != nil {
		m.Fatalf("%v: %v", words, err)
	}
}

func (m *mover) begin() {
	m.told(m.to, "cluster", "setslot", m.slot, "importing", m.ids[0])
	m.told(m.from, "cluster", "setslot", m.slot, "migrating", m.ids[1])
	wait(300 * time.Millisecond)
	for {
		keys, err := m.watch[m.from].ClusterGetKeysInSlot(m.Context(), m.slot, 1).Result()
		if err != nil {
			m.Fatal(err)
		}
		if len(keys) == 0 {
			return
		}
		m.told(m.from, "migrate", "127.0.0.1", m.port, keys[0], 0, 1000)
		m.carried++
		wait(100 * time.Millisecond)
	}
}

func (m *mover) end() {
	m.told(m.to, "cluster", "setslot", m.slot, "node", m.ids[1])
	m.told(m.from, "cluster", "setslot", m.slot, "node", m.ids[1])
}

// The server's wall clock goes a minute forward, again and again: every lock ends early.
func TestSoakWhenTheServersClockSteps(t *testing.T) {
	t.Parallel()
	servers.Need(t, "redis-server")
	clock := servers.NewShim(t)
	r := runOn(t, guard.SQLite, clock.Redis())
	r.thinks = 3 * time.Second // so that others are served while the first still hold
	r.start(3, sound)
	r.suffer(
		trouble{"the clock goes forward again and again", func() {
			for n := range 5 {
				clock.Tell(time.Duration(n+1)*time.Minute, 0)
				wait(time.Second)
			}
		}, nil, 0},
		trouble{"a process stands still beyond its lock", r.workers[0].halt, r.workers[0].resume, 1500 * time.Millisecond},
	)
	h := r.end()
	r.judge(h, Always...)
	r.judge(h, "tokens") // it went forward
	r.met(h, 50, Acquire, Granted)
	r.met(h, 20, Write, Accepted)
	r.met(h, 1, Write, Refused)
	if len(Overlaps(h)) == 0 {
		t.Error("no two holders met: no lock ended early")
	}
}

// A server that refuses writes for a while, for three reasons, and keeps its memory: what
// was to be given back meanwhile is given back after.
func TestSoakWhileTheServerRefuses(t *testing.T) {
	t.Parallel()
	r := newRun(t, guard.SQLite)
	r.start(3, sound)
	set := func(words ...any) func() {
		return func() {
			r.Helper()
			if err := r.watch[0].Do(r.Context(), words...).Err(); err != nil {
				r.Fatalf("%v: %v", words, err)
			}
		}
	}
	r.suffer(
		trouble{"OOM", set("config", "set", "maxmemory", "1"), set("config", "set", "maxmemory", "0"), 700 * time.Millisecond},
		trouble{"NOREPLICAS", set("config", "set", "min-replicas-to-write", "1"), set("config", "set", "min-replicas-to-write", "0"), 700 * time.Millisecond},
		trouble{"READONLY", set("replicaof", "127.0.0.1", "1"), set("replicaof", "no", "one"), 700 * time.Millisecond},
	)
	said := r.watch[0].InfoMap(r.Context(), "errorstats")
	for _, word := range []string{"OOM", "NOREPLICAS", "READONLY"} {
		if said.Item("Errorstats", "errorstat_"+word) == "" {
			t.Errorf("the server never said %s", word)
		}
	}
	h := r.end()
	r.judge(h, WhileItRemembers...)
	r.met(h, 50, Acquire, Granted)
	r.met(h, 5, Acquire, "")
	r.met(h, 20, Write, Accepted)
}
