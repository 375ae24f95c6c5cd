package faults

import (
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/tierlock/tierlock/internal/way"
)

// narrow makes the kernel hold as little as it can for the sockets on the way, at both of
// its ends in this process: those that listen, whose connections to come take after them,
// and those that are connected. A request of some KiB then waits in its write until the
// other side reads.
func narrow(t *testing.T, w *way.Way) {
	t.Helper()
	const least = 1 // the kernel's own least, about 2 KiB to receive and 4 to send
	_, port, err := net.SplitHostPort(w.Addr())
	if err != nil {
		t.Fatal(err)
	}
	want, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range fds {
		fd, err := strconv.Atoi(f.Name())
		if err != nil {
			continue
		}
		own, _ := syscall.Getsockname(fd) // of what is no socket, or closed by now, nothing
		peer, _ := syscall.Getpeername(fd)
		if portOf(own) != want && portOf(peer) != want {
			continue
		}
		for _, option := range []int{syscall.SO_SNDBUF, syscall.SO_RCVBUF} {
			if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, option, least); err != nil {
				t.Fatal(err)
			}
		}
		found++
	}
	if found == 0 {
		t.Fatalf("no socket on port %d", want)
	}
}

func portOf(a syscall.Sockaddr) int {
	if a, ok := a.(*syscall.SockaddrInet4); ok {
		return a.Port
	}
	return 0
}
