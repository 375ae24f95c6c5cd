package reconcile

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/hostport"
)

// The headers of a webhook's question.
const (
	HeaderIdempotencyKey = "Idempotency-Key"    // the repair's key, see [Case.ID]: the same for every try
	HeaderTimestamp      = "Tierlock-Timestamp" // Unix seconds
	HeaderSignature      = "Tierlock-Signature" // see [SignWebhook]
)

// minSecret is the shortest secret in bytes: that of a key for HMAC-SHA256 by RFC 2104.
const minSecret = 32

// Webhook checks and repairs by asking the business service over HTTP. Use it as both
// fields of a [Hook]: [NewWebhook] makes that hook.
//
// The service must do a repair and keep its Idempotency-Key in one transaction, as a
// [SQLHook] does: an answer can be lost, and the same question then comes again.
type Webhook struct{ cfg WebhookConfig }

// WebhookConfig of a [Webhook].
type WebhookConfig struct {
	URL       string        // http or https; required
	Secret    []byte        // both sides know it; 32 bytes or more, required
	Action    string        // default "repair"
	CheckOnly bool          // nothing is repaired
	Timeout   time.Duration // of one question, default 5 s
	Client    *http.Client  // default http.DefaultClient; redirects are not followed whatever it says
}

// WebhookQuestion is the body of a POST.
type WebhookQuestion struct {
	Ask      string       `json:"ask"`   // check or repair
	Key      string       `json:"key"`   // as in Idempotency-Key
	Token    uint64       `json:"token"` // fencing token of the repair's own lock; 0 for a check
	Action   string       `json:"action"`
	Most     int64        `json:"most,omitempty"` // repair: leave it with 409 where more is wrong; 0: no bound
	Finding  string       `json:"finding"`
	Certain  bool         `json:"certain"`
	Causes   []Cause      `json:"causes"`
	Business wireBusiness `json:"business"` // of the loser
	Loser    Interval     `json:"loser"`
}

// WebhookAnswer is the body of a 200. A 409 to a repair says that more is wrong than Most.
// Any other status is a fault, and the question comes again.
type WebhookAnswer struct {
	Wrong  int64  `json:"wrong"`            // check: how much is wrong now
	Result Result `json:"result,omitempty"` // repair: applied, already or clean
}

// NewWebhook returns the [Hook] that cfg describes. It does no I/O.
func NewWebhook(cfg WebhookConfig) (Hook, error) {
	var errs []error
	if u, err := url.Parse(cfg.URL); err != nil || !hostport.ValidURL(u) || u.Scheme != "http" && u.Scheme != "https" {
		errs = append(errs, tierlock.Invalid("url", cfg.URL, "want http://host/path or https://host/path"))
	}
	if len(cfg.Secret) < minSecret {
		errs = append(errs, tierlock.Invalid("secret", strconv.Itoa(len(cfg.Secret))+" bytes", "want 32 or more"))
	}
	if cfg.Timeout < 0 {
		errs = append(errs, tierlock.Invalid("timeout", cfg.Timeout.String(), "want a duration of zero (5s) or more"))
	}
	if err := errors.Join(errs...); err != nil {
		return Hook{}, err
	}
	cfg.Timeout = or(cfg.Timeout, 5*time.Second)
	client := http.Client{}
	if cfg.Client != nil {
		client = *cfg.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	cfg.Client = &client
	h := &Webhook{cfg: cfg}
	hook := Hook{Action: cfg.Action, Check: h}
	if !cfg.CheckOnly {
		hook.Repair = h
	}
	return hook, nil
}

// Check implements [Checker].
func (h *Webhook) Check(ctx context.Context, c Case) (int64, error) {
	a, err := h.ask(ctx, "check", c)
	switch {
	case err != nil:
		return 0, err
	case a.Wrong == nil: // whoever answered does not know the question: that is not "nothing"
		return 0, errors.New(`reconcile: webhook's answer to a check has no "wrong"`)
	}
	return max(*a.Wrong, 0), nil
}

// Repair implements [Repairer].
func (h *Webhook) Repair(ctx context.Context, c Case) (Result, error) {
	a, err := h.ask(ctx, "repair", c)
	if err != nil {
		return ResultFailed, err
	}
	switch a.Result {
	case ResultApplied, ResultAlready, ResultClean, ResultUnchanged:
		return a.Result, nil
	}
	return ResultFailed, fmt.Errorf("reconcile: webhook answered result %q; want applied, already or clean", a.Result)
}

// mostAnswer bounds how much of an answer is read.
const mostAnswer = 64 << 10

// heard is a [WebhookAnswer] as it came.
type heard struct {
	Wrong  *int64 `json:"wrong"`
	Result Result `json:"result"`
}

func (h *Webhook) ask(ctx context.Context, what string, c Case) (a heard, err error) {
	body, err := json.Marshal(WebhookQuestion{
		Ask: what, Key: c.ID, Token: uint64(c.Grant.Token), Action: c.Action, Most: c.Most, Finding: c.Finding.ID, Certain: c.Finding.Certain,
		Causes: c.Finding.Causes, Business: wireBusiness(c.Business), Loser: c.Loser,
	})
	if err != nil {
		return a, fmt.Errorf("reconcile: webhook: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return a, fmt.Errorf("reconcile: webhook: %w", err)
	}
	now := time.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(HeaderIdempotencyKey, c.ID)
	req.Header.Set(HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(HeaderSignature, SignWebhook(h.cfg.Secret, now, body))
	res, err := h.cfg.Client.Do(req)
	if err != nil {
		return a, fmt.Errorf("reconcile: webhook: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, mostAnswer))
	if err != nil {
		return a, fmt.Errorf("reconcile: webhook: %w", err)
	}
	if res.StatusCode == http.StatusConflict && c.Most > 0 {
		return a, ErrMore
	}
	if res.StatusCode != http.StatusOK {
		return a, fmt.Errorf("reconcile: webhook answered %s", res.Status)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("reconcile: webhook's answer: %w", err)
	}
	return a, nil
}

// SignWebhook is "v1=" and the hex of HMAC-SHA256 over the Unix seconds of at, a dot and
// the body.
func SignWebhook(secret []byte, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(append(strconv.AppendInt(nil, at.Unix(), 10), '.'))
	mac.Write(body)
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}

// webhookAge is how old a question may be, or how far ahead, when it arrives.
const webhookAge = 5 * time.Minute

// ErrWebhook says that a question did not come from who knows the secret, or is too old.
var ErrWebhook = errors.New("reconcile: webhook not signed")

// ReadWebhook reads and verifies a question: what a service in Go does first.
func ReadWebhook(secret []byte, req *http.Request) (q WebhookQuestion, err error) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if err != nil {
		return q, err
	}
	seconds, err := strconv.ParseInt(req.Header.Get(HeaderTimestamp), 10, 64)
	at := time.Unix(seconds, 0)
	if err != nil || time.Since(at).Abs() > webhookAge || len(secret) < minSecret ||
		!hmac.Equal([]byte(SignWebhook(secret, at, body)), []byte(req.Header.Get(HeaderSignature))) {
		return q, ErrWebhook
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return q, err
	}
	if q.Key == "" || q.Key != req.Header.Get(HeaderIdempotencyKey) {
		return q, ErrWebhook // the header is not signed, the body is
	}
	return q, nil
}
