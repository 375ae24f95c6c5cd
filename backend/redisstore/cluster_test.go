package redisstore_test

import (
	"testing"

	"github.com/tierlock/tierlock/backend/backendtest"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

func TestStoreKeepsTheContractOnACluster(t *testing.T) {
	t.Parallel()
	c := servers.Cluster(t, 3, 0, "--cluster-node-timeout", "15000") // longer than the suite hangs
	store := open(t, redisstore.Config{Addrs: c.Addrs()[:1], Cluster: true})
	backendtest.Run(t, "redis-server "+version(t, c.Addrs()[0])+" as a Cluster of 3", store, backendtest.Options{
		Hang: func(*testing.T) func() {
			for _, shard := range c.Shards {
				shard[0].Freeze()
			}
			return func() {
				for _, shard := range c.Shards {
					shard[0].Thaw()
				}
			}
		},
	})
}
