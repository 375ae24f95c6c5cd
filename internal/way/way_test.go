package way_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/internal/way"
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

func proxy(t *testing.T, upstream string) *way.Way {
	t.Helper()
	p, err := way.To(upstream)
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

// patience is how long a client waits for an answer that is not to come.
const patience = 300 * time.Millisecond

// askFor asks on a new connection, with little patience.
func askFor(t *testing.T, addr string) error {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, err = conn{c, bufio.NewReader(c)}.ask()
	return err
}

// Each fault does its harm while it lasts, to a standing connection, to a new one and to what
// the server hears, and is over with None.
func TestFaultsDoWhatTheySay(t *testing.T) {
	for name, c := range map[string]struct {
		fault             way.Fault
		standing, next    bool // are answered
		heard             int  // requests of the two that the server hears while it lasts
		standingAfterward bool // the standing connection is answered once it is over
	}{
		"none":       {way.None, true, true, 2, true},
		"lost":       {way.LoseReplies, false, false, 2, true},
		"black hole": {way.BlackHole, false, false, 0, false},
		"held back":  {way.HoldBack, false, false, 0, true},
		"kept":       {way.HoldReplies, false, false, 2, true},
		"reset":      {way.ResetReply, false, false, 2, false},
		"refused":    {way.Refuse, false, false, 0, false},
		"silent":     {way.Silent, true, false, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			addr, arrived := echo(t)
			p := proxy(t, addr)
			standing := dial(t, p.Addr())
			if _, err := standing.ask(); err != nil {
				t.Fatal(err)
			}
			<-arrived
			p.Become(c.fault)
			_ = standing.SetDeadline(time.Now().Add(patience))
			if _, err := standing.ask(); (err == nil) != c.standing {
				t.Errorf("a standing connection: %v", err)
			}
			if err := askFor(t, p.Addr()); (err == nil) != c.next {
				t.Errorf("a new connection: %v", err)
			}
			if n := len(arrived); n != c.heard {
				t.Errorf("the server heard %d requests", n)
			}
			p.Become(way.None)
			wait := patience
			if c.standingAfterward {
				wait = 20 * time.Second
			}
			_ = standing.SetDeadline(time.Now().Add(wait))
			if _, err := standing.ask(); (err == nil) != c.standingAfterward {
				t.Errorf("the standing connection afterwards: %v", err)
			}
			if _, err := dial(t, p.Addr()).ask(); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			if p.Accepted() != 3 {
				t.Errorf("%d accepted", p.Accepted())
			}
		})
	}
}

func TestLeadIsAFailover(t *testing.T) {
	first, heardFirst := echo(t)
	second, heardSecond := echo(t)
	p := proxy(t, first)
	c := dial(t, p.Addr())
	if _, err := c.ask(); err != nil {
		t.Fatal(err)
	}
	p.Lead(second)
	if _, err := c.ask(); err == nil {
		t.Error("the connection to the first server lives on")
	}
	if _, err := dial(t, p.Addr()).ask(); err != nil {
		t.Error(err)
	}
	if len(heardFirst) != 1 || len(heardSecond) != 1 {
		t.Errorf("%d and %d requests", len(heardFirst), len(heardSecond))
	}
}
