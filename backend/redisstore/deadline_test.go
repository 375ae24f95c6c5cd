package redisstore_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
)

// Wherever the time goes, every question is back by its deadline.
func TestAnswersByTheDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		addr   func(*testing.T) string
		reason tierlock.Reason
	}{
		"nobody answers the dial":      {blackHole, tierlock.ReasonAttempt},
		"the server accepts, and that": {silent, tierlock.ReasonAttempt},
		"the port is closed":           {closedPort, tierlock.ReasonDown},
	} {
		t.Run(name, func(t *testing.T) {
			store := open(t, redisstore.Config{Addrs: []string{c.addr(t)}, PoolSize: 4})
			for op, ask := range map[string]func(context.Context) error{
				"acquire": func(ctx context.Context) error {
					_, err := store.Acquire(ctx, tierlock.Request{Hold: newHold(t, minute)})
					return err
				},
				"release": func(ctx context.Context) error { _, err := store.Release(ctx, newHold(t, minute)); return err },
				"lookup":  func(ctx context.Context) error { _, err := store.Lookup(ctx, newHold(t, minute)); return err },
				"renew": func(ctx context.Context) error {
					_, err := store.Renew(ctx, []tierlock.Hold{newHold(t, minute)})
					return err
				},
				"probe": func(ctx context.Context) error { return store.Probe(ctx, "") },
			} {
				var late []time.Duration
				for _, ms := range []int{10, 40, 110, 180, 220} { // below, about and above a dial
					ctx, deadline := within(t, time.Duration(ms)*time.Millisecond)
					err := ask(ctx)
					late = append(late, time.Since(deadline))
					var fault *tierlock.Fault
					if !errors.As(err, &fault) || fault.Reason != c.reason && fault.Reason != tierlock.ReasonSaturated {
						t.Errorf("%s: %v, want reason %s", op, err, c.reason)
					}
				}
				slices.Sort(late)
				if late[len(late)/2] > grace {
					t.Errorf("%s: returned after its deadline by %v", op, late)
				}
			}
		})
	}
}

func TestFullPoolAnswersSaturatedByTheDeadline(t *testing.T) {
	addr, accepted := silentServer(t)
	store := open(t, redisstore.Config{Addrs: []string{addr}, PoolSize: 1})
	busy := make(chan error)
	go func() {
		ctx, _ := within(t, time.Second)
		_, err := store.Acquire(ctx, tierlock.Request{Hold: newHold(t, minute)})
		busy <- err
	}()
	eventually(t, "the only place is taken", func() bool { return accepted.Load() == 1 })
	for budget, want := range map[time.Duration]tierlock.Reason{attempt: tierlock.ReasonSaturated, attempt / 4: tierlock.ReasonAttempt} {
		var late []time.Duration
		for range 3 {
			ctx, deadline := within(t, budget)
			_, err := store.Acquire(ctx, tierlock.Request{Hold: newHold(t, minute)})
			late = append(late, time.Since(deadline))
			wantFault(t, err, want, false)
		}
		if median := slices.Sorted(slices.Values(late))[1]; median > grace {
			t.Errorf("budget %v: returned after its deadline by %v", budget, late)
		}
	}
	wantFault(t, <-busy, tierlock.ReasonAttempt, true)
}

func TestCancelEndsTheWaitForAConnection(t *testing.T) {
	store := open(t, redisstore.Config{Addrs: []string{blackHole(t)}, Dial: time.Second, Timeout: 5 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	began := time.Now()
	_, err := store.Acquire(ctx, tierlock.Request{Hold: newHold(t, minute)})
	wantFault(t, err, tierlock.ReasonCanceled, false)
	if took := time.Since(began); took > 500*time.Millisecond {
		t.Errorf("took %v", took)
	}
	eventually(t, "the dial that nobody waits for is counted", func() bool { return store.Loose("") == 1 })
}

func TestCloseEndsTheDialsUnderWay(t *testing.T) {
	store, err := redisstore.New(redisstore.Config{Addrs: []string{blackHole(t)}, Dial: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan error)
	go func() {
		ctx, _ := within(t, 30*time.Second)
		_, err := store.Acquire(ctx, tierlock.Request{Hold: newHold(t, minute)})
		asked <- err
	}()
	eventually(t, "the dial is under way", func() bool { return store.Dialling() == 1 })
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	wantFault(t, <-asked, tierlock.ReasonBroken, false)
	_, err = try(t, store, newHold(t, minute))
	wantFault(t, err, tierlock.ReasonBroken, false)
}

// silent is the address of a server that accepts connections and never says a word.
func silent(t *testing.T) string {
	t.Helper()
	addr, _ := silentServer(t)
	return addr
}

// silentServer accepts connections, counts them and never says a word.
func silentServer(t *testing.T) (addr string, accepted *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = new(atomic.Int64)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			accepted.Add(1)
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return listener.Addr().String(), accepted
}

// blackHole is an address whose dials get no answer: a listener that accepts nothing and
// whose queue is full, so the kernel drops what comes.
func blackHole(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*syscall.SockaddrInet4).Port}
	for range 16 { // till one hangs
		conn, err := net.DialTimeout("tcp", addr.String(), 50*time.Millisecond)
		if err != nil {
			return addr.String()
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("the listener's queue does not fill")
	return ""
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
