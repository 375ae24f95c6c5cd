package reconcile

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// Whether <, > and & are escaped is for whoever writes the whole to say.
func TestAnIntervalLeavesItToTheWriterWhatIsEscaped(t *testing.T) {
	f := Finding{Members: []Interval{{Tier: tierlock.Shared, Business: audit.Business{Type: "order", ID: "a<b>&c"}}}}
	for escaped, want := range map[bool]string{false: `"id":"a<b>&c"`, true: `"id":"a\u003cb\u003e\u0026c"`} {
		var text strings.Builder
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(escaped)
		if err := enc.Encode(f); err != nil || !strings.Contains(text.String(), want) {
			t.Errorf("escaped %t: no %s in %s, %v", escaped, want, &text, err)
		}
	}
}
