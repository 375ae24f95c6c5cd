package faultproxy_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/internal/demo/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers every line with itself and tells when each arrived, as far as somebody
// listens: it must not wait for a test that is over.
func echo(t *testing.T) (addr string, arrived <-chan time.Time) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := make(chan time.Time, 1024)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				for in := bufio.NewScanner(c); in.Scan(); {
					select {
					case at <- time.Now():
					default:
					}
					if _, err := c.Write(append(in.Bytes(), '\n')); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); work.Wait() })
	return l.Addr().String(), at
}

func proxy(t *testing.T, upstream string) *faultproxy.Proxy {
	t.Helper()
	p, err := faultproxy.Start(upstream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Cut)
	return p
}

type conn struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, addr string) conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn{c, bufio.NewReader(c)}
}

func (c conn) ask() (time.Duration, error) {
	began := time.Now()
	if _, err := c.Write([]byte("x\n")); err != nil {
		return 0, err
	}
	_, err := c.in.ReadString('\n')
	return time.Since(began), err
}

func TestDelayHoldsTheReplyBackAndNotTheRequest(t *testing.T) {
	addr, arrived := echo(t)
	p := proxy(t, addr)
	c := dial(t, p.Addr())
	if _, err := c.ask(); err != nil {
		t.Fatal(err)
	}
	<-arrived
	const delay = 300 * time.Millisecond
	p.Delay(delay)
	began := time.Now()
	took, err := c.ask()
	if err != nil || took < delay {
		t.Fatalf("answered after %v, %v; want at least %v", took, err, delay)
	}
	if came := (<-arrived).Sub(began); came >= delay {
		t.Fatalf("the request itself took %v to arrive", came)
	}
	p.Delay(0)
	if _, err := c.ask(); err != nil {
		t.Fatalf("the connection did not live through the end of the delay: %v", err)
	}
}

func TestRepliesStayInOrderWhileTheDelayShrinks(t *testing.T) {
	addr, _ := echo(t)
	p := proxy(t, addr)
	c := dial(t, p.Addr())
	for i, d := range []time.Duration{200 * time.Millisecond, 50 * time.Millisecond, 0} {
		p.Delay(d)
		if _, err := fmt.Fprintf(c, "%d\n", i); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // each line is a reply of its own
	}
	for i := range 3 {
		if line, err := c.in.ReadString('\n'); err != nil || line != fmt.Sprintf("%d\n", i) {
			t.Fatalf("reply %d: %q, %v", i, line, err)
		}
	}
}

func TestMoreThanMayWaitIsNotLost(t *testing.T) {
	addr, _ := echo(t)
	p := proxy(t, addr)
	c := dial(t, p.Addr())
	p.Delay(30 * time.Millisecond)
	line := strings.Repeat("x", 60<<10) + "\n"
	const lines = 200 // some 12 MiB, three times what waits in the proxy
	var writer sync.WaitGroup
	writer.Go(func() {
		for range lines {
			if _, err := c.Write([]byte(line)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range lines {
		if got, err := c.in.ReadString('\n'); err != nil || got != line {
			t.Fatalf("line %d of %d bytes: %v", i, len(got), err)
		}
	}
	writer.Wait()
}

func TestACutDoesNotWaitForLateReplies(t *testing.T) {
	addr, arrived := echo(t)
	p := proxy(t, addr)
	c := dial(t, p.Addr())
	p.Delay(time.Hour)
	if _, err := c.Write([]byte("x\n")); err != nil {
		t.Fatal(err)
	}
	<-arrived
	p.Cut()
	if _, err := c.in.ReadString('\n'); err == nil {
		t.Fatal("the reply came through the cut")
	}
}

func TestCutRefusesAndRestoreListensAtTheSamePlace(t *testing.T) {
	addr, _ := echo(t)
	p := proxy(t, addr)
	c := dial(t, p.Addr())
	if _, err := c.ask(); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	if _, err := c.ask(); err == nil {
		t.Fatal("an open connection lived through the cut")
	}
	if again, err := net.Dial("tcp", p.Addr()); err == nil {
		_ = again.Close()
		t.Fatal("a new connection was taken after the cut")
	}
	if err := p.Restore(); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t, p.Addr()).ask(); err != nil {
		t.Fatalf("after restore: %v", err)
	}
}

// A proxy library stood here before, and hung now and then when a fault ended under traffic.
func TestFaultsComeAndGoUnderTraffic(t *testing.T) {
	addr, _ := echo(t)
	p := proxy(t, addr)
	stop := make(chan struct{})
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := net.Dial("tcp", p.Addr())
				if err != nil {
					continue
				}
				_ = c.SetDeadline(time.Now().Add(50 * time.Millisecond))
				in := bufio.NewReader(c)
				for err == nil {
					if _, err = c.Write([]byte("x\n")); err == nil {
						_, err = in.ReadString('\n')
					}
				}
				_ = c.Close()
			}
		})
	}
	defer work.Wait()
	defer close(stop)
	for range 10 {
		for _, d := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 0} {
			p.Delay(d)
		}
		p.Cut()
		if err := p.Restore(); err != nil {
			t.Fatal(err)
		}
	}
}
