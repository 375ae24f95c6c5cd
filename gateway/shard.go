package gateway

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tierlock/tierlock"
)

// maxShards bounds a policy's Shards. Others have measured a coarse lock to get slower
// again above some 200 of them.
const maxShards = 1024

// shardWord begins the id of a slot: biz:order:lock:shard:17.
const shardWord = "shard:"

func checkShards(n int) error {
	if n < 0 || n > maxShards {
		return tierlock.Invalid("shards", strconv.Itoa(n), fmt.Sprintf("want 1 to %d, or 0 for a lock of its own for each id", maxShards))
	}
	return nil
}

// keyOf returns the key that stands for id in the store and, on a chain with shards, the
// one that would without them. One id always has the same slot, on every instance that has
// as many of them: FNV-1a of the whole key, modulo the shards. A slot is its own.
func (c *Chain) keyOf(id string) (key, about tierlock.Key, err error) {
	if id == "" { // a forgotten one would make one lock of all that forget it
		return key, about, tierlock.Invalid("key", c.prefix, "want an id behind it")
	}
	key, err = tierlock.ParseKey(c.prefix + id)
	if n := c.policy.Shards; err == nil && n > 0 && !isSlot(id, n) {
		about = key
		key, err = tierlock.ParseKey(c.prefix + shardWord + strconv.FormatUint(key.Hash()%uint64(n), 10))
	}
	return key, about, err
}

// isSlot tells whether id names one of n slots, as keyOf writes it.
func isSlot(id string, n int) bool {
	number, ok := strings.CutPrefix(id, shardWord)
	i, err := strconv.Atoi(number)
	return ok && err == nil && i >= 0 && i < n && strconv.Itoa(i) == number
}
