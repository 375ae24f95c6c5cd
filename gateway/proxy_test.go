package gateway_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fault is what a proxy does to the bytes that pass.
type fault int32

const (
	pass        fault = iota
	loseReplies       // the server does what it is told, and nobody hears of it
	blackHole         // nothing passes, and what stood when it began never will again
	holdBack          // requests wait, and are delivered when it ends
	resetReply        // the first reply of a connection resets it
	delayReply        // by 300 ms
	refuse            // new connections are closed at once, and standing ones cut
)

// proxy stands between gateways and their Redis, and counts the connections it accepts.
type proxy struct {
	listener net.Listener
	server   string
	now      atomic.Int32
	accepted atomic.Int64
	links    sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // guarded by mu; true: swallowed for good
	moved chan struct{}     // closed when now changes; guarded by mu
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, server: server, conns: map[net.Conn]bool{}, moved: make(chan struct{})}
	p.links.Go(p.serve)
	t.Cleanup(func() {
		_ = listener.Close()
		p.become(refuse)
		p.links.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// become changes what happens to all connections, standing and to come.
func (p *proxy) become(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Store(int32(f))
	for conn := range p.conns {
		switch f {
		case blackHole:
			p.conns[conn] = true
		case refuse:
			_ = conn.Close()
		}
	}
	close(p.moved)
	p.moved = make(chan struct{})
}

// begins is become, later.
func (p *proxy) begins(f fault) func() { return func() { p.become(f) } }

func (p *proxy) is(f fault) bool { return fault(p.now.Load()) == f }

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.accepted.Add(1)
		server, err := net.Dial("tcp", p.server)
		if err != nil || p.is(refuse) {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		p.mu.Lock()
		hole := p.is(blackHole)
		p.conns[client], p.conns[server] = hole, hole
		p.mu.Unlock()
		p.links.Go(func() { p.copy(server, client, p.request) })
		p.links.Go(func() { p.copy(client, server, p.reply) })
	}
}

// copy moves bytes until one side ends, as handle allows.
func (p *proxy) copy(to, from net.Conn, handle func(from net.Conn) (deliver bool)) {
	defer func() {
		_ = to.Close()
		p.mu.Lock()
		delete(p.conns, from)
		p.mu.Unlock()
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

func (p *proxy) swallowed(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns[conn]
}

func (p *proxy) request(from net.Conn) bool {
	for {
		p.mu.Lock()
		moved := p.moved
		p.mu.Unlock()
		if !p.is(holdBack) {
			return !p.swallowed(from)
		}
		<-moved
	}
}

func (p *proxy) reply(from net.Conn) bool {
	switch fault(p.now.Load()) {
	case loseReplies:
		return false
	case resetReply:
		_ = from.Close()
		return false
	case delayReply:
		pause(300 * time.Millisecond)
	}
	return !p.swallowed(from)
}
