package guard_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/guard"
)

func TestHeader(t *testing.T) {
	for name, c := range map[string]struct {
		values []string
		want   tierlock.Token
		bad    bool
	}{
		"none":       {nil, 0, false},
		"one":        {[]string{"1764496800123456"}, 1764496800123456, false},
		"largest":    {[]string{"18446744073709551615"}, 1<<64 - 1, false},
		"too large":  {[]string{"18446744073709551616"}, 0, true},
		"zero":       {[]string{"0"}, 0, true},
		"empty":      {[]string{""}, 0, true},
		"sign":       {[]string{"+5"}, 0, true},
		"negative":   {[]string{"-5"}, 0, true},
		"space":      {[]string{" 5"}, 0, true},
		"hex":        {[]string{"0x5"}, 0, true},
		"underscore": {[]string{"1_000"}, 0, true},
		"list":       {[]string{"5, 6"}, 0, true},
		"two":        {[]string{"5", "6"}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := guard.Header(http.Header{guard.TokenHeader: c.values})
			if got != c.want || errors.Is(err, tierlock.ErrInvalid) != c.bad {
				t.Errorf("Header(%q) = %d, %v", c.values, got, err)
			}
		})
	}
}

func FuzzHeader(f *testing.F) {
	f.Add("5")
	f.Add("+5")
	f.Fuzz(func(t *testing.T, s string) {
		token, err := guard.Header(http.Header{guard.TokenHeader: {s}})
		if err != nil {
			return
		}
		h := http.Header{}
		guard.SetHeader(h, token)
		if back, err := guard.Header(h); err != nil || back != token || token == 0 {
			t.Fatalf("%q is %d, and back %d, %v", s, token, back, err)
		}
	})
}

func TestHandler(t *testing.T) {
	var mark tierlock.Token
	broken := false
	raise := func(_ context.Context, _ tierlock.Key, token tierlock.Token) error {
		switch {
		case broken:
			return errors.New("database away")
		case token < mark:
			return guard.ErrStale
		}
		mark = token
		return nil
	}
	served := 0
	h := guard.Handler(func(r *http.Request) (tierlock.Key, error) { return tierlock.ParseKey(r.URL.Query().Get("key")) },
		raise, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	ask := func(key, token string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/?key="+key, nil)
		if token != "" {
			r.Header.Set(guard.TokenHeader, token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for i, c := range []struct {
		key, token string
		want       int
	}{
		{"k", "5", 200},
		{"k", "5", 200},
		{"k", "4", 412},
		{"k", "6", 200},
		{"k", "5", 412},
		{"k", "", 428},
		{"k", "x", 400},
		{"", "7", 400},
	} {
		if got := ask(c.key, c.token); got != c.want {
			t.Errorf("step %d: key %q token %q: %d, want %d", i, c.key, c.token, got, c.want)
		}
	}
	broken = true
	if got := ask("k", "9"); got != 503 {
		t.Errorf("mark not raised: %d", got)
	}
	if served != 3 {
		t.Errorf("next was served %s times, want 3", strconv.Itoa(served))
	}
}
