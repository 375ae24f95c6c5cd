package redisstore_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between a Store and its server. While lose is on, replies go nowhere; while
// hold has a channel, requests wait until it is closed and are then delivered, even if the
// client has gone. Replies take delay longer.
type proxy struct {
	listener net.Listener
	server   string
	lose     atomic.Bool
	hold     atomic.Pointer[chan struct{}]
	held     atomic.Int64 // requests that wait
	delay    atomic.Int64 // nanoseconds
	mute     atomic.Bool  // links to come are taken and get no answer
	links    sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, server: server}
	p.links.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.mute.Load() {
			p.mu.Lock()
			p.conns = append(p.conns, client)
			p.mu.Unlock()
			continue
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.links.Go(func() { p.copy(server, client, p.wait) })
		p.links.Go(func() { p.copy(client, server, nil) })
	}
}

// copy moves bytes until from ends. Requests pass through wait; replies may be lost.
func (p *proxy) copy(to, from net.Conn, wait func()) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if wait != nil {
				wait()
			} else if p.lose.Load() {
				n = 0
			} else if delay := p.delay.Load(); delay > 0 {
				<-time.After(time.Duration(delay))
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_ = from.Close()
			}
			return
		}
	}
}

func (p *proxy) wait() {
	if gate := p.hold.Load(); gate != nil {
		p.held.Add(1)
		<-*gate
		p.held.Add(-1)
	}
}

// holdRequests makes requests wait until the returned function is called.
func (p *proxy) holdRequests() (deliver func()) {
	gate := make(chan struct{})
	p.hold.Store(&gate)
	return sync.OnceFunc(func() {
		p.hold.Store(nil)
		close(gate)
	})
}

// cut ends all links, as a reset by the network does.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.conns = nil
}

func (p *proxy) close() {
	_ = p.listener.Close()
	if gate := p.hold.Swap(nil); gate != nil {
		close(*gate)
	}
	p.cut()
	p.links.Wait()
}
