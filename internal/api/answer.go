package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/tierlock/tierlock"
)

// granted is the body of a successful try or lock.
type granted struct {
	Outcome     tierlock.Outcome `json:"outcome"`
	Tier        tierlock.Tier    `json:"tier"`
	Reason      tierlock.Reason  `json:"reason,omitempty"` // why it is not plainly shared
	Key         tierlock.Key     `json:"key"`
	RequestID   string           `json:"request_id"` // the secret: this answer is the only place that shows it
	Entry       uint64           `json:"entry,omitempty"`
	Exclusive   bool             `json:"exclusive"`
	Token       *tierlock.Token  `json:"token"` // null: this tier or chain has none
	ExpiresInMS int64            `json:"expires_in_ms"`
	Replayed    bool             `json:"replayed"`
}

func grantBody(g tierlock.Grant, why tierlock.Reason, at time.Time) granted {
	b := granted{
		Outcome: tierlock.Success, Tier: g.Tier, Reason: why, Key: g.Key, RequestID: g.RequestID.Secret(),
		Exclusive: g.Exclusive, ExpiresInMS: left(g.ExpiresAt, at), Replayed: g.Replayed,
	}
	if g.Token != 0 {
		b.Token = &g.Token
	}
	return b
}

// refused is the body of the three outcomes that are not success. Which fields it has
// depends on the outcome, see verdictBody.
type refused struct {
	Outcome      tierlock.Outcome `json:"outcome"`
	Reason       tierlock.Reason  `json:"reason"`
	RemainingMS  int64            `json:"remaining_ms,omitempty"`
	Holder       string           `json:"holder,omitempty"`
	RetryAfterMS int64            `json:"retry_after_ms,omitempty"`
	Advice       string           `json:"advice,omitempty"`
	Alert        string           `json:"alert,omitempty"`
}

// verdictBody returns the status and body of a verdict other than success.
func verdictBody(v tierlock.Verdict) (int, refused) {
	b := refused{Outcome: v.Outcome, Reason: v.Reason}
	switch v.Outcome {
	case tierlock.Failure:
		b.RemainingMS, b.Holder, b.RetryAfterMS = v.Remaining.Milliseconds(), v.Holder, v.RetryAfter.Milliseconds()
		return http.StatusConflict, b
	case tierlock.Timeout:
		if v.Advice != 0 {
			b.Advice = v.Advice.String()
		}
		return http.StatusGatewayTimeout, b
	default:
		if v.Alert != 0 {
			b.Alert = v.Alert.String()
		}
		return http.StatusServiceUnavailable, b
	}
}

// done is the body of a successful unlock and renew.
type done struct {
	Outcome     tierlock.Outcome `json:"outcome"`
	ExpiresInMS *int64           `json:"expires_in_ms,omitempty"` // renew only
}

// held is the body of /v1/held.
type held struct {
	Held        bool  `json:"held"`
	RemainingMS int64 `json:"remaining_ms"`
}

// problem is the body of a request that never became one.
type problem struct {
	Error string  `json:"error"` // invalid, closed, overloaded, not_found, method_not_allowed, forbidden, internal
	Field string  `json:"field,omitempty"`
	Value string  `json:"value,omitempty"`
	Rule  string  `json:"rule,omitempty"`
	More  []fault `json:"more,omitempty"` // the other faults of the same request
}

type fault struct {
	Field string `json:"field"`
	Value string `json:"value,omitempty"`
	Rule  string `json:"rule"`
}

// writeError answers with what err is: a verdict, refused input, a closed gateway.
// Anything else is a fault of ours and says no more than that.
func writeError(w http.ResponseWriter, err error) {
	var verdict *tierlock.Error
	switch faults := faultsOf(err); {
	case errors.As(err, &verdict) && verdict.Outcome != 0:
		status, body := verdictBody(verdict.Verdict)
		writeJSON(w, status, body)
	case len(faults) > 0:
		status := http.StatusBadRequest
		if errors.Is(err, errTooBig) {
			status = http.StatusRequestEntityTooLarge
		}
		writeJSON(w, status, problem{Error: "invalid", Field: faults[0].Field, Value: faults[0].Value, Rule: faults[0].Rule, More: faults[1:]})
	case errors.Is(err, tierlock.ErrClosed):
		writeJSON(w, http.StatusServiceUnavailable, problem{Error: "closed"})
	default:
		writeJSON(w, http.StatusInternalServerError, problem{Error: "internal"})
	}
}

// faultsOf are the refused inputs in err, as the wire has them.
func faultsOf(err error) (all []fault) {
	for _, e := range tierlock.Invalids(err) {
		all = append(all, fault{Field: e.Field, Value: clip(e.Value), Rule: e.Rule})
	}
	return all
}

// onWire names the field of a fault that the gateway found as the wire does: the gateway
// speaks of durations, the wire of milliseconds.
func onWire(err error) error {
	if e, ok := errors.AsType[*tierlock.InvalidError](err); ok && (e.Field == "ttl" || e.Field == "wait") {
		return tierlock.Invalid(e.Field+"_ms", e.Value, e.Rule)
	}
	return err
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)                 // no page: <, > and & stand as they are
	if err := enc.Encode(body); err != nil { // a value of ours that cannot be written: an invalid tier or outcome
		status = http.StatusInternalServerError
		text.Reset()
		text.WriteString(`{"error":"internal"}` + "\n")
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store") // the answer to a grant holds a secret
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // a client that has gone cannot be told
}

// left is whole milliseconds from at to end, never below 0.
func left(end, at time.Time) int64 { return max(0, end.Sub(at).Milliseconds()) }
