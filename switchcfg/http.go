package switchcfg

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/hostport"
)

// HTTPConfig of an [HTTP] source. Zero fields mean the stated default.
type HTTPConfig struct {
	URL string      // http or https, without credentials. Required
	TLS *tls.Config // nil: the system's roots
	// Authorize puts credentials on a request, once for each: whatever rotates them is
	// read anew. nil: none.
	Authorize func(*http.Request) error
}

// Validate reports every fault at once, each a [*tierlock.InvalidError].
func (c HTTPConfig) Validate() error {
	bad := func(value, rule string) error { return tierlock.Invalid("url", value, rule) }
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		return bad("", "is required: want the http or https address of the document")
	case err != nil, u.Scheme != "http" && u.Scheme != "https", !hostport.ValidURL(u):
		return bad("", "want an http or https address such as https://config.example/tierlock.switch") // what it holds may be a secret
	case u.User != nil:
		return bad(u.Redacted(), "must not hold credentials: it is shown in logs")
	}
	return nil
}

// HTTP is a Source that asks a web server. While the server says that nothing has changed
// since the entity tag of the last answer, no document travels. It is safe for concurrent
// use.
type HTTP struct {
	cfg    HTTPConfig
	client *http.Client

	mu   sync.Mutex
	last tagged // guarded by mu
}

// tagged is an answer and the server's name for it.
type tagged struct {
	tag  string // "": the server gives none, or nothing was answered yet
	text []byte
}

// NewHTTP checks cfg; it connects to nothing.
func NewHTTP(cfg HTTPConfig) (*HTTP, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSClientConfig:     cfg.TLS.Clone(),
		MaxIdleConnsPerHost: 1, // one poll after the other
		ForceAttemptHTTP2:   true,
	}
	return &HTTP{cfg: cfg, client: &http.Client{Transport: transport, CheckRedirect: checkRedirect}}, nil
}

// checkRedirect keeps what was asked for over TLS on TLS.
func checkRedirect(next *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("stopped after 10 redirects")
	}
	if via[0].URL.Scheme == "https" && next.URL.Scheme != "https" {
		return errors.New("redirected from https to " + next.URL.Scheme)
	}
	return nil
}

// Close ends idle connections. Fetches under way end by their contexts.
func (h *HTTP) Close() { h.client.CloseIdleConnections() }

// Fetch asks for the document. 404 and 410 are no document; any other status but 200, and
// 304 to a question that named a tag, is an error. A document longer than 1 MiB comes back
// one byte longer than that, for [Parse] to refuse.
func (h *HTTP) Fetch(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.cfg.URL, nil)
	if err != nil {
		return nil, err
	}
	last := h.known()
	if last.tag != "" {
		req.Header.Set("If-None-Match", last.tag)
	}
	if h.cfg.Authorize != nil {
		if err := h.cfg.Authorize(req); err != nil {
			return nil, fmt.Errorf("switch over http: credentials: %w", err)
		}
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("switch over http: %w", err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return h.learn(resp)
	case http.StatusNotModified:
		if last.tag != "" {
			return last.text, nil
		}
	case http.StatusNotFound, http.StatusGone:
		return nil, nil
	}
	return nil, fmt.Errorf("switch over http: %s answers %s", h.cfg.URL, resp.Status)
}

func (h *HTTP) known() tagged {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// learn reads an answer and keeps it, with its tag, for as long as the server says that it
// is still the document.
func (h *HTTP) learn(resp *http.Response) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxText+1))
	if err != nil {
		return nil, fmt.Errorf("switch over http: %w", err) // cut off: no document at all, and no tag of one
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = tagged{resp.Header.Get("ETag"), text}
	return text, nil
}
