//go:build !nodemo

package demo

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
)

// oracle is the demo's own record of who was really inside which lock, and when. It sees
// what callers see, runs on the monotonic clock of this one process, and shares nothing
// with the audit path it is there to check.
type oracle struct {
	start time.Time
	mu    sync.Mutex
	holds []*hold
}

// hold is one lock that was in hand. Its inner span lies within the truth, its outer span
// around it: two holds whose inner spans overlap did overlap, two whose outer spans do not
// did not.
type hold struct {
	key   tierlock.Key
	id    tierlock.RequestID
	chain string
	outer span         // before the call … after Unlock
	from  int64        // of the inner span: after the grant was in hand
	to    atomic.Int64 // before Unlock, or when the lock's context ended; 0: not yet
}

// span is a time between two points, in nanoseconds since the oracle's start.
type span struct{ from, to int64 }

func (h *hold) inner() span { return span{h.from, h.to.Load()} }

func newOracle(start time.Time) *oracle { return &oracle{start: start} }

func (o *oracle) now() int64 { return int64(time.Since(o.start)) }

type callKey struct{}

// call is one request to a service, from before it to after it.
type call struct {
	oracle *oracle
	from   int64
	mu     sync.Mutex
	holds  []*hold
}

// begin marks the start of a request; its locks are noted under the returned context.
func (o *oracle) begin(ctx context.Context) (context.Context, *call) {
	c := &call{oracle: o, from: o.now()}
	return context.WithValue(ctx, callKey{}, c), c
}

// end marks the end of the request: all its locks have been given back.
func (c *call) end() {
	to := c.oracle.now()
	c.mu.Lock()
	holds := c.holds
	c.mu.Unlock()
	c.oracle.mu.Lock()
	defer c.oracle.mu.Unlock()
	for _, h := range holds {
		h.outer = span{c.from, to}
		c.oracle.holds = append(c.oracle.holds, h)
	}
}

// locked tells whether the request was served under a lock.
func (c *call) locked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.holds) > 0
}

// watch notes that the caller is inside until the returned function is called, or until
// ctx, the lock's own context, ends: from then on it is not the lock's business any more.
func (o *oracle) watch(ctx context.Context, g tierlock.Grant) (leave func()) {
	h := &hold{key: g.Key, id: g.RequestID, chain: g.Chain, from: o.now()}
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.mu.Lock()
		c.holds = append(c.holds, h)
		c.mu.Unlock()
	}
	over := func() { h.to.CompareAndSwap(0, max(o.now(), 1)) }
	stop := context.AfterFunc(ctx, over)
	return func() {
		stop()
		over()
	}
}

// all returns the holds of all requests that are over.
func (o *oracle) all() []*hold {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]*hold(nil), o.holds...)
}
