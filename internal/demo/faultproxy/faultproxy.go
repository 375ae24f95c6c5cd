// Package faultproxy BREAKS the way to a server on purpose: a TCP proxy inside the process
// whose replies can be made late and whose connections can be cut.
package faultproxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialTimeout bounds how long a client waits for the server behind the proxy.
const dialTimeout = 5 * time.Second

// Proxy stands between clients and one server. Addr and Delay may be called from any
// goroutine, Cut and Restore from one at a time.
type Proxy struct {
	upstream, addr string
	delay          atomic.Int64 // how late replies are, in ns
	up             *listening   // nil while cut
}

// listening is the proxy from one start to the next cut.
type listening struct {
	listener net.Listener
	cut      context.CancelFunc
	work     sync.WaitGroup // the accept loop and every connection
}

// Start listens on a free loopback port and passes everything on to upstream.
func Start(upstream string) (*Proxy, error) {
	p := &Proxy{upstream: upstream, addr: "127.0.0.1:0"}
	if err := p.listen(); err != nil {
		return nil, fmt.Errorf("start the fault proxy: %w", err)
	}
	p.addr = p.up.listener.Addr().String()
	return p, nil
}

// Addr is what clients connect to; it stays the same over Cut and Restore.
func (p *Proxy) Addr() string { return p.addr }

// Delay makes every reply that arrives from now on come d later; requests still arrive at
// once, so that the server does what its client no longer waits for. Zero ends it.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Cut closes every connection, refuses new ones and waits until all of them have ended.
func (p *Proxy) Cut() {
	if p.up == nil {
		return
	}
	p.up.cut()
	_ = p.up.listener.Close()
	p.up.work.Wait()
	p.up = nil
}

// Restore listens again where it did before.
func (p *Proxy) Restore() error {
	if p.up != nil {
		return nil
	}
	if err := p.listen(); err != nil {
		return fmt.Errorf("restore the connection: %w", err)
	}
	return nil
}

func (p *Proxy) listen() error {
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	ctx, cut := context.WithCancel(context.Background())
	up := &listening{listener: l, cut: cut}
	up.work.Go(func() { p.accept(ctx, up) })
	p.up = up
	return nil
}

func (p *Proxy) accept(ctx context.Context, up *listening) {
	for {
		client, err := up.listener.Accept()
		if err != nil {
			return
		}
		up.work.Go(func() { p.join(ctx, client) })
	}
}

// join ties one client to the server until either side or the cut ends it.
func (p *Proxy) join(ctx context.Context, client net.Conn) {
	defer client.Close()
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(ctx, "tcp", p.upstream)
	if err != nil {
		return
	}
	defer server.Close()
	l := link{client: client, server: server, delay: &p.delay}
	ctx, end := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, l.hangUp)()
	var both sync.WaitGroup
	both.Go(func() { defer end(); l.requests() })
	both.Go(func() { defer end(); l.replies(ctx) })
	both.Wait()
}
