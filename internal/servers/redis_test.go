package servers_test

import (
	"net"
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
)

func TestRedisAnswersDiesFreezesAndComesBack(t *testing.T) {
	r := servers.Redis(t)
	if got := ping(t, r.Addr(), 5*time.Second); got != "+PONG\r\n" {
		t.Fatalf("ping: %q", got)
	}
	r.Freeze()
	if got := ping(t, r.Addr(), 100*time.Millisecond); got != "" {
		t.Fatalf("a frozen server answered %q", got)
	}
	r.Thaw()
	if got := ping(t, r.Addr(), 5*time.Second); got != "+PONG\r\n" {
		t.Fatalf("ping after thaw: %q", got)
	}
	was := r.PID()
	r.Kill()
	if conn, err := net.Dial("tcp", r.Addr()); err == nil {
		conn.Close()
		t.Fatal("a killed server took a connection")
	}
	r.Restart()
	if r.PID() == was {
		t.Fatalf("pid %d after restart too", was)
	}
	if got := ping(t, r.Addr(), 5*time.Second); got != "+PONG\r\n" {
		t.Fatalf("ping after restart: %q", got)
	}
	r.Freeze() // and the end of the test ends a frozen one
}

// ping returns what the server says within d, "" for nothing.
func ping(t *testing.T, addr string, d time.Duration) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(d))
	_, _ = conn.Write([]byte("PING\r\n"))
	b := make([]byte, 64)
	n, _ := conn.Read(b)
	return string(b[:n])
}
