package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/tierlock/tierlock"
)

const (
	explainAtOnce = 4       // each asks the store, so no more of them
	explainBody   = 4 << 10 // bytes; a key has at most 256
)

// ExplainHandler answers POST with the body {"key":"…"} by [Gateway.Explain], as JSON. Mount
// it where admin pages are: it changes nothing and asks nobody for a password. The key stands
// in the body, so that it is in no access log. Four may ask at once; who comes on top is
// answered 429.
func (g *Gateway) ExplainHandler() http.Handler {
	slots := make(chan struct{}, explainAtOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			writeExplained(w, http.StatusMethodNotAllowed, problem{Error: "method_not_allowed", Rule: "want POST"})
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			w.Header().Set("Retry-After", "1")
			writeExplained(w, http.StatusTooManyRequests, problem{Error: "overloaded"})
			return
		}
		key, err := readKey(http.MaxBytesReader(w, r.Body, explainBody))
		var x *Explanation
		if err == nil {
			x, err = g.Explain(r.Context(), key)
		}
		switch {
		case err == nil:
			writeExplained(w, http.StatusOK, x)
		case errors.Is(err, tierlock.ErrClosed):
			writeExplained(w, http.StatusServiceUnavailable, problem{Error: "closed"})
		default:
			bad := tierlock.Invalids(err)[0] // Explain has no other errors
			writeExplained(w, http.StatusBadRequest, problem{Error: "invalid", Field: bad.Field, Value: bad.Value, Rule: bad.Rule})
		}
	})
}

// problem is the body of a question that has no answer, as the five methods write it.
type problem struct {
	Error string `json:"error"`
	Field string `json:"field,omitempty"`
	Value string `json:"value,omitempty"`
	Rule  string `json:"rule,omitempty"`
}

// readKey reads {"key":"…"} and nothing else.
func readKey(body io.Reader) (tierlock.Key, error) {
	var asked struct {
		Key *string `json:"key"`
	}
	dec := json.NewDecoder(body)
	dec.DisallowUnknownFields()
	err := dec.Decode(&asked)
	if _, more := dec.Token(); err != nil || more != io.EOF || asked.Key == nil {
		return tierlock.Key{}, tierlock.Invalid("body", "", `want {"key":"…"} and nothing else`)
	}
	return tierlock.ParseKey(*asked.Key)
}

func writeExplained(w http.ResponseWriter, status int, body any) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)                 // no page: <, > and & stand as they are
	if err := enc.Encode(body); err != nil { // a value of ours that has no word
		status = http.StatusInternalServerError
		text.Reset()
		text.WriteString(`{"error":"internal"}` + "\n")
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // a client that has gone cannot be told
}
