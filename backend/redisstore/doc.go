// Package redisstore ASKS Redis: the lock on one real Redis (7.0 or newer) or Valkey as a
// [tierlock.Backend]. Only this folder imports go-redis.
//
// Each operation is one step of a script on the server, and callers who meet share one
// call of it. An acquire carries the time after which the server must refuse it, so a
// caller that gave up leaves no key behind. Each question ends by its context's deadline,
// whatever the server, the pool or the network do.
//
// It retries nothing, renews nothing by itself and knows no chain. Redis expires by the
// wall clock of its machine, and a Redis that loses its memory loses its locks; what a
// grant promises is that Redis keeps its own promises.
package redisstore
