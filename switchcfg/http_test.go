package switchcfg_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/switchcfg"
)

// page is a web server with one document, as a config centre would serve it.
type page struct {
	text    atomic.Value // string; empty: there is none
	status  atomic.Int64 // instead of an answer; 0: answer
	full    atomic.Int64 // answers with the document in them
	same    atomic.Int64 // answers without
	granted string       // the credentials it wants
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := p.text.Load().(string)
	tag := fmt.Sprintf("%q", fmt.Sprint(len(text), text[:min(len(text), 20)]))
	switch status := p.status.Load(); {
	case status != 0:
		w.WriteHeader(int(status))
	case r.Header.Get("Authorization") != p.granted:
		w.WriteHeader(http.StatusUnauthorized)
	case text == "":
		w.WriteHeader(http.StatusNotFound)
	case r.Header.Get("If-None-Match") == tag:
		p.same.Add(1)
		w.WriteHeader(http.StatusNotModified)
	default:
		p.full.Add(1)
		w.Header().Set("ETag", tag)
		fmt.Fprint(w, text)
	}
}

func openHTTP(t *testing.T, cfg switchcfg.HTTPConfig) *switchcfg.HTTP {
	t.Helper()
	source, err := switchcfg.NewHTTP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.Close)
	return source
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func TestHTTPAsksForWhatHasChangedOnly(t *testing.T) {
	p := &page{}
	p.text.Store("version: 1\nchains: {}\n")
	source := openHTTP(t, switchcfg.HTTPConfig{URL: serve(t, p)})
	for range 3 {
		if text, err := source.Fetch(t.Context()); err != nil || string(text) != "version: 1\nchains: {}\n" {
			t.Fatalf("%q, %v", text, err)
		}
	}
	p.text.Store("version: 2\nchains: {}\n#")
	if text, err := source.Fetch(t.Context()); err != nil || !strings.HasPrefix(string(text), "version: 2") {
		t.Fatalf("%q, %v, want version 2", text, err)
	}
	if p.full.Load() != 2 || p.same.Load() != 2 {
		t.Errorf("the document travelled %d times, was unchanged %d times: want 2 and 2", p.full.Load(), p.same.Load())
	}
}

func TestHTTPTellsNoDocumentFromNoAnswer(t *testing.T) {
	p := &page{}
	source := openHTTP(t, switchcfg.HTTPConfig{URL: serve(t, p)})
	if text, err := source.Fetch(t.Context()); err != nil || len(text) != 0 {
		t.Errorf("404: %q, %v, want no document", text, err)
	}
	for _, status := range []int{http.StatusNotModified, http.StatusInternalServerError, http.StatusForbidden, http.StatusNoContent} {
		p.status.Store(int64(status))
		if text, err := source.Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), fmt.Sprint(status)) {
			t.Errorf("status %d: %q, %v, want an error that names it", status, text, err)
		}
	}
}

func TestHTTPNeverAnswersWithWhatWasCutOff(t *testing.T) {
	p := &page{}
	p.text.Store("version: 1\nchains: {}\n")
	cut := false
	source := openHTTP(t, switchcfg.HTTPConfig{URL: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !cut {
			p.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Length", "100")
		w.Header().Set("ETag", `"cut"`)
		fmt.Fprint(w, "version: 2\n")
	}))})
	if _, err := source.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	cut = true
	if text, err := source.Fetch(t.Context()); err == nil {
		t.Fatalf("half a document came back: %q", text)
	}
	cut = false
	if text, err := source.Fetch(t.Context()); err != nil || string(text) != "version: 1\nchains: {}\n" {
		t.Fatalf("%q, %v, want the whole document again", text, err)
	}
}

func TestHTTPBoundsWhatItReads(t *testing.T) {
	p := &page{}
	p.text.Store(strings.Repeat("# a comment without an end\n", 100_000))
	source := openHTTP(t, switchcfg.HTTPConfig{URL: serve(t, p)})
	text, err := source.Fetch(t.Context())
	if err != nil || len(text) != 1<<20+1 {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	if _, err := switchcfg.Parse(text); !errors.Is(err, tierlock.ErrInvalid) {
		t.Fatalf("error %v, want ErrInvalid", err)
	}
}

func TestHTTPEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	url := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := openHTTP(t, switchcfg.HTTPConfig{URL: url}).Fetch(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v, want the deadline", err)
	}
}

func TestHTTPReadsCredentialsAnewAndTellsNoneOfThem(t *testing.T) {
	p := &page{granted: "Bearer second"}
	p.text.Store("version: 1\nchains: {}\n")
	token, broken := "first", false
	source := openHTTP(t, switchcfg.HTTPConfig{URL: serve(t, p), Authorize: func(r *http.Request) error {
		if broken {
			return errors.New("the file is away")
		}
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}})
	if _, err := source.Fetch(t.Context()); err == nil || strings.Contains(err.Error(), "first") {
		t.Fatalf("error %v, want a refusal without the token", err)
	}
	token = "second"
	if _, err := source.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	broken = true
	if _, err := source.Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "the file is away") {
		t.Fatalf("error %v, want the reason", err)
	}
}

func TestHTTPStaysOnTLS(t *testing.T) {
	p := &page{}
	p.text.Store("version: 1\nchains: {}\n")
	plain := serve(t, p)
	secure := httptest.NewTLSServer(http.RedirectHandler(plain, http.StatusFound))
	t.Cleanup(secure.Close)
	conf := secure.Client().Transport.(*http.Transport).TLSClientConfig
	if _, err := openHTTP(t, switchcfg.HTTPConfig{URL: secure.URL, TLS: conf}).Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "https to http") {
		t.Fatalf("error %v, want the redirect refused", err)
	}
	if p.full.Load() != 0 {
		t.Error("the plain server was asked")
	}
}

func TestHTTPRefusesWhatIsNoAddress(t *testing.T) {
	for _, url := range []string{"", "config/switch", "ftp://host/x", "http://", "https://user:secret@host/x", "http://%zz"} {
		_, err := switchcfg.NewHTTP(switchcfg.HTTPConfig{URL: url})
		if !errors.Is(err, tierlock.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: error %v, want ErrInvalid without the secret", url, err)
		}
	}
}

func TestAFlipOverHTTPReachesWhoFollows(t *testing.T) {
	p := &page{}
	p.text.Store("version: 1\nchains: {}\n")
	source := openHTTP(t, switchcfg.HTTPConfig{URL: serve(t, p)})
	ctx, cancel := context.WithCancel(t.Context())
	applied := make(chan uint64, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = switchcfg.Follow(ctx, source, switchcfg.FollowConfig{Poll: 250 * time.Millisecond}, func(d switchcfg.Document) error {
			applied <- d.Version
			return nil
		})
	}()
	defer func() { cancel(); <-done }()
	if v := <-applied; v != 1 {
		t.Fatalf("version %d, want 1", v)
	}
	p.text.Store("version: 2\nchains: {}\n#")
	if v := <-applied; v != 2 {
		t.Fatalf("version %d, want 2", v)
	}
}
