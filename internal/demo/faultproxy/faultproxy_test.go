package faultproxy_test

import (
	"bufio"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/internal/demo/faultproxy"
)

// When a client hangs up while replies are still on their way, the proxy library stops
// reading what it cannot write any more, and the goroutines that hand it on wait for ever.
// They are inside the library and nothing outside can end them.
func TestMain(m *testing.M) {
	const library = "github.com/Shopify/toxiproxy/v2"
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction(library+".(*ToxicLink).read"),
		goleak.IgnoreAnyFunction(library+"/toxics.(*NoopToxic).Pipe"),
		goleak.IgnoreAnyFunction(library+"/toxics.(*LatencyToxic).Pipe"))
}

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
	if err := p.Delay(t.Context(), delay); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	took, err := c.ask()
	if err != nil || took < delay {
		t.Fatalf("answered after %v, %v; want at least %v", took, err, delay)
	}
	if came := (<-arrived).Sub(began); came >= delay {
		t.Fatalf("the request itself took %v to arrive", came)
	}
	if err := p.Delay(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ask(); err != nil {
		t.Fatalf("the connection did not live through the end of the delay: %v", err)
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

// The proxy library has been seen to hang when a fault ends under traffic.
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
			if err := p.Delay(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		p.Cut()
		if err := p.Restore(); err != nil {
			t.Fatal(err)
		}
	}
}
