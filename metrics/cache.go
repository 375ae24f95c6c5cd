package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
)

// cache keeps one V per K and never forgets, so K must be a closed set. A hit is one load
// and one map lookup: no lock, no allocation. A miss copies the map, which happens once
// per label combination in a process's life.
type cache[K comparable, V any] struct {
	now  atomic.Pointer[map[K]V]
	born func(K) V

	mu sync.Mutex // held by the one that adds; born runs under it and must not call back
}

func newCache[K comparable, V any](born func(K) V) *cache[K, V] {
	c := &cache[K, V]{born: born}
	c.now.Store(&map[K]V{})
	return c
}

func (c *cache[K, V]) get(k K) V {
	if v, ok := (*c.now.Load())[k]; ok {
		return v
	}
	return c.add(k)
}

func (c *cache[K, V]) add(k K) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := *c.now.Load()
	if v, ok := old[k]; ok {
		return v
	}
	next := maps.Clone(old)
	next[k] = c.born(k)
	c.now.Store(&next)
	return next[k]
}
