package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

func TestASwitchOverHTTPSendsThePasswordOfTheMoment(t *testing.T) {
	var want string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != want {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, "version: 1\nchains: {}\n")
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "token")
	write := func(secret string) {
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	for name, c := range map[string]struct {
		user          string
		first, second string
	}{
		"a token":           {"", "Bearer first", "Bearer second"},
		"a user's password": {"oncall", "Basic b25jYWxsOmZpcnN0", "Basic b25jYWxsOnNlY29uZA=="},
	} {
		t.Run(name, func(t *testing.T) {
			write("first")
			source, err := (&HTTPConfig{URL: server.URL, Username: c.user, Password: Secret{File: file}}).open()
			if err != nil {
				t.Fatal(err)
			}
			defer source.Close()
			want = c.first
			if _, err := source.Fetch(t.Context()); err != nil {
				t.Fatal(err)
			}
			write("second")
			if _, err := source.Fetch(t.Context()); err == nil {
				t.Fatal("the old password was sent after the file had changed")
			}
			want = c.second
			if _, err := source.Fetch(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
