package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

// BenchmarkTryUnlock is one pair over the handler, without a network, on a store in
// memory: what HTTP and JSON add to the gateway.
func BenchmarkTryUnlock(b *testing.B) {
	kit := gatewaytest.New(b, chains())
	h := New(Config{Gateway: kit.Gateway}).Handler()
	b.ReportAllocs()
	for b.Loop() {
		for _, path := range []string{"/v1/try", "/v1/unlock"} {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(keyA+"}"))
			r.Host = "127.0.0.1"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				b.Fatal(w.Code, w.Body)
			}
		}
	}
}
