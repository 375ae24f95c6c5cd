package daemon

import (
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/metrics"
)

// TestDamageShowsInHealthAndMetricsOfAProcessThatRuns: a disk that has spoiled one event is
// seen by whoever asks, and not only by who runs fsck.
func TestDamageShowsInHealthAndMetricsOfAProcessThatRuns(t *testing.T) {
	for name, c := range map[string]struct {
		spoil   func(content []byte) []byte
		status  string
		reason  string
		metrics []string
	}{
		"nothing": {func(b []byte) []byte { return b }, statusOK, "", []string{"tierlock_spool_damaged_total 0", "tierlock_spool_torn_bytes 0"}},
		"an event": {func(b []byte) []byte {
			b[bytes.Index(b, []byte(`"chain"`))] ^= 1
			return b
		}, statusDegraded, "events on the disk could not be read back", []string{"tierlock_spool_damaged_total 1", "tierlock_spool_gaps_total 1"}},
		"the end": {func(b []byte) []byte { return append(b, "torn"...) }, statusOK, "", []string{"tierlock_spool_damaged_total 0", "tierlock_spool_torn_bytes 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "spool")
			recorded(t, dir, "shop-1", 3)
			segments, err := filepath.Glob(filepath.Join(dir, "*.seg"))
			if err != nil || len(segments) != 1 {
				t.Fatalf("%v, %v", segments, err)
			}
			content, err := os.ReadFile(segments[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(segments[0], c.spoil(content), 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := audit.Open(audit.Config{Dir: dir, Producer: "shop-1", Heartbeat: time.Hour, Sink: takesAll{}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := l.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			for range 2 { // the gap event comes behind what was there
				if err := l.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			h := healthOf("v", gateway.Status{}, switchHealth{}, l)
			if spool := h.Details.(health).Spool; h.Status != c.status || spool.Why != c.reason {
				t.Errorf("%s, spool %+v", h.Status, spool)
			}
			reg := prometheus.NewRegistry()
			m, err := metrics.New(reg)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Observe(nil, l, nil); err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
			for _, want := range c.metrics {
				if !strings.Contains(w.Body.String(), "\n"+want+"\n") {
					t.Errorf("the scrape lacks %s", want)
				}
			}
		})
	}
}
