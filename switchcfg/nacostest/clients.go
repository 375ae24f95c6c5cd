package nacostest

import (
	"context"
	"sync"

	"google.golang.org/grpc/stats"
)

// clients are the connections. A connection exists for grpc first, and is registered, so
// that it may ask and be told, once its stream has set it up.
type clients struct {
	mu   sync.Mutex
	next uint64             // guarded by mu
	all  map[uint64]*client // by number, registered ones; guarded by mu
}

// client is one registered connection.
type client struct {
	out chan id // changes to tell; a full one is a push lost, as on the real wire

	mu      sync.Mutex
	listens map[id]bool // guarded by mu
}

// connKey is under which grpc's contexts hold the number of their connection.
type connKey struct{}

func connOf(ctx context.Context) uint64 {
	number, _ := ctx.Value(connKey{}).(uint64)
	return number
}

// TagConn implements stats.Handler: it numbers connections.
func (c *clients) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	return context.WithValue(ctx, connKey{}, c.next)
}

// HandleConn implements stats.Handler.
func (c *clients) HandleConn(context.Context, stats.ConnStats) {}

// TagRPC implements stats.Handler.
func (c *clients) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (c *clients) HandleRPC(context.Context, stats.RPCStats) {}

// pending is how many changes may wait to be told to one connection.
const pending = 64

// register takes a connection in.
func (c *clients) register(number uint64) *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := &client{out: make(chan id, pending), listens: map[id]bool{}}
	c.all[number] = one
	return one
}

func (c *clients) leave(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, number)
}

func (c *clients) of(ctx context.Context) *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[connOf(ctx)]
}

// listen notes that a connection wants to be told of changes, or does not any more.
func (c *client) listen(at id, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if on {
		c.listens[at] = true
	} else {
		delete(c.listens, at)
	}
}

func (c *client) wants(at id) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listens[at]
}

// notify tells every connection that listens to at.
func (c *clients) notify(at id) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.all {
		if one.wants(at) {
			select {
			case one.out <- at:
			default:
			}
		}
	}
}

// Listening is how many connections listen to a configuration of the public namespace.
func (s *Server) Listening(dataID, group string) (n int) {
	s.clients.mu.Lock()
	defer s.clients.mu.Unlock()
	for _, one := range s.clients.all {
		if one.wants(id{"", group, dataID}) {
			n++
		}
	}
	return n
}
