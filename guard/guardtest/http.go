package guardtest

import (
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/guard"
)

// ask sends one request with a token, none for zero, through a handler that f makes, and
// returns its answer.
func (s *shop) ask(f *guard.Fence, token tierlock.Token) (status int, body string) {
	h := f.Handler(s.DB, func(*http.Request) (tierlock.Key, error) { return s.key, nil },
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodPost, "/", nil)
	guard.SetHeader(r.Header, token)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// Each request meets a handler of its own, as after a restart: the marks are in the table.
func httpKeepsItsMarks(s *shop) {
	for i, c := range []struct {
		token tierlock.Token
		want  int
	}{{5, 200}, {5, 200}, {4, 412}, {0, 428}, {6, 200}, {5, 412}} {
		got, body := s.ask(s.newFence(guard.Config{Dialect: s.d}), c.token)
		if got != c.want {
			s.t.Fatalf("step %d, token %d: %d %s", i, c.token, got, body)
		}
		if got == 412 && !strings.Contains(body, "token") {
			s.t.Errorf("a refusal that tells no tokens: %s", body)
		}
	}
	s.wantStale(s.enter(s.fence, s.grant(5)), 5, 6)
	s.do(`DROP TABLE tierlock_fence`)
	if got, body := s.ask(s.fence, 9); got != 503 || strings.Contains(body, "tierlock_fence") {
		s.t.Errorf("mark not raised: %d %s", got, body)
	}
}

func httpUnfenced(s *shop) {
	if got, body := s.ask(s.newFence(guard.Config{Dialect: s.d, Unfenced: true}), 0); got != 200 {
		s.t.Fatalf("%d %s", got, body)
	}
	if n := s.one(`SELECT unfenced FROM tierlock_fence`); n != 1 {
		s.t.Fatalf("%d on record, want 1", n)
	}
}
