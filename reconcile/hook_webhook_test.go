package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
)

// shopService is a business with a webhook: one claim a record.
type shopService struct {
	secret []byte

	mu      sync.Mutex // guards all below
	claims  int
	applied map[string]int
	faults  int // the next so many answers are lost after the work
	refused int
	tokens  []uint64
}

func (s *shopService) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := ReadWebhook(s.secret, req)
	if err != nil {
		s.refused++
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	var a WebhookAnswer
	switch {
	case q.Ask == "check":
		a.Wrong = int64(s.claims - 1)
	case s.applied[q.Key] > 0:
		a.Result = ResultAlready
	case s.claims <= 1:
		a.Result = ResultClean
	default:
		s.claims--
		s.applied[q.Key]++
		s.tokens = append(s.tokens, q.Token)
		a.Result = ResultApplied
	}
	if s.faults > 0 && q.Ask == "repair" {
		s.faults--
		http.Error(w, "lost", http.StatusBadGateway)
		return
	}
	_ = json.NewEncoder(w).Encode(a)
}

func webhook(t *testing.T, change func(*WebhookConfig)) (*shopService, Hook) {
	t.Helper()
	s := &shopService{secret: []byte(strings.Repeat("k", 32)), claims: 2, applied: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	cfg := WebhookConfig{URL: server.URL, Secret: s.secret, Client: server.Client()}
	if change != nil {
		change(&cfg)
	}
	h, err := NewWebhook(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, h
}

// An answer that is lost after the work is done makes the same question come again: it has
// the same key, and the work is done once.
func TestWebhookRepairsOnce(t *testing.T) {
	s, h := webhook(t, nil)
	s.faults = 1
	c := caseFor("1")
	c.Loser.Key = key(t, "biz:coupon:lock:u1")
	c.Grant = tierlock.Grant{Token: 77}
	if wrong, err := h.Check.Check(t.Context(), c); err != nil || wrong != 1 {
		t.Fatalf("wrong %d, %v", wrong, err)
	}
	if r, err := h.Repair.Repair(t.Context(), c); err == nil || r != ResultFailed || !strings.Contains(err.Error(), "502") {
		t.Fatalf("%s, %v", r, err)
	}
	if r, err := h.Repair.Repair(t.Context(), c); err != nil || r != ResultAlready {
		t.Fatalf("%s, %v", r, err)
	}
	if wrong, err := h.Check.Check(t.Context(), c); err != nil || wrong != 0 {
		t.Fatalf("wrong %d, %v", wrong, err)
	}
	if s.claims != 1 || s.applied[c.ID] != 1 || len(s.tokens) != 1 || s.tokens[0] != 77 {
		t.Errorf("%+v", s)
	}
}

// Nobody without the secret is heard, nor who plays an old question again or changes one.
func TestWebhookIsSigned(t *testing.T) {
	s, h := webhook(t, func(c *WebhookConfig) { c.Secret = []byte(strings.Repeat("x", 32)) })
	if _, err := h.Check.Check(t.Context(), caseFor("1")); err == nil || s.refused != 1 {
		t.Fatalf("another secret: %v, refused %d", err, s.refused)
	}
	body := []byte(`{"ask":"repair","key":"k1"}`)
	ask := func(change func(*http.Request)) error {
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body)))
		now := time.Now()
		req.Header.Set(HeaderIdempotencyKey, "k1")
		req.Header.Set(HeaderTimestamp, fmt.Sprint(now.Unix()))
		req.Header.Set(HeaderSignature, SignWebhook(s.secret, now, body))
		change(req)
		_, err := ReadWebhook(s.secret, req)
		return err
	}
	if err := ask(func(*http.Request) {}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*http.Request){
		"no signature": func(r *http.Request) { r.Header.Del(HeaderSignature) },
		"another key":  func(r *http.Request) { r.Header.Set(HeaderIdempotencyKey, "k2") },
		"another time": func(r *http.Request) { r.Header.Set(HeaderTimestamp, fmt.Sprint(time.Now().Unix()+1)) },
		"another body": func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(`{"ask":"repair","key":"k1","token":9}`))
		},
		"an old one": func(r *http.Request) {
			at := time.Now().Add(-time.Hour)
			r.Header.Set(HeaderTimestamp, fmt.Sprint(at.Unix()))
			r.Header.Set(HeaderSignature, SignWebhook(s.secret, at, body))
		},
	} {
		if err := ask(change); !errors.Is(err, ErrWebhook) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Redirects would carry the question to where nobody signed for it; an answer that says
// nothing is none.
func TestWebhookTakesNoOtherAnswer(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/else" {
				http.Redirect(w, r, "/else", http.StatusTemporaryRedirect)
				return
			}
			fmt.Fprint(w, `{"result":"applied"}`)
		},
		"no json":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") },
		"no result": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") },
		"would":     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"result":"would"}`) },
		"teapot":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"hangs": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then is the end of the connection noticed
			<-r.Context().Done()
		},
		"no content": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(answer)
			defer server.Close()
			h, err := NewWebhook(WebhookConfig{URL: server.URL, Secret: make([]byte, 32), Timeout: 200 * time.Millisecond, Client: server.Client()})
			if err != nil {
				t.Fatal(err)
			}
			if r, err := h.Repair.Repair(t.Context(), caseFor("1")); err == nil || r != ResultFailed {
				t.Errorf("%s, %v", r, err)
			}
		})
	}
}

// A 200 of somebody else's, a proxy or another version, is no word that all is well.
func TestWebhookCheckTakesNoAnswerForNothing(t *testing.T) {
	for _, body := range []string{`{}`, `null`, `{"status":"maintenance"}`, `{"wrong":null}`, `{"result":"clean"}`, `{"wrong":1} {"wrong":0}`, `{"wrong":1e30}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
		h, err := NewWebhook(WebhookConfig{URL: server.URL, Secret: make([]byte, 32), Client: server.Client()})
		if err != nil {
			t.Fatal(err)
		}
		if wrong, err := h.Check.Check(t.Context(), caseFor("1")); err == nil {
			t.Errorf("%s was taken for %d wrong", body, wrong)
		}
		server.Close()
	}
}

func TestWebhookConfigFaults(t *testing.T) {
	_, err := NewWebhook(WebhookConfig{URL: "ftp://x", Secret: []byte("short"), Timeout: -1})
	for _, field := range []string{"url", "secret", "timeout"} {
		if err == nil || !strings.Contains(err.Error(), "invalid "+field) {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
	if strings.Contains(fmt.Sprint(err), "short") {
		t.Error("the secret is shown")
	}
	if h, err := NewWebhook(WebhookConfig{URL: "http://x/y", Secret: make([]byte, 32), CheckOnly: true}); err != nil || h.Repair != nil {
		t.Errorf("%+v, %v", h, err)
	}
}
