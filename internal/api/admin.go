package api

import (
	"net/http"
)

var adminPages = []string{"/metrics", "/healthz", "/readyz", "/explain"}

// Admin is what the admin listener shows.
type Admin struct {
	Metrics http.Handler  // GET /metrics
	Health  func() Health // GET /healthz
	Ready   func() string // GET /readyz: why not, "" if ready
	Explain http.Handler  // POST /explain; nil: there is no gateway to explain
}

// Health is the body of /healthz. The process that answers it is alive, so the status is
// 200 whatever it says: a degraded daemon does what it is for, and must not be restarted
// or taken out of service in the very outage it was built for.
type Health struct {
	Status  string `json:"status"` // ok, or degraded: some chain is below shared
	Version string `json:"version"`
	Details any    `json:"details,omitempty"`
}

// Handler serves the admin pages; they are read-only.
func (a Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.Metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, a.Health())
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := a.Ready(); why != "" {
			writeJSON(w, http.StatusServiceUnavailable, map[string]any{"ready": false, "reason": why})
			return
		}
		writeJSON(w, http.StatusOK, map[string]any{"ready": true})
	})
	if a.Explain != nil {
		mux.Handle("/explain", a.Explain)
	}
	return mux
}
