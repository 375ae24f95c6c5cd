package daemon

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/reconcile"
)

// What hangs in the job turns its health, and only that is told: not where the database is.
func TestHealthTellsWhatTheJobIsStuckAt(t *testing.T) {
	well := healthOf("v", gateway.Status{}, switchHealth{}, nil)
	if h := troubled(well, nil); h.Status != statusOK {
		t.Errorf("%+v", h)
	}
	at := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	h := troubled(well, []reconcile.Trouble{{Step: "store_finding", Since: at, Hangs: true}})
	text, err := json.Marshal(h)
	if err != nil || h.Status != statusDegraded || !strings.Contains(string(text), `"troubles":[{"step":"store_finding","since":"2026-11-29T10:00:00Z","hangs":true}]`) {
		t.Errorf("%s, %v", text, err)
	}
}
