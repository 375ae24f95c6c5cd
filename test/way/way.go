// Package way BREAKS the way to a server: a TCP proxy inside the test's process that loses,
// holds, delays and cuts what passes, and that can lead to another server from one moment
// to the next, as an address does that follows a failover.
package way

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Fault is what happens to the bytes that pass.
type Fault int32

// The faults.
const (
	None        Fault = iota
	LoseReplies       // the server does what it is told, and nobody hears of it
	BlackHole         // nothing passes, and what stood when it began never will again
	HoldBack          // requests wait, and are delivered when it ends
	ResetReply        // the first reply of a connection resets it
	DelayReply        // by Delay
	Refuse            // new connections are closed at once, and standing ones cut
	Silent            // new connections are accepted and lead nowhere; standing ones work
)

// Way stands between clients and one server.
type Way struct {
	Delay time.Duration // of DelayReply; set before Become

	listener net.Listener
	now      atomic.Int32
	accepted atomic.Int64
	all      sync.WaitGroup

	mu     sync.Mutex
	server string            // guarded by mu
	conns  map[net.Conn]bool // guarded by mu; true: swallowed for good
	moved  chan struct{}     // closed when the fault changes; guarded by mu
}

// To opens a way to the server at addr.
func To(addr string) (*Way, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it lives until Close
	if err != nil {
		return nil, fmt.Errorf("way: %w", err)
	}
	w := &Way{Delay: 300 * time.Millisecond, listener: listener, server: addr, conns: map[net.Conn]bool{}, moved: make(chan struct{})}
	w.all.Go(w.serve)
	return w, nil
}

// Addr is what clients connect to.
func (w *Way) Addr() string { return w.listener.Addr().String() }

// Accepted counts the connections so far.
func (w *Way) Accepted() int64 { return w.accepted.Load() }

// Lead makes the way lead to another server: standing connections are cut.
func (w *Way) Lead(addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server = addr
	for conn := range w.conns {
		_ = conn.Close()
	}
}

// Become changes what happens to all connections, standing and to come.
func (w *Way) Become(f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now.Store(int32(f))
	for conn := range w.conns {
		switch f {
		case BlackHole:
			w.conns[conn] = true
		case Refuse:
			_ = conn.Close()
		}
	}
	close(w.moved)
	w.moved = make(chan struct{})
}

// Begins is Become, later.
func (w *Way) Begins(f Fault) func() { return func() { w.Become(f) } }

// Close ends the way and everything on it.
func (w *Way) Close() {
	_ = w.listener.Close()
	w.Become(Refuse)
	w.all.Wait()
}

func (w *Way) is(f Fault) bool { return Fault(w.now.Load()) == f }

func (w *Way) serve() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.accepted.Add(1)
		w.mu.Lock()
		addr := w.server
		w.mu.Unlock()
		server, err := net.Dial("tcp", addr) //nolint:noctx // loopback: answered at once
		if err != nil || w.is(Refuse) {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		w.mu.Lock()
		hole := w.is(BlackHole) || w.is(Silent)
		w.conns[client], w.conns[server] = hole, hole
		w.mu.Unlock()
		w.all.Go(func() { w.copy(server, client, w.request) })
		w.all.Go(func() { w.copy(client, server, w.reply) })
	}
}

// copy moves bytes until one side ends, as handle allows.
func (w *Way) copy(to, from net.Conn, handle func(from net.Conn) (deliver bool)) {
	defer func() {
		_ = to.Close()
		w.mu.Lock()
		delete(w.conns, from)
		w.mu.Unlock()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && handle(from) {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (w *Way) swallowed(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conns[conn]
}

func (w *Way) request(from net.Conn) bool {
	for {
		w.mu.Lock()
		moved := w.moved
		w.mu.Unlock()
		if !w.is(HoldBack) {
			return !w.swallowed(from)
		}
		<-moved
	}
}

func (w *Way) reply(from net.Conn) bool {
	switch Fault(w.now.Load()) {
	case LoseReplies:
		return false
	case ResetReply:
		_ = from.Close()
		return false
	case DelayReply:
		<-time.After(w.Delay)
	}
	return !w.swallowed(from)
}
