package servers_test

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
)

func TestSentinelsTellTheMaster(t *testing.T) {
	w := servers.Sentinels(t, 1)
	if got := w.Master(t); got != w.Nodes[0].Addr() || len(w.Addrs()) != 3 {
		t.Errorf("master %s of %v", got, w.Addrs())
	}
}

func TestClusterOfThreeIsWell(t *testing.T) {
	c := servers.Cluster(t, 3, 1)
	if len(c.Addrs()) != 6 || len(c.ID(t, c.Shards[2][1])) != 40 {
		t.Errorf("servers %v", c.Addrs())
	}
	for _, shard := range c.Shards {
		shard[1].Freeze() // and the end of the test ends frozen ones
		if got := ping(t, shard[0].Addr(), 5*time.Second); got != "+PONG\r\n" {
			t.Errorf("ping: %q", got)
		}
	}
}
