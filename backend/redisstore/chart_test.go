package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
)

// drawn is the chart of spans, with nodes that connect to nothing.
func drawn(t *testing.T, old *chart, spans ...span) *chart {
	t.Helper()
	stem, err := tierlock.ParseKey("tierlock:probe:x")
	if err != nil {
		t.Fatal(err)
	}
	return newChart(report{spans: spans}, old, func(addr string) *node { return &node{addr: addr} }, stem)
}

// names are the chart's shards as name@address, in the order of their slots.
func names(c *chart) (all []string) {
	for _, s := range c.shards {
		all = append(all, s.name+"@"+s.node.addr)
	}
	return all
}

func TestNamesOfShardsStayWithTheirSlots(t *testing.T) {
	first := drawn(t, nil, span{0, 5460, "a"}, span{5461, 10922, "b"}, span{10923, slots - 1, "c"})
	for _, c := range []struct {
		what  string
		spans []span
		want  []string
	}{
		{"nothing moved", first.spans, []string{"shard-1@a", "shard-2@b", "shard-3@c"}},
		{"a failover", []span{{0, 5460, "a"}, {5461, 10922, "b2"}, {10923, slots - 1, "c"}}, []string{"shard-1@a", "shard-2@b2", "shard-3@c"}},
		{"a shard more, from all", []span{{0, 999, "d"}, {1000, 5460, "a"}, {5461, 6460, "d"}, {6461, 10922, "b"}, {10923, slots - 1, "c"}}, []string{"shard-4@d", "shard-1@a", "shard-2@b", "shard-3@c"}},
		{"a shard less", []span{{0, 7000, "a"}, {7001, slots - 1, "c"}}, []string{"shard-1@a", "shard-3@c"}},
		{"all slots at one", []span{{0, slots - 1, "z"}}, []string{"shard-2@z"}},
	} {
		if got := names(drawn(t, first, c.spans...)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestEachShardHasAProbeInItsOwnSlots(t *testing.T) {
	old := drawn(t, nil, span{0, 8000, "a"}, span{8001, slots - 1, "b"})
	moved := drawn(t, old, span{0, 16, "c"}, span{17, 8000, "a"}, span{8001, slots - 1, "b"})
	for _, c := range []*chart{old, moved} {
		for _, s := range c.shards {
			if c.shardOf(s.probe) != s {
				t.Errorf("shard %s: its probe %s lies elsewhere", s.name, s.probe)
			}
		}
	}
	if old.shards[1].probe != moved.shards[2].probe {
		t.Error("the probe of a shard that nothing happened to is another")
	}
}

func TestSlotsThatNobodyServesHaveNoShard(t *testing.T) {
	c := drawn(t, nil, span{0, 99, "a"}, span{50, 200, "b"})
	if c.whole || c.owner[99].node.addr != "a" || c.owner[100].node.addr != "b" || c.owner[201] != nil {
		t.Errorf("whole %t, owners %v %v", c.whole, c.owner[99], c.owner[201])
	}
}

func TestOlderReportsAreBelievedAfterAWhileOnly(t *testing.T) {
	now := time.Now()
	s := scout{best: 5, seen: now}
	for _, c := range []struct {
		epoch int64
		later time.Duration
		want  bool
	}{{6, 0, true}, {5, 0, true}, {4, 0, false}, {4, forget - time.Second, false}, {4, forget, true}} {
		if got := s.credible(c.epoch, now.Add(c.later)); got != c.want {
			t.Errorf("epoch %d after %v: %t", c.epoch, c.later, got)
		}
	}
}

func TestPointersAreRead(t *testing.T) {
	for reply, want := range map[string]pointer{
		"MOVED 3999 127.0.0.1:6381":                            {pointsAway, "127.0.0.1:6381"},
		"MOVED 3999 :6381":                                     {pointsAway, "10.0.0.1:6381"},
		"ASK 3999 host.example:6381":                           {pointsOnce, "host.example:6381"},
		"ASK 3999 [::1]:6381":                                  {pointsOnce, "[::1]:6381"},
		"TRYAGAIN Multiple keys request during rehashing slot": {kind: pointsLater},
		"MOVED 3999":                                           {},
		"MOVED 3999 nonsense":                                  {},
		"READONLY You can't write against a replica":           {},
		"": {},
	} {
		if got := pointerIn(refused(serverError(reply)), "10.0.0.1:7000"); got != want {
			t.Errorf("%q: %+v, want %+v", reply, got, want)
		}
	}
	if got := pointerIn(fault(errors.New("MOVED 1 a:1")), "b:1"); got != (pointer{}) {
		t.Errorf("what is no reply points to %+v", got)
	}
}

func TestReportsOfAClusterAreReadStrictly(t *testing.T) {
	server := func(host any, port any, more ...any) any { return append([]any{host, port, "id"}, more...) }
	for _, c := range []struct {
		entry any
		spans []span
		addrs []string
	}{
		{[]any{int64(0), int64(9), server("h", int64(1)), server("r", int64(2))}, []span{{0, 9, "h:1"}}, []string{"h:1", "r:2"}},
		{[]any{int64(0), int64(9), server(nil, int64(1), []any{})}, []span{{0, 9, "asked:1"}}, []string{"asked:1"}},
		{[]any{int64(0), int64(9), server("?", int64(1))}, []span{{0, 9, "asked:1"}}, []string{"asked:1"}},
		{[]any{int64(0), int64(9)}, nil, nil},
		{[]any{int64(9), int64(0), server("h", int64(1))}, nil, nil},
		{[]any{int64(0), int64(slots), server("h", int64(1))}, nil, nil},
		{[]any{"0", int64(9), server("h", int64(1))}, nil, nil},
		{[]any{int64(0), int64(9), server("h", "1")}, nil, nil},
		{[]any{int64(0), int64(9), "h:1"}, nil, nil},
		{"nonsense", nil, nil},
	} {
		var r report
		ok := r.add(c.entry, "asked:7000")
		if ok != (c.spans != nil) || ok && (!slices.Equal(r.spans, c.spans) || !slices.Equal(r.addrs, c.addrs)) {
			t.Errorf("%v: %t, %+v", fmt.Sprint(c.entry), ok, r)
		}
	}
}
