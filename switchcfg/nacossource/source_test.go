package nacossource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
)

// stub is a client with a knob for everything that can go wrong.
type stub struct {
	mu     sync.Mutex // of err, where a test changes it meanwhile
	text   string
	err    error
	panics bool
	closed int
}

func (c *stub) get() (string, error) {
	if c.panics {
		panic("nil map")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text, c.err
}

func (c *stub) publish(text, _ string) error {
	c.text = text
	return c.err
}

func (c *stub) close() { c.closed++ }

// stubbed is a source whose clients are c.
func stubbed(t *testing.T, c *stub, dials *int, open bool) *Source {
	t.Helper()
	s := newSource(Config{}.withDefaults(), func(func()) (client, error) { *dials++; return c, nil }, func() bool { return open }, func() {})
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestRefusedClientIsDroppedAndReplacedNotTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dials := &stub{err: fmt.Errorf("%w: 403", errRefused)}, 0
		s := stubbed(t, c, &dials, true)
		for range 60 { // a minute of fetches
			if _, err := s.Fetch(t.Context()); err == nil {
				t.Fatal("no error")
			}
			if c.closed != dials {
				t.Fatalf("%d clients made, %d closed: one goes on asking", dials, c.closed)
			}
			time.Sleep(time.Second)
		}
		if dials < 5 || dials > 7 {
			t.Errorf("%d clients in a minute, want 6", dials)
		}
		c.err, c.text = nil, "version: 1"
		time.Sleep(remakeGap)
		if text, err := s.Fetch(t.Context()); err != nil || string(text) != "version: 1" {
			t.Errorf("once it is allowed again: %q, %v", text, err)
		}
	})
}

func TestAClientWhoseListenerUsesUpTheLimitIsDroppedAndABurstIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dials := &stub{err: fmt.Errorf("%w: ConfigQueryRequest is limited", errLimited)}, 0
		s := stubbed(t, c, &dials, true)
		go func() { time.Sleep(600 * time.Millisecond); c.mu.Lock(); c.err = nil; c.mu.Unlock() }()
		if _, err := s.Fetch(t.Context()); err != nil || c.closed != 0 {
			t.Errorf("a burst: %v, %d clients dropped", err, c.closed)
		}
		c.mu.Lock()
		c.err = errLimited
		c.mu.Unlock()
		began := time.Now()
		if _, err := s.Fetch(t.Context()); !errors.Is(err, errLimited) || c.closed != 1 {
			t.Errorf("a spinning listener: %v, %d clients dropped", err, c.closed)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("found out after %v", took)
		}
	})
}

func TestUnansweredClientIsReplacedOnlyWhenItsServerIsUp(t *testing.T) {
	for name, up := range map[string]bool{"up": true, "down": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, dials := &stub{err: errors.New("client not connected, current status:UNHEALTHY")}, 0
				s := stubbed(t, c, &dials, up)
				for range 300 {
					_, _ = s.Fetch(t.Context())
					time.Sleep(time.Second)
				}
				if up && (dials < 5 || dials > 30) || !up && dials != 1 {
					t.Errorf("%d clients in 5 minutes", dials)
				}
			})
		})
	}
}

func TestFetchesKeepToTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dials := &stub{}, 0
		s := stubbed(t, c, &dials, true)
		begin := time.Now()
		for range 21 {
			if text, err := s.Fetch(t.Context()); err != nil || len(text) != 0 {
				t.Fatalf("%q, %v", text, err)
			}
		}
		if took := time.Since(begin); took < 5*time.Second {
			t.Errorf("21 fetches in %v", took)
		}
	})
}

func TestPanicOfTheClientIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dials := &stub{panics: true}, 0
		s := stubbed(t, c, &dials, true)
		if _, err := s.Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "panicked") {
			t.Errorf("error %v", err)
		}
		c.panics = false
		if _, err := s.Fetch(t.Context()); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestWatchWakesUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		s := stubbed(t, &stub{}, &dials, true)
		ctx, cancel := context.WithCancel(t.Context())
		var woken atomic.Int32
		done := make(chan error, 1)
		go func() { done <- s.Watch(ctx, func() { woken.Add(1) }) }()
		synctest.Wait()
		if err := s.Watch(ctx, func() {}); err == nil {
			t.Error("a second Watch runs")
		}
		s.hint()
		synctest.Wait()
		if woken := woken.Load(); woken != 1 {
			t.Errorf("woken %d times", woken)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returned %v", err)
		}
		s.hint()
		s.hint() // nobody listens: nobody is held up
	})
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	rubbish := filepath.Join(dir, "rubbish.pem")
	if err := os.WriteFile(rubbish, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing.pem")
	for name, c := range map[string]struct {
		cfg         Config
		field, rule string
	}{
		"no address":       {Config{}, "addr", "want host:port"},
		"no port":          {Config{Addr: "nacos"}, "addr", "want host:port"},
		"port of grpc":     {Config{Addr: "nacos:64999"}, "addr", "want a port from 1 to 64535"},
		"data id":          {Config{Addr: "nacos:8848", DataID: "a b"}, "data_id", "want letters"},
		"group":            {Config{Addr: "nacos:8848", Group: "a/b"}, "group", "want letters"},
		"namespace":        {Config{Addr: "nacos:8848", Namespace: "*"}, "namespace", "want the namespace's id"},
		"password alone":   {Config{Addr: "nacos:8848", Password: "p"}, "username", "is missing"},
		"key alone":        {Config{Addr: "nacos:8848", TLS: TLS{Enable: true, Key: rubbish}}, "tls.cert", "or neither"},
		"tls not enabled":  {Config{Addr: "nacos:8848", TLS: TLS{CA: rubbish}}, "tls.enable", "want true"},
		"cert missing":     {Config{Addr: "nacos:8848", TLS: TLS{Enable: true, Cert: missing, Key: rubbish}}, "tls.cert", "cannot be read"},
		"key missing":      {Config{Addr: "nacos:8848", TLS: TLS{Enable: true, Cert: rubbish, Key: missing}}, "tls.key", "cannot be read"},
		"cert unreadable":  {Config{Addr: "nacos:8848", TLS: TLS{Enable: true, Cert: rubbish, Key: rubbish}}, "tls.cert", "does not fit tls.key"},
		"cert is a folder": {Config{Addr: "nacos:8848", TLS: TLS{Enable: true, Cert: dir, Key: rubbish}}, "tls.cert", "cannot be read"},
		"ca missing":       {Config{Addr: "nacos:8848", TLS: TLS{Enable: true, CA: missing}}, "tls.ca", "cannot be read"},
		"ca of rubbish":    {Config{Addr: "nacos:8848", TLS: TLS{Enable: true, CA: rubbish}}, "tls.ca", "holds no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.cfg)
			inv, ok := errors.AsType[*tierlock.InvalidError](err)
			if !ok || inv.Field != c.field || !strings.Contains(inv.Rule, c.rule) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestWhatTheClientSaysIsQuietAndTellsNoSecrets(t *testing.T) {
	var out bytes.Buffer
	q := quiet{slog.New(slog.NewTextHandler(&out, nil)), "hunter2"}
	q.Errorf("server down, content=%s", "x")
	if out.Len() > 0 {
		t.Errorf("said at info level: %s", out.String())
	}
	q.log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	q.Infof("[data-received] md5=%s, content=%s, type=%s", "m", "version: 1\nchains: {}", "text")
	q.Error("login failed for", "hunter2")
	q.Warnf("refused: headers:<key:%q value:%q >, accessToken=%s", "accessToken", "eyJ.secret-1", "eyJ.secret-2")
	q.Debug("request: secret-3")
	q.Debugf("response: %s", "secret-4")
	if got := out.String(); strings.Contains(got, "chains") || strings.Contains(got, "hunter2") || strings.Contains(got, "secret") || !strings.Contains(got, "refused: headers") || !strings.Contains(got, "type=text") || !strings.Contains(got, "sdk_level=error") {
		t.Errorf("said: %s", got)
	}
}
