package memredis_test

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/internal/demo/memredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A lock's whole safety hangs on this: a key must not expire before its ttl, but for the
// one step that the margin of every grant covers, and it must expire.
func TestKeysExpireOnTheirOwnAndNotEarly(t *testing.T) {
	s, err := memredis.Start(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := dial(t, s.Addr())

	const ttl = 300 * time.Millisecond
	set := time.Now()
	if got := c.do("SET", "k", "v", "NX", "PX", "300"); got != "+OK" {
		t.Fatalf("SET answered %q", got)
	}
	deadline := set.Add(10 * time.Second)
	for c.do("SET", "k", "w", "NX", "PX", "300") != "+OK" {
		if time.Now().After(deadline) {
			t.Fatal("the key never expired")
		}
	}
	if lived := time.Since(set); lived < ttl-20*time.Millisecond {
		t.Fatalf("the key lived %v of its %v", lived, ttl)
	}
}

type client struct {
	net.Conn
	in *bufio.Reader
	t  *testing.T
}

func dial(t *testing.T, addr string) client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return client{c, bufio.NewReader(c), t}
}

func (c client) do(args ...string) string {
	c.t.Helper()
	fmt.Fprintf(c, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(c, "$%d\r\n%s\r\n", len(a), a)
	}
	line, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}
