package nacossource

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/switchcfg"
	"github.com/tierlock/tierlock/switchcfg/nacostest"
)

func open(t *testing.T, addr string) *Source {
	t.Helper()
	s, err := New(Config{Addr: addr, CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// following is a document that is being followed, with what was applied and reported.
type following struct {
	t       *testing.T
	mu      sync.Mutex
	version uint64
	fault   *switchcfg.Fault
	changed chan struct{}
	end     func() // ends it, and waits
}

func follow(t *testing.T, src switchcfg.Source) *following {
	t.Helper()
	return followEvery(t, src, 0)
}

func followEvery(t *testing.T, src switchcfg.Source, poll time.Duration) *following {
	t.Helper()
	f := &following{t: t, changed: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	nudge := func() {
		select {
		case f.changed <- struct{}{}:
		default:
		}
	}
	go func() {
		defer close(done)
		_ = switchcfg.Follow(ctx, src, switchcfg.FollowConfig{Poll: poll, Report: func(r switchcfg.Report) {
			f.mu.Lock()
			f.version, f.fault = r.Version, r.Fault
			f.mu.Unlock()
			nudge()
		}}, func(switchcfg.Document) error { return nil })
	}()
	f.end = func() { cancel(); <-done }
	t.Cleanup(f.end)
	return f
}

// until waits for a state and returns how long it took.
func (f *following) until(what string, within time.Duration, is func(version uint64, why switchcfg.Why) bool) time.Duration {
	f.t.Helper()
	start, end := time.Now(), time.After(within)
	for {
		f.mu.Lock()
		version, why := f.version, switchcfg.Why("")
		if f.fault != nil {
			why = f.fault.Why
		}
		f.mu.Unlock()
		if is(version, why) {
			return time.Since(start)
		}
		select {
		case <-f.changed:
		case <-end:
			f.t.Fatalf("not within %v: %s (version %d, %s)", within, what, version, why)
		}
	}
}

func (f *following) inForce(version uint64, within time.Duration) time.Duration {
	f.t.Helper()
	return f.until(fmt.Sprintf("version %d in force", version), within, func(v uint64, why switchcfg.Why) bool { return v == version && why == "" })
}

// server is a real one or the fake.
type server interface {
	Addr() string
	Put(dataID, group, content string)
	Delete(dataID, group string)
}

func put(n server, version int) {
	n.Put(DefaultDataID, DefaultGroup, fmt.Sprintf("version: %d\nchains: {coupon: {mode: bypass, until: %s, reason: r, by: b}}",
		version, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
}

// pollOnly hides Watch.
type pollOnly struct{ switchcfg.Source }

func TestFlipArrives(t *testing.T) {
	t.Parallel()
	if apart(t) {
		return
	}
	n := servers.Nacos(t)
	put(n, 1)
	pushed, polled := follow(t, open(t, n.Addr())), follow(t, pollOnly{open(t, n.Addr())})
	pushed.inForce(1, 6*time.Second)
	polled.inForce(1, 6*time.Second)
	for version := uint64(2); version <= 5; version++ {
		put(n, int(version))
		begin := time.Now()
		push := pushed.inForce(version, 6*time.Second)
		polled.inForce(version, 6*time.Second)
		t.Logf("version %d: with push %v, by poll alone %v", version, push.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
	}
}

func TestDeletedOrEmptyKeepsWhatIsInForce(t *testing.T) {
	t.Parallel()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		if !apart(t) {
			deletedOrEmpty(t, nacostest.Start(t))
		}
	})
	t.Run("rnacos", func(t *testing.T) {
		t.Parallel()
		if !apart(t) {
			deletedOrEmpty(t, servers.Nacos(t))
		}
	})
}

func deletedOrEmpty(t *testing.T, n server) {
	t.Helper()
	f := follow(t, open(t, n.Addr()))
	f.until("an alarm over nothing there", 6*time.Second, func(v uint64, why switchcfg.Why) bool { return v == 0 && why == switchcfg.WhyEmpty })
	put(n, 1)
	f.inForce(1, 6*time.Second)
	n.Delete(DefaultDataID, DefaultGroup)
	f.until("an alarm over the deletion", 6*time.Second, func(v uint64, why switchcfg.Why) bool { return v == 1 && why == switchcfg.WhyEmpty })
	n.Put(DefaultDataID, DefaultGroup, " \n")
	f.until("an alarm over empty text", 6*time.Second, func(v uint64, why switchcfg.Why) bool { return v == 1 && why == switchcfg.WhyEmpty })
	put(n, 2)
	f.inForce(2, 6*time.Second)
}

func TestSilentServerHoldsNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().(*net.TCPAddr)
	s, err := New(Config{Addr: fmt.Sprintf("127.0.0.1:%d", addr.Port-grpcOffset), CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		begin := time.Now()
		if _, err := s.Fetch(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("fetch: %v", err)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("fetch took %v", took)
		}
		cancel()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close while a call hangs: %v", err)
	}
	if _, err := s.Fetch(context.Background()); !errors.Is(err, tierlock.ErrClosed) {
		t.Errorf("fetch after close: %v", err)
	}
	l.Close() // now the SDK's call returns, and with it Close
	ctx, cancel = context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("close at last: %v", err)
	}
}
