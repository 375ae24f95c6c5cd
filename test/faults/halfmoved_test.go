package faults

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

func keyOnBothSides(t *testing.T) {
	c := newCluster(t)
	id := c.idOn(0, 3)
	slot := c.slot(id)
	l := c.must(c.orders, id)
	c.begin(slot)
	// The records of a lock are together or apart meanwhile: held, by its holder, who keeps it.
	held := func(where string) {
		t.Helper()
		for range 10 {
			if a := ask(c.orders, id); !errors.Is(a.err, tierlock.ErrHeld) || a.took > inTime {
				t.Fatalf("%s: got %v, want held", where, a)
			}
		}
		if err := l.Renew(t.Context(), time.Minute); err != nil {
			t.Fatalf("%s: renewal: %v", where, err)
		}
		if is, err := l.IsHeld(t.Context()); err != nil || !is {
			t.Fatalf("%s: looked up: %v, %v", where, is, err)
		}
	}
	held("nothing moved")
	c.rivalByAsking(slot, id, held)
	for n := 1; c.carry(slot); n++ {
		held(strconv.Itoa(n) + " moved")
	}
	held("all moved")
	// And free and taken again before the slot is one again.
	last := l.Grant().Token
	for range 5 {
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatalf("unlock: %v", err)
		}
		l = c.must(c.orders, id)
		if l.Grant().Token <= last {
			t.Fatalf("token %d after %d", l.Grant().Token, last)
		}
		last = l.Grant().Token
	}
	if err := l.Unlock(t.Context()); err != nil {
		t.Fatalf("unlock: %v", err)
	}
	for c.carry(slot) {
	}
	c.end(slot)
	if !served(c.orders) {
		t.Error("not served after the move")
	}
}

// rivalByAsking has somebody else take the lock where its slot goes to, by an ASKING that
// nobody told him to send: two hold the key then. Whoever asks as he is told meets the holder
// at the slot's old place, sends no ASKING, and is refused; and the key cannot be moved.
func (c *cluster) rivalByAsking(slot int, id string, held func(string)) {
	c.Helper()
	key := "biz:order:lock:" + id
	wrong := client(c.T, c.servers.Shards[1][0].Addr()).Conn()
	defer func() { _ = wrong.Close() }()
	var got *redis.BoolCmd
	if _, err := wrong.Pipelined(c.Context(), func(p redis.Pipeliner) error {
		p.Do(c.Context(), "asking")
		got = p.SetNX(c.Context(), key, "rival", time.Minute)
		return nil
	}); err != nil || !got.Val() {
		c.Fatalf("the rival takes the key: %v", err)
	}
	before := c.askings()
	held("a rival has it at the other place")
	if n := c.askings() - before; n != 0 {
		c.Errorf("%d times ASKING was sent unprompted", n)
	}
	_, port, _ := strings.Cut(c.servers.Shards[1][0].Addr(), ":")
	if err := c.bosses[0].Do(c.Context(), "migrate", "127.0.0.1", port, key, 0, 1000).Err(); err == nil || !strings.Contains(err.Error(), "BUSYKEY") {
		c.Errorf("migrate over the rival: %v, want BUSYKEY", err)
	}
	if _, err := wrong.Pipelined(c.Context(), func(p redis.Pipeliner) error {
		p.Do(c.Context(), "asking")
		p.Del(c.Context(), key)
		return nil
	}); err != nil {
		c.Fatalf("the rival leaves: %v", err)
	}
}

// askings is how often the masters were sent ASKING.
func (c *cluster) askings() (sum int) {
	c.Helper()
	for _, boss := range c.bosses {
		var n int
		stats := boss.InfoMap(c.Context(), "commandstats").Item("Commandstats", "cmdstat_asking")
		_, _ = fmt.Sscanf(stats, "calls=%d", &n)
		sum += n
	}
	return sum
}
