package redisstore

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/tierlock/tierlock"
)

// report is what one witness says of who serves what. Of two reports the one with the higher
// epoch is the newer; what was taken from a master that nobody follows any more has an older.
type report struct {
	epoch int64
	name  string   // of the one shard; empty: shards are counted
	spans []span   // by their first slots
	addrs []string // of all servers that could be asked next time
}

// span is a range of slots and the address of its master.
type span struct {
	first, last uint16
	addr        string
}

// chart is which shard serves which slot. It never changes.
type chart struct {
	report
	shards []*shard // by their first slots
	owner  []*shard // by slot; nil where nobody serves it
	whole  bool     // every slot is served
}

// shard is the slots of one master. Its name stays with the slots, whoever serves them.
type shard struct {
	name  string
	node  *node
	probe tierlock.Key // in one of its slots
}

func (c *chart) shardOf(key tierlock.Key) *shard {
	if c.whole && len(c.shards) == 1 {
		return c.shards[0]
	}
	return c.owner[slotOf(key)]
}

// same tells whether r says what c does; it may name other servers to ask.
func (c *chart) same(r report) bool { return c != nil && slices.Equal(c.spans, r.spans) }

// newChart names the shards of r as old named those slots.
func newChart(r report, old *chart, nodeAt func(addr string) *node, stem tierlock.Key) *chart {
	c := &chart{report: r, owner: make([]*shard, slots)}
	byAddr := map[string]*shard{}
	for _, span := range r.spans {
		for slot := int(span.first); slot <= int(span.last); slot++ {
			if c.owner[slot] != nil {
				continue // two masters of one slot: the first is as good as the other
			}
			s := byAddr[span.addr]
			if s == nil {
				s = &shard{node: nodeAt(span.addr)}
				byAddr[span.addr] = s
				c.shards = append(c.shards, s)
			}
			c.owner[slot] = s
		}
	}
	c.whole = !slices.Contains(c.owner, nil)
	c.nameShards(old)
	c.findProbes(old, stem)
	return c
}

// forget takes in which shards another server serves than before: a replica was promoted,
// and may lack what was granted last.
func (c *chart) forget(old *chart, now time.Time) {
	if old == nil {
		return
	}
	for _, s := range c.shards {
		for _, was := range old.shards {
			if was.name == s.name && was.node != s.node {
				s.node.memory.began(now)
			}
		}
	}
}

// nameShards gives each shard the name that most of its slots had; of two that want one, the
// shard with more of them gets it. Where there was none before, shards are counted from 1
// in the order of their slots, so that all processes find the same names.
func (c *chart) nameShards(old *chart) {
	type claim struct {
		shard  *shard
		name   string
		common int
	}
	var claims []*claim
	if old != nil {
		counts := map[[2]*shard]*claim{}
		for slot, s := range c.owner {
			was := old.owner[slot]
			if s == nil || was == nil {
				continue
			}
			pair := [2]*shard{s, was}
			if counts[pair] == nil {
				counts[pair] = &claim{shard: s, name: was.name}
				claims = append(claims, counts[pair])
			}
			counts[pair].common++
		}
	}
	slices.SortStableFunc(claims, func(a, b *claim) int { return cmp.Compare(b.common, a.common) })
	taken := map[string]bool{}
	for _, one := range claims {
		if one.shard.name == "" && !taken[one.name] {
			one.shard.name, taken[one.name] = one.name, true
		}
	}
	number := 0
	if len(c.shards) == 1 && c.name != "" {
		c.shards[0].name = c.name
	}
	for _, s := range c.shards {
		for s.name == "" {
			number++
			if name := "shard-" + strconv.Itoa(number); !taken[name] {
				s.name, taken[name] = name, true
			}
		}
	}
}

// findProbes gives each shard a key in its own slots: the one it had, or the first number
// behind the stem that falls there. With n shards of one size that takes about n tries.
func (c *chart) findProbes(old *chart, stem tierlock.Key) {
	missing := len(c.shards)
	take := func(key tierlock.Key) {
		if s := c.owner[slotOf(key)]; s != nil && s.probe.IsZero() {
			s.probe = key
			missing--
		}
	}
	if old != nil {
		for _, s := range old.shards {
			take(s.probe)
		}
	}
	for n := 0; missing > 0; n++ {
		key, err := tierlock.ParseKey(stem.String() + ":" + strconv.Itoa(n))
		if err != nil {
			return // cannot be: the stem is a short key
		}
		take(key)
	}
}

// tell logs which shards another server serves than before.
func (c *chart) tell(log *slog.Logger, old *chart) {
	was := map[string]string{}
	for _, s := range old.shards {
		was[s.name] = s.node.addr
	}
	for _, s := range c.shards {
		if was[s.name] != s.node.addr {
			log.LogAttrs(context.Background(), slog.LevelWarn, "redis has another master than before",
				slog.String("shard", s.name), slog.String("from", was[s.name]), slog.String("to", s.node.addr))
		}
	}
}
