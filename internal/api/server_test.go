package api

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

func TestOnlyPostOnKnownPaths(t *testing.T) {
	bubble(t, func(t *testing.T, b bench) {
		for path, want := range map[string]int{"/v1/try": 405, "/v1/unlock": 405, "/v1/nosuch": 404, "/": 404} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = "localhost:7070"
			w := httptest.NewRecorder()
			b.h.ServeHTTP(w, r)
			if w.Code != want || !strings.HasPrefix(w.Body.String(), `{"error":"`) {
				t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
			}
			if want == 405 && w.Header().Get("Allow") != "POST" {
				t.Errorf("GET %s: Allow %q", path, w.Header().Get("Allow"))
			}
		}
	})
}

func TestWhoTakesTheDataPortForTheAdminPortIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, b bench) {
		for remote, where := range map[bool]string{false: ", 127.0.0.1:7071", true: ""} { // from elsewhere it is nobody's business
			h := New(Config{Gateway: b.kit.Gateway, Remote: remote, Admin: "127.0.0.1:7071"}).Handler()
			for method, path := range map[string]string{http.MethodPost: "/explain", http.MethodGet: "/healthz"} {
				r := httptest.NewRequest(method, path, nil)
				r.Host = "localhost:7070"
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				want := `{"error":"not_found","rule":"this is the data port (listen.data): ` + path + ` is at the admin port (listen.admin)` + where + `"}`
				if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusNotFound || got != want {
					t.Errorf("%s %s, remote %t: %d %s\nwant %s", method, path, remote, w.Code, got, want)
				}
			}
		}
	})
}

func TestWebPagesCannotReachALoopbackDaemon(t *testing.T) {
	for name, c := range map[string]struct {
		host, origin string
		remote       bool
		want         int
	}{
		"curl":                         {"127.0.0.1:7070", "", false, 200},
		"IPv6":                         {"[::1]:7070", "", false, 200},
		"a name that points here":      {"evil.example:7070", "", false, 403},
		"a page of another site":       {"127.0.0.1:7070", "https://evil.example", false, 403},
		"remote clients where allowed": {"tierlock:7070", "", true, 200},
		"another site where remote is": {"tierlock:7070", "https://evil.example", true, 403},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b bench) {
				r := httptest.NewRequest(http.MethodPost, "/v1/try", strings.NewReader(keyA+"}"))
				r.Host = c.host
				if c.origin != "" {
					r.Header.Set("Origin", c.origin)
				}
				w := httptest.NewRecorder()
				New(Config{Gateway: b.kit.Gateway, Remote: c.remote}).Handler().ServeHTTP(w, r)
				if w.Code != c.want {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		})
	}
}

func TestWaitersCannotPileUpAndUnlockIsNeverRefused(t *testing.T) {
	bubble(t, func(t *testing.T, b bench) {
		b.h = New(Config{Gateway: b.kit.Gateway, Acquires: 1}).Handler()
		b.want("/v1/try", keyA+"}", grant)
		done := make(chan string)
		go func() { done <- b.post("/v1/lock", keyB+`,"wait_ms":1000}`) }()
		time.Sleep(10 * time.Millisecond) // the waiter is in
		b.want("/v1/try", keyB+"}", `Too Many Requests {"error":"overloaded"}`)
		b.want("/v1/unlock", keyA+"}", `OK {"outcome":"success"}`)
		if got := <-done; !strings.HasPrefix(got, "OK") {
			t.Errorf("the waiter got %s", got)
		}
		b.want("/v1/unlock", keyB+"}", `OK {"outcome":"success"}`)
	})
}

// broken is a connection that panics when the answer is written.
type broken struct{ http.ResponseWriter }

func (broken) Write([]byte) (int, error) { panic("written to a broken connection") }

func TestALockWhoseAnswerCannotArrive(t *testing.T) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for name, c := range map[string]struct {
		body  string
		ctx   context.Context
		panic bool
		keys  int
	}{
		"panic, server's id: released, nobody could":   {`{"key":"biz:order:lock:1"}`, context.Background(), true, 0},
		"panic, client's id: kept, the client repeats": {keyA + "}", context.Background(), true, 1},
		"client gone, server's id: released":           {`{"key":"biz:order:lock:1"}`, gone, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b bench) {
				a := New(Config{Gateway: b.kit.Gateway})
				req, err := readRequest(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body)), acquireShape)
				if err != nil {
					t.Fatal(err)
				}
				chain, id, err := b.kit.ChainOf(req.key)
				if err != nil {
					t.Fatal(err)
				}
				l, err := chain.TryLock(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				var w http.ResponseWriter = httptest.NewRecorder()
				if c.panic {
					w = broken{w}
				}
				func() {
					defer func() {
						if p := recover(); (p != nil) != c.panic {
							t.Errorf("panic %v", p)
						}
					}()
					a.grant(w, httptest.NewRequestWithContext(c.ctx, http.MethodPost, "/v1/try", nil), req, l)
				}()
				if n := b.kit.Store.Keys(); n != c.keys {
					t.Errorf("%d keys in the store, want %d", n, c.keys)
				}
				_ = l.Unlock(t.Context())
			})
		})
	}
}

func TestAPanicIsAnAnswer(t *testing.T) {
	var log strings.Builder
	a := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w := httptest.NewRecorder()
	a.recovered(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") })).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/try", nil))
	if w.Code != 500 || strings.TrimSpace(w.Body.String()) != `{"error":"internal"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "panic in a request") || !strings.Contains(log.String(), "boom") {
		t.Errorf("log %q", log.String())
	}
}

func TestAdminIsHealthyWhileDegradedAndUnreadyWhileStopping(t *testing.T) {
	ready := ""
	h := Admin{
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1") }),
		Health:  func() Health { return Health{Status: "degraded", Version: "v1"} },
		Ready:   func() string { return ready },
	}.Handler()
	get := func(path string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return http.StatusText(w.Code) + " " + strings.TrimSpace(w.Body.String())
	}
	for path, want := range map[string]string{"/healthz": `OK {"status":"degraded","version":"v1"}`, "/readyz": `OK {"ready":true}`, "/metrics": "OK up 1"} {
		if got := get(path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	ready = "stopping"
	if got := get("/readyz"); got != `Service Unavailable {"ready":false,"reason":"stopping"}` {
		t.Errorf("readyz: %s", got)
	}
}

// TestServeFinishesWhatIsUnderWay: a request that waits when the daemon is told to stop
// gets its answer, and Serve returns after it.
func TestServeFinishesWhatIsUnderWay(t *testing.T) {
	kit := gatewaytest.New(t, chains())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	in, out := make(chan struct{}), make(chan struct{})
	inner := New(Config{Gateway: kit.Gateway}).Handler()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(in)
		<-out
		inner.ServeHTTP(w, r)
	})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, ln, h, time.Minute, slog.New(slog.DiscardHandler)) }()
	answer := make(chan string, 1)
	go func() {
		resp, err := http.Post("http://"+ln.Addr().String()+"/v1/try", "", strings.NewReader(keyA+"}"))
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		answer <- resp.Status
	}()
	<-in
	stop()
	select {
	case err := <-served:
		t.Fatalf("Serve returned %v before the request was answered", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(out)
	if got := <-answer; got != "200 OK" {
		t.Errorf("answer %s", got)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}
