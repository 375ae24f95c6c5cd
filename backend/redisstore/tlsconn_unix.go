//go:build unix

package redisstore

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// tlsConn is a connection over TLS; like its own kind it is used by one goroutine at a
// time. It tells go-redis whether the server has closed it. go-redis asks the socket of a
// plain connection so before each question, and nothing of one over TLS, where what lies in
// the socket may be a record of TLS itself: the first question on each connection that was
// closed while it stood idle would end as broken, and in doubt.
type tlsConn struct {
	*tls.Conn
	socket syscall.RawConn
	over   error // why nothing more is sent
}

func newTLSConn(made *tls.Conn) net.Conn {
	under, ok := made.NetConn().(syscall.Conn)
	if !ok {
		return made
	}
	socket, err := under.SyscallConn()
	if err != nil {
		return stillborn{&dialError{err}}
	}
	return &tlsConn{Conn: made, socket: socket}
}

func (c *tlsConn) Write(p []byte) (int, error) {
	if c.over != nil {
		return 0, &dialError{c.over}
	}
	return c.Conn.Write(p)
}

// SyscallConn is what go-redis looks at.
func (c *tlsConn) SyscallConn() (syscall.RawConn, error) { return idle{c}, nil }

// idle answers in place of a socket: an error says that the connection is of no more use.
type idle struct{ *tlsConn }

func (idle) Control(func(uintptr)) error    { return errors.ErrUnsupported }
func (idle) Write(func(uintptr) bool) error { return errors.ErrUnsupported }

// Read never calls look, which would take a record of TLS for an answer. It looks itself,
// and takes in what has come.
func (i idle) Read(func(uintptr) bool) error {
	i.over = i.look()
	return i.over
}

func (i idle) look() error {
	var first [1]byte
	var n int
	var got error
	if err := i.socket.Read(func(fd uintptr) bool {
		n, _, got = syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	}); err != nil {
		return err
	}
	switch {
	case errors.Is(got, syscall.EAGAIN):
		return nil
	case got != nil:
		return got
	case n == 0:
		return io.EOF
	}
	return i.takeIn()
}

// recordIn is how long is waited for the rest of a record that has begun to come.
const recordIn = time.Millisecond

var errUnasked = errors.New("the server answered what nobody had asked")

// takeIn reads what has come: a ticket for the next handshake, a farewell, or what no idle
// connection should get.
func (i idle) takeIn() error {
	if err := i.SetReadDeadline(time.Now().Add(recordIn)); err != nil {
		return err
	}
	var room [1]byte
	n, err := i.Conn.Read(room[:])
	if n > 0 {
		return errUnasked
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil // nothing but records of TLS itself
	}
	return errors.Join(err, i.SetReadDeadline(time.Time{}))
}
