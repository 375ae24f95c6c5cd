// Package way BREAKS the way to a server on purpose: a TCP proxy inside the process that
// loses, holds, delays and cuts what passes, and that can lead to another server from one
// moment to the next, as an address does that follows a failover. The demo and the tests
// use it.
package way

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialTimeout bounds how long a client waits for the server behind the way.
const dialTimeout = 5 * time.Second

// Fault is what happens to the bytes that pass.
type Fault int32

// The faults.
const (
	None        Fault = iota
	LoseReplies       // the server does what it is told, and nobody hears of it
	BlackHole         // nothing passes, and what stood when it began never will again
	HoldBack          // requests wait, and are delivered when it ends
	HoldReplies       // the server does what it is told, and its replies wait until it ends
	ResetReply        // the first reply of a connection cuts it
	Refuse            // new connections are closed at once, and standing ones cut
	Silent            // new connections are accepted and lead nowhere; standing ones work
)

// Way stands between clients and one server. All methods may be called from any goroutine,
// but for Cut, Restore and Close: those from one at a time.
type Way struct {
	addr     string
	now      atomic.Int32
	delay    atomic.Int64 // how late replies are, in ns
	accepted atomic.Int64

	mu     sync.Mutex
	server string         // guarded by mu
	links  map[*link]bool // guarded by mu
	moved  chan struct{}  // closed when the fault changes; guarded by mu
	up     *listening     // nil while cut; guarded by mu
}

// listening is the way from one start to the next cut.
type listening struct {
	listener net.Listener
	ctx      context.Context //nolint:containedctx // of the dials under way; it ends with the cut
	cut      context.CancelFunc
	work     sync.WaitGroup // the accept loop and every connection
}

// To opens a way to the server at addr, on a free loopback port.
func To(addr string) (*Way, error) {
	w := &Way{addr: "127.0.0.1:0", server: addr, links: map[*link]bool{}, moved: make(chan struct{})}
	if err := w.listen(); err != nil {
		return nil, fmt.Errorf("way: %w", err)
	}
	w.addr = w.up.listener.Addr().String()
	return w, nil
}

// Addr is what clients connect to; it stays the same over Cut and Restore.
func (w *Way) Addr() string { return w.addr }

// Accepted counts the connections so far.
func (w *Way) Accepted() int64 { return w.accepted.Load() }

// Lead makes the way lead to another server: standing connections are cut.
func (w *Way) Lead(addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server = addr
	w.cutLocked()
}

// Become changes what happens to all connections, standing and to come. None ends a delay
// as well.
func (w *Way) Become(f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now.Store(int32(f))
	switch f {
	case None:
		w.delay.Store(0)
	case BlackHole:
		for l := range w.links {
			l.swallowed.Store(true)
		}
	case Refuse:
		w.cutLocked()
	}
	close(w.moved)
	w.moved = make(chan struct{})
}

// Begins is Become, later.
func (w *Way) Begins(f Fault) func() { return func() { w.Become(f) } }

// Delay makes every reply that arrives from now on come d later; requests still arrive at
// once, so that the server does what its client no longer waits for. Zero ends it.
func (w *Way) Delay(d time.Duration) { w.delay.Store(int64(d)) }

// Cut closes every connection, refuses new ones and waits until all of them have ended.
func (w *Way) Cut() {
	w.mu.Lock()
	up := w.up
	w.up = nil
	w.cutLocked()
	w.mu.Unlock()
	if up == nil {
		return
	}
	up.cut()
	_ = up.listener.Close()
	up.work.Wait()
}

// Restore listens again where it did before.
func (w *Way) Restore() error {
	w.mu.Lock()
	up := w.up
	w.mu.Unlock()
	if up != nil {
		return nil
	}
	if err := w.listen(); err != nil {
		return fmt.Errorf("restore the way: %w", err)
	}
	return nil
}

// Close ends the way and everything on it.
func (w *Way) Close() { w.Cut() }

func (w *Way) cutLocked() {
	for l := range w.links {
		l.hangUp()
	}
}

func (w *Way) listen() error {
	l, err := net.Listen("tcp", w.addr) //nolint:noctx // loopback: there is nothing to wait for
	if err != nil {
		return err
	}
	ctx, cut := context.WithCancel(context.Background())
	up := &listening{listener: l, ctx: ctx, cut: cut}
	w.mu.Lock()
	w.up = up
	w.mu.Unlock()
	up.work.Go(func() { w.accept(up) })
	return nil
}

func (w *Way) accept(up *listening) {
	for {
		client, err := up.listener.Accept()
		if err != nil {
			return
		}
		w.accepted.Add(1)
		up.work.Go(func() { w.join(up, client) })
	}
}

// join ties one client to the server until either side or a cut ends it.
func (w *Way) join(up *listening, client net.Conn) {
	defer client.Close()
	w.mu.Lock()
	addr := w.server
	w.mu.Unlock()
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(up.ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	l := &link{way: w, client: client, server: server, ended: make(chan struct{})}
	w.mu.Lock()
	refused := w.is(Refuse) || w.up != up || w.server != addr
	if !refused {
		l.swallowed.Store(w.is(BlackHole) || w.is(Silent))
		w.links[l] = true
	}
	w.mu.Unlock()
	if refused {
		return
	}
	l.run()
	w.mu.Lock()
	delete(w.links, l)
	w.mu.Unlock()
}

func (w *Way) is(f Fault) bool { return Fault(w.now.Load()) == f }

// holds returns what to wait for before something passes that f holds back; nil: nothing.
func (w *Way) holds(f Fault) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.is(f) {
		return w.moved
	}
	return nil
}
