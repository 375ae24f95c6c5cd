package nacostest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// login knows the one account, and the tokens that were given for it.
type login struct {
	mu             sync.Mutex
	user, password string          // guarded by mu; "": nobody has to log in
	tokens         map[string]bool // guarded by mu
	count          int             // logins that were good; guarded by mu
}

// Account makes everybody log in as user before any question about configurations is
// answered.
func (s *Server) Account(user, password string) {
	s.login.mu.Lock()
	defer s.login.mu.Unlock()
	s.login.user, s.login.password, s.login.tokens = user, password, map[string]bool{}
}

// Revoke makes every token worthless that was given so far: whoever asks with one gets 403
// until it logs in again.
func (s *Server) Revoke() { s.login.forget() }

// Logins counts good logins since the start.
func (s *Server) Logins() int {
	s.login.mu.Lock()
	defer s.login.mu.Unlock()
	return s.login.count
}

func (l *login) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens = map[string]bool{}
}

func (l *login) knows(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.user == "" || l.tokens[token]
}

// try logs in and returns a new token; "" if it is refused.
func (l *login) try(user, password string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if user != l.user || password != l.password {
		return ""
	}
	l.count++
	token := fmt.Sprintf("token-%d", l.count)
	l.tokens[token] = true
	return token
}

// tokenTTL is a day: no test waits for it to end.
const tokenTTL = 24 * 60 * 60

// pages are those of the HTTP side that the client asks.
func (s *Server) pages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /nacos/v1/auth/users/login", func(w http.ResponseWriter, r *http.Request) {
		if !s.faults.silent(r.Context()) {
			return
		}
		token := s.login.try(r.FormValue("username"), r.FormValue("password"))
		if token == "" {
			http.Error(w, "unknown user!", http.StatusForbidden)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"accessToken": token, "tokenTtl": tokenTTL, "globalAdmin": false})
	})
	return mux
}
