package redisstore

import (
	"bytes"
	"errors"
	"net"
	"syscall"
)

// noRoom is how a server with maxclients connections greets one more, before it closes it.
var noRoom = []byte("-ERR max number of clients reached")

var errNoRoom = errors.New("the server has as many clients as it may have")

// conn is a connection without TLS; like its own kind it is used by one goroutine at a
// time.
//
// It hears whether the server has room for it, because go-redis does not:
//  1. the server accepts, says noRoom and closes;
//  2. go-redis sends HELLO, reads noRoom for the answer and takes the server for an old one;
//  3. it sends the next command, which fails as a broken connection, in doubt.
//
// So conn looks at the first words and fails what would be sent after them.
type conn struct {
	*net.TCPConn
	raw    syscall.RawConn // go-redis asks for it at each question
	heard  bool            // the first words
	noRoom bool            // they were
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
		c.heard, c.noRoom = true, bytes.HasPrefix(p[:n], noRoom)
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	if c.noRoom {
		return 0, &dialError{errNoRoom}
	}
	return c.TCPConn.Write(p)
}
