package redisstore

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

// node is one Redis server that grants: its address, the connections to it and what is
// known of its clock.
type node struct {
	cfg   *Config // never changes
	addr  string
	clock clock
	dials dialer

	functions functions
	memory    memory

	// Three pools: acquires that fill theirs cannot keep a lock from being given back, and
	// neither of the two can keep a probe out.
	acquires *redis.Client
	control  *redis.Client
	prober   *prober

	acquiring   *batcher // over acquires
	controlling *batcher // over control: releases, and renewals one at a time

	inbox *inbox // its subscription has a connection of its own
}

// newNode connects to nothing.
func newNode(cfg *Config, addr string) *node {
	n := &node{cfg: cfg, addr: addr}
	n.clock.start = time.Now()
	n.dials.open(*cfg)
	n.functions.wanted, n.functions.addr, n.functions.log = cfg.Functions, addr, cfg.Logger
	n.acquires = n.client(cfg.PoolSize)
	n.control = n.client(cfg.PoolSize)
	n.prober = newProber(cfg, addr, &n.dials)
	n.acquiring, n.controlling = newBatcher(n, n.acquires), newBatcher(n, n.control)
	n.inbox = newInbox(n)
	return n
}

// close ends all connections and waits for those being made, and for who used them.
func (n *node) close() error {
	n.inbox.close()
	n.acquiring.close()
	n.controlling.close()
	err := errors.Join(n.acquires.Close(), n.control.Close(), n.prober.close())
	n.dials.close()
	n.acquiring.await()
	n.controlling.await()
	return err
}

// group is what may share one script with key: in a Cluster, keys of one slot.
func (n *node) group(key tierlock.Key) uint16 {
	if !n.cfg.Cluster {
		return 0
	}
	return slotOf(key)
}

// loose counts the connections being made that no caller waits for. What is under way on a trip
// though its caller has gone is not among it: that caller's Fault.Done stands for it.
func (n *node) loose() int {
	waiting := n.acquires.PoolStats().PendingRequests + n.control.PoolStats().PendingRequests
	return max(0, int(n.dials.pending.Load())-int(waiting))
}
