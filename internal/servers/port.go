package servers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports are taken from below Linux's range for outgoing connections (32768 and up), so
// that no client's connection can sit on a port between a server's end and its restart.
const firstPort, lastPort = 15000, 31000

// freePorts returns a port p such that p and p + each offset are free, reserved against
// other test processes of this project until release is called.
func freePorts(tb testing.TB, offsets ...int) (port int, release func()) {
	tb.Helper()
next:
	for range 1000 {
		port = firstPort + rand.IntN(lastPort-firstPort)
		var held []func()
		release = func() {
			for _, f := range held {
				f()
			}
		}
		for _, offset := range append([]int{0}, offsets...) {
			free, ok := reserve(port + offset)
			if !ok {
				release()
				continue next
			}
			held = append(held, free)
		}
		return port, release
	}
	tb.Fatalf("no free port between %d and %d", firstPort, lastPort)
	return 0, nil
}

// reserve takes one port if no other test process has and nobody listens on it.
func reserve(port int) (release func(), ok bool) {
	release, ok = claim(fmt.Sprintf("tierlock-port-%d", port))
	if !ok {
		return nil, false
	}
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		release()
		return nil, false
	}
	_ = l.Close()
	return release, true
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
