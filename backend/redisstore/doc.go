// Package redisstore ASKS Redis: the lock on a Redis (7.0 or newer), one server, a
// master that sentinels watch, or a Cluster, as a [tierlock.Backend]. Only this folder
// imports go-redis.
//
// Each operation is one step of a script on the server, and callers who meet share one
// call of it. An acquire carries the time after which the server must refuse it, so a
// caller that gave up leaves no key behind. Each question ends by its context's deadline,
// whatever the server, the pool or the network do.
//
// Which server serves a key is looked up in a chart, which is made anew whenever something
// hints that it has changed. What a server refused because another serves the key goes on
// to that other, since nothing happened. Otherwise nothing is retried.
//
// It renews nothing by itself and knows no chain. Redis expires by the wall clock of its
// machine, and a Redis that loses its memory, or a failover that loses its last writes,
// loses its locks; what a grant promises is that Redis keeps its own promises.
package redisstore
