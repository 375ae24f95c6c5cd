package gateway_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
)

// refusal is a way to make a real server refuse locks. The request that meets it first is
// told reason, with the outcomes of docs/redis-errors.md.
type refusal struct {
	name   string
	args   []string // of the server
	begin  func(t *testing.T, s *refusing)
	reason tierlock.Reason
	reply  string // with which the server's words begin
	keyed  bool   // only the key "first" is refused: the server is well
}

// refusing is the server, and a client that looks into it and breaks it.
type refusing struct {
	*servers.RedisServer
	boss *redis.Client
}

func (s *refusing) do(t *testing.T, words ...any) {
	t.Helper()
	if err := s.boss.Do(t.Context(), words...).Err(); err != nil {
		t.Fatalf("%v: %v", words, err)
	}
}

const firstKey = "biz:c:lock:first" // its records have its slot

var clusterNode = []string{"--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"}

var refusals = []refusal{
	{"loads", []string{"--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024"}, beginLoading, tierlock.ReasonDown, "LOADING ", false},
	{"demoted without a master, no stale data", nil, func(t *testing.T, s *refusing) {
		s.do(t, "config", "set", "replica-serve-stale-data", "no")
		s.do(t, "replicaof", "127.0.0.1", "1")
	}, tierlock.ReasonDown, "MASTERDOWN ", false},
	{"cluster without slots", clusterNode, func(t *testing.T, s *refusing) {
		s.do(t, "flushall")
		s.do(t, "cluster", "flushslots")
	}, tierlock.ReasonDown, "CLUSTERDOWN ", false},
	{"demoted", nil, func(t *testing.T, s *refusing) { s.do(t, "replicaof", "127.0.0.1", "1") }, tierlock.ReasonDenied, "READONLY ", false},
	{"no replica to write to", nil, func(t *testing.T, s *refusing) { s.do(t, "config", "set", "min-replicas-to-write", "1") }, tierlock.ReasonDenied, "NOREPLICAS ", false},
	{"snapshots fail", []string{"--save", "3600 1", "--dbfilename", "dump.rdb"}, beginFailingSnapshots, tierlock.ReasonDenied, "MISCONF ", false},
	{"memory is full", nil, func(t *testing.T, s *refusing) { s.do(t, "config", "set", "maxmemory", "1") }, tierlock.ReasonDenied, "OOM ", false},
	{"a command is forbidden", nil, func(t *testing.T, s *refusing) { s.do(t, "acl", "setuser", "default", "-evalsha") }, tierlock.ReasonDenied, "NOPERM ", false},
	{"a password is wanted", nil, func(t *testing.T, s *refusing) {
		s.do(t, "config", "set", "requirepass", "secret")
		s.do(t, "client", "kill", "type", "normal") // who is in stays in
	}, tierlock.ReasonDenied, "NOAUTH ", false},
	{"a script that does not end", []string{"--busy-reply-threshold", "1"}, beginBusyScript, tierlock.ReasonDenied, "BUSY ", false},
	{"slot moved", clusterNode, func(t *testing.T, s *refusing) {
		other := otherNode(t, s)
		s.do(t, "cluster", "setslot", slotOf(t, s), "node", other)
	}, tierlock.ReasonDenied, "MOVED ", true},
	{"slot moving, key gone", clusterNode, func(t *testing.T, s *refusing) {
		other := otherNode(t, s)
		s.do(t, "cluster", "setslot", slotOf(t, s), "migrating", other)
	}, tierlock.ReasonDenied, "ASK ", true},
	{"slot moving, fence record still there", clusterNode, func(t *testing.T, s *refusing) {
		other := otherNode(t, s)
		s.do(t, "set", "{"+firstKey+"}:fence", "1")
		s.do(t, "cluster", "setslot", slotOf(t, s), "migrating", other)
	}, tierlock.ReasonDenied, "TRYAGAIN ", true},
	{"no room for clients", nil, func(t *testing.T, s *refusing) {
		s.do(t, "config", "set", "maxclients", "1")
		s.do(t, "client", "kill", "type", "normal")
	}, tierlock.ReasonSaturated, "", false},
	{"the key is a set", nil, func(t *testing.T, s *refusing) { s.do(t, "sadd", firstKey, "member") }, tierlock.ReasonWrongType, "WRONGTYPE ", true},
}

// A real server that refuses, met by each kind of chain: the reason, outcome, advice and alert
// of docs/redis-errors.md, told to the hook once, the server's own words in the error, and
// then the tier that the target's state leads to.
func TestRefusalsOfRealServersHaveOneOutcome(t *testing.T) {
	servers.Need(t, "redis-server")
	classes := []struct {
		name   string
		policy func() gateway.Policy
	}{{"strong", strong}, {"guarded", guarded}, {"weak", weak}}
	for _, r := range refusals {
		t.Run(r.name, func(t *testing.T) {
			s := startRefusing(t, r.args)
			chains, calls := make([]*gateway.Chain, len(classes)), make([]heard[gateway.AcquireInfo], len(classes))
			for i, class := range classes {
				chains[i] = chainOn(t, s.Addr(), class.policy(), gateway.Hooks{Acquired: calls[i].hear})
				warm(t, chains[i])
			}
			r.begin(t, s)
			for i, class := range classes {
				t.Run(class.name, func(t *testing.T) { r.meet(t, class.name, chains[i], &calls[i]) })
			}
		})
	}
}

func (r refusal) meet(t *testing.T, class string, c *gateway.Chain, calls *heard[gateway.AcquireInfo]) {
	t.Helper()
	before := len(calls.told())
	l, err := c.TryLock(t.Context(), "first")
	since := calls.told()[before:]
	if class == "weak" && r.reason == tierlock.ReasonDown {
		if err != nil || l.Grant().Tier != tierlock.Local {
			t.Fatalf("first: %+v, %v, want a local grant", l.Grant(), err)
		}
		toldOnce(t, since, tierlock.Verdict{Outcome: tierlock.Success, Reason: tierlock.ReasonDown, Tier: tierlock.Local})
		_ = l.Unlock(t.Context())
		return
	}
	var told *tierlock.Error
	if !errors.As(err, &told) {
		t.Fatalf("first: %v, want a verdict", err)
	}
	likeFirst(t, told, class, r.reason)
	toldOnce(t, since, told.Verdict)
	if fault, ok := errors.AsType[*tierlock.Fault](err); !ok || fault.InDoubt || r.reply != "" && !strings.HasPrefix(fault.Err.Error(), r.reply) {
		t.Errorf("first: %v, want the server's %q, nothing in doubt", err, r.reply)
	}
	if r.keyed {
		if other, err := c.TryLock(t.Context(), "another"); err != nil || other.Grant().Tier != tierlock.Shared {
			t.Errorf("another key: %v, %v, want shared", other.Grant().Tier, err)
		} else if err := other.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		return
	}
	if r.reason == tierlock.ReasonSaturated || r.reason == tierlock.ReasonDown {
		return
	}
	// One probe that is refused too, or five in a row, and the target is down.
	waitFor(t, "down", func() bool {
		l, err := c.TryLock(t.Context(), "later")
		defer func() { _ = l.Unlock(t.Context()) }()
		if class == "weak" {
			return err == nil && l.Grant().Tier == tierlock.Local
		}
		return errors.As(err, &told) && told.Reason != r.reason
	})
	if class == "strong" && told.Outcome != tierlock.SystemError || class == "guarded" && told.Advice != tierlock.AdviseOptimistic {
		t.Errorf("then: %v, advice %s", told, told.Advice)
	}
}

// firstVerdict is the row of docs/redis-errors.md, for what is not granted locally.
func firstVerdict(class string, why tierlock.Reason) tierlock.Verdict {
	late := why == tierlock.ReasonSaturated || why == tierlock.ReasonAttempt
	switch {
	case why == tierlock.ReasonWrongType, class == "strong" && !late:
		return tierlock.Verdict{Outcome: tierlock.SystemError, Advice: tierlock.AdviseFail, Alert: tierlock.AlertPage}
	case class == "strong":
		return tierlock.Verdict{Outcome: tierlock.Timeout, Advice: tierlock.AdviseFail, Alert: tierlock.AlertWarn}
	}
	return tierlock.Verdict{Outcome: tierlock.Timeout, Advice: tierlock.AdviseOptimistic, Alert: tierlock.AlertWarn}
}

// likeFirst fails unless told is the row of docs/redis-errors.md.
func likeFirst(t *testing.T, told *tierlock.Error, class string, why tierlock.Reason) {
	t.Helper()
	want := firstVerdict(class, why)
	if told.Reason != why || told.Outcome != want.Outcome || told.Advice != want.Advice || told.Alert != want.Alert {
		t.Errorf("first: %s %s, advice %s, alert %s (%v), want %s %s, advice %s, alert %s",
			told.Outcome, told.Reason, told.Advice, told.Alert, told, want.Outcome, why, want.Advice, want.Alert)
	}
}

// toldOnce fails unless the hook, which the metrics count by, was told of one call, with the
// verdict that its caller got.
func toldOnce(t *testing.T, calls []gateway.AcquireInfo, want tierlock.Verdict) {
	t.Helper()
	if len(calls) != 1 || calls[0].Verdict != want {
		t.Errorf("first: the hook was told %+v, want once %+v", calls, want)
	}
}

func startRefusing(t *testing.T, args []string) *refusing {
	t.Helper()
	server := servers.Redis(t, args...)
	boss := redis.NewClient(&redis.Options{Addr: server.Addr(), DisableIdentity: true, MaxRetries: -1})
	t.Cleanup(func() { _ = boss.Close() })
	s := &refusing{server, boss}
	if len(args) > 0 && args[0] == "--cluster-enabled" {
		s.do(t, "cluster", "addslotsrange", 0, 16383)
	}
	return s
}

// chainOn is a chain "c" of a gateway of its own, with that policy, on a Redis at addr.
func chainOn(t *testing.T, addr string, p gateway.Policy, hooks ...gateway.Hooks) *gateway.Chain {
	t.Helper()
	store, err := redisstore.New(redisstore.Config{Addrs: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	p.Audit.Record, p.Fencing = audit.RecordOff, true
	g, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{"c": p}, Stores: map[string]tierlock.Backend{"main": store}, Hooks: gateway.Join(hooks...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = g.Close(ctx)
	})
	return chain(t, g, "c")
}

// beginLoading has the server read 200 values, each for 10 ms.
func beginLoading(t *testing.T, s *refusing) {
	for i := range 200 {
		s.do(t, "set", "filler:"+strings.Repeat("x", i), strings.Repeat("y", 4096))
	}
	s.do(t, "config", "set", "rdbcompression", "no")
	s.do(t, "config", "set", "key-load-delay", "20000")
	loaded := make(chan struct{})
	patient := redis.NewClient(&redis.Options{Addr: s.Addr(), DisableIdentity: true, ReadTimeout: -1, MaxRetries: -1})
	go func() {
		defer close(loaded)
		_ = patient.Do(context.WithoutCancel(t.Context()), "debug", "reload").Err()
	}()
	t.Cleanup(func() { s.Kill(); <-loaded; _ = patient.Close() })
	waitFor(t, "loading", func() bool {
		err := s.boss.Get(t.Context(), "filler").Err()
		return err != nil && strings.HasPrefix(err.Error(), "LOADING ")
	})
}

// beginFailingSnapshots puts a folder where the snapshot's file belongs.
func beginFailingSnapshots(t *testing.T, s *refusing) {
	dir := s.boss.ConfigGet(t.Context(), "dir").Val()["dir"]
	if err := os.Mkdir(filepath.Join(dir, "dump.rdb"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.do(t, "bgsave")
	waitFor(t, "a failed snapshot", func() bool {
		return s.boss.InfoMap(t.Context(), "persistence").Item("Persistence", "rdb_last_bgsave_status") == "err"
	})
}

func beginBusyScript(t *testing.T, s *refusing) {
	endless := redis.NewClient(&redis.Options{Addr: s.Addr(), DisableIdentity: true, ReadTimeout: -1, MaxRetries: -1})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = endless.Eval(context.WithoutCancel(t.Context()), "while true do end", nil).Err()
	}()
	t.Cleanup(func() { s.Kill(); <-ended; _ = endless.Close() })
	waitFor(t, "busy", func() bool {
		err := s.boss.Ping(t.Context()).Err()
		return err != nil && strings.HasPrefix(err.Error(), "BUSY ")
	})
}

// otherNode joins another node to the cluster of s and returns its id.
func otherNode(t *testing.T, s *refusing) string {
	t.Helper()
	other := servers.Redis(t, clusterNode...)
	host, port, _ := strings.Cut(other.Addr(), ":")
	client := redis.NewClient(&redis.Options{Addr: other.Addr(), DisableIdentity: true})
	defer client.Close()
	s.do(t, "cluster", "meet", host, port, client.ConfigGet(t.Context(), "cluster-port").Val()["cluster-port"])
	id, err := client.Do(t.Context(), "cluster", "myid").Text()
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the nodes know each other", func() bool {
		return strings.Contains(s.boss.ClusterNodes(t.Context()).Val(), id)
	})
	return id
}

func slotOf(t *testing.T, s *refusing) int64 {
	t.Helper()
	slot, err := s.boss.ClusterKeySlot(t.Context(), firstKey).Result()
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

// A way to a real server that breaks, met by each kind of chain: what no reply says is in
// doubt and has one reason and outcome, too.
func TestBrokenWaysHaveOneOutcome(t *testing.T) {
	servers.Need(t, "redis-server")
	t.Parallel()
	for name, c := range map[string]struct {
		begin  func(way *proxy, server *servers.RedisServer)
		reason tierlock.Reason
		doubt  bool
	}{
		"the connection ends in the reply": {func(way *proxy, _ *servers.RedisServer) { way.Become(resetReply) }, tierlock.ReasonBroken, true},
		"connections are closed at once":   {func(way *proxy, _ *servers.RedisServer) { way.Become(refuse) }, tierlock.ReasonBroken, true},
		"replies are lost":                 {func(way *proxy, _ *servers.RedisServer) { way.Become(loseReplies) }, tierlock.ReasonAttempt, true},
		"the server is frozen":             {func(_ *proxy, server *servers.RedisServer) { server.Freeze() }, tierlock.ReasonAttempt, true},
	} {
		for class, policy := range map[string]func() gateway.Policy{"strong": strong, "guarded": guarded, "weak": weak} {
			t.Run(name+"/"+class, func(t *testing.T) {
				t.Parallel()
				server := servers.Redis(t)
				way := newProxy(t, server.Addr())
				var calls heard[gateway.AcquireInfo]
				chain := chainOn(t, way.Addr(), policy(), gateway.Hooks{Acquired: calls.hear})
				warm(t, chain)
				c.begin(way, server)
				before := len(calls.told())
				_, err := chain.TryLock(t.Context(), "first")
				var told *tierlock.Error
				if !errors.As(err, &told) {
					t.Fatalf("%v, want a verdict", err)
				}
				likeFirst(t, told, class, c.reason)
				toldOnce(t, calls.told()[before:], told.Verdict)
				if fault, ok := errors.AsType[*tierlock.Fault](err); !ok || fault.InDoubt != c.doubt {
					t.Errorf("%v, want it in doubt: %t", err, c.doubt)
				}
			})
		}
	}
}
