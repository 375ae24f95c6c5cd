package servers

import (
	"strconv"
	"testing"
)

// RedisCluster is a Redis Cluster: shards of equal size, each a master and its replicas.
type RedisCluster struct {
	Shards [][]*RedisServer // the first of each was its master at the start
}

// Addrs are all servers'.
func (c *RedisCluster) Addrs() []string {
	var all []string
	for _, n := range c.nodes() {
		all = append(all, n.Addr())
	}
	return all
}

func (c *RedisCluster) nodes() []*RedisServer {
	var all []*RedisServer
	for _, shard := range c.Shards {
		all = append(all, shard...)
	}
	return all
}

const clusterSlots = 16384

// Cluster starts a Redis Cluster and returns when all its servers say that it is well. A
// server that is silent for a second counts as failed; a shard that is gone keeps nobody
// else from serving. args are further options of each server.
func Cluster(tb testing.TB, shards, replicas int, args ...string) *RedisCluster {
	tb.Helper()
	return cluster(tb, nil, shards, replicas, args)
}

func cluster(tb testing.TB, files *TLS, shards, replicas int, args []string) *RedisCluster {
	tb.Helper()
	Need(tb, "redis-server")
	c := &RedisCluster{}
	for range shards {
		var shard []*RedisServer
		for range 1 + replicas {
			shard = append(shard, clusterNode(tb, files, args))
		}
		c.Shards = append(c.Shards, shard)
	}
	c.introduce(tb)
	all := c.nodes()
	for _, n := range all {
		settle(tb, n.Addr(), []string{"CLUSTER", "INFO"}, "cluster_known_nodes:"+strconv.Itoa(len(all)))
	}
	for _, shard := range c.Shards {
		id := c.ID(tb, shard[0])
		for _, n := range shard[1:] {
			settle(tb, n.Addr(), []string{"CLUSTER", "NODES"}, id) // it replicates only whom it knows
			order(tb, n.Addr(), "CLUSTER", "REPLICATE", id)
		}
	}
	for _, shard := range c.Shards {
		for i, n := range shard {
			settle(tb, n.Addr(), []string{"CLUSTER", "INFO"}, "cluster_state:ok", "cluster_slots_ok:"+strconv.Itoa(clusterSlots), "cluster_size:"+strconv.Itoa(shards))
			if i > 0 {
				settle(tb, n.Addr(), []string{"INFO", "replication"}, "master_link_status:up")
			}
		}
	}
	return c
}

// ID is the name that a server has in the Cluster.
func (c *RedisCluster) ID(tb testing.TB, n *RedisServer) string {
	tb.Helper()
	return order(tb, n.Addr(), "CLUSTER", "MYID")
}

// introduce gives each server an epoch and each first of a shard its slots, and lets all
// meet all: they would hear of each other, but only once a second.
func (c *RedisCluster) introduce(tb testing.TB) {
	tb.Helper()
	all := c.nodes()
	for i, n := range all {
		order(tb, n.Addr(), "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
	for i, shard := range c.Shards {
		first, end := clusterSlots*i/len(c.Shards), clusterSlots*(i+1)/len(c.Shards)
		order(tb, shard[0].Addr(), "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(end-1))
	}
	for i, n := range all {
		for _, other := range all[i+1:] {
			host, port := other.told()
			order(tb, n.Addr(), "CLUSTER", "MEET", host, port, strconv.Itoa(other.bus))
		}
	}
}

func clusterNode(tb testing.TB, files *TLS, args []string) *RedisServer {
	tb.Helper()
	return redis(tb, files, append([]string{
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "1000",
		"--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0",
	}, args...))
}
