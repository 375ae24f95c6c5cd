package redisstore

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialer makes the connections of all pools and never fails: what it could not connect is
// a connection whose first write tells why. go-redis would count failed dials and, after
// as many as the pool has places, answer from memory for up to a second without trying;
// and it would print each of them to standard error.
type dialer struct {
	net     contextDialer
	pending atomic.Int64    // being made
	ending  context.Context // ends when the Store is closed
	end     context.CancelFunc
	mu      sync.Mutex // guards closed, and making.Add against making.Wait
	closed  bool
	making  sync.WaitGroup
}

// contextDialer is a [net.Dialer] or a [tls.Dialer].
type contextDialer interface {
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
}

func (d *dialer) open(cfg Config) {
	plain := &net.Dialer{Timeout: cfg.Dial, KeepAlive: time.Minute}
	d.net = plain
	if cfg.TLS != nil {
		d.net = &tls.Dialer{NetDialer: plain, Config: cfg.TLS}
	}
	d.ending, d.end = context.WithCancel(context.Background())
}

// close ends the connections being made and waits for them.
func (d *dialer) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.end()
	d.making.Wait()
}

// begin counts one more connection being made, unless the dialer is closed.
func (d *dialer) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.making.Add(1)
	d.pending.Add(1)
	return true
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !d.begin() {
		return stillborn{&dialError{net.ErrClosed}}, nil
	}
	defer func() {
		d.pending.Add(-1)
		d.making.Done()
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(d.ending, cancel)
	defer stop()
	made, err := d.net.DialContext(ctx, network, addr)
	if err != nil {
		return stillborn{&dialError{err}}, nil
	}
	switch made := made.(type) {
	case *net.TCPConn:
		return newConn(made), nil
	case *tls.Conn:
		return newTLSConn(made), nil
	}
	return made, nil
}

// dialError says that a connection could not be made: nothing was sent. It does not
// unwrap, since go-redis strips one layer of what unwraps.
type dialError struct{ cause error }

func (e *dialError) Error() string { return e.cause.Error() }

// stillborn is a connection that could not be made.
type stillborn struct{ err error }

func (c stillborn) Read([]byte) (int, error)       { return 0, c.err }
func (c stillborn) Write([]byte) (int, error)      { return 0, c.err }
func (stillborn) Close() error                     { return nil }
func (stillborn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (stillborn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (stillborn) SetDeadline(time.Time) error      { return nil }
func (stillborn) SetReadDeadline(time.Time) error  { return nil }
func (stillborn) SetWriteDeadline(time.Time) error { return nil }
