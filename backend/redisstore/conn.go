package redisstore

import (
	"bytes"
	"errors"
	"net"
	"syscall"
)

// farewells are how a server greets a client that it closes at once.
var farewells = []struct {
	begin []byte
	means error
}{
	{[]byte("-ERR max number of clients reached"), errNoRoom},
	{[]byte("-DENIED "), errProtected},
}

var (
	errNoRoom    = errors.New("the server has as many clients as it may have")
	errProtected = errors.New("the server is in protected mode: it has no password and serves its own machine only")
)

// conn is a connection without TLS; like its own kind it is used by one goroutine at a
// time.
//
// It hears whether the server bids farewell to it, because go-redis does not:
//  1. the server accepts, says so and closes;
//  2. go-redis sends HELLO, reads the farewell for the answer and takes the server for an old one;
//  3. it sends the next command, which fails as a broken connection, in doubt.
//
// So conn looks at the first words and fails what would be sent after them.
type conn struct {
	*net.TCPConn
	raw      syscall.RawConn // go-redis asks for it at each question
	heard    bool            // the first words
	farewell error           // what they meant, if they were one
}

func newConn(tcp *net.TCPConn) net.Conn {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return stillborn{&dialError{err}}
	}
	return &conn{TCPConn: tcp, raw: raw}
}

func (c *conn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n > 0 && !c.heard {
		c.heard = true
		for _, f := range farewells {
			if bytes.HasPrefix(p[:n], f.begin) {
				c.farewell = f.means
			}
		}
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	if c.farewell != nil {
		return 0, &dialError{c.farewell}
	}
	return c.TCPConn.Write(p)
}
