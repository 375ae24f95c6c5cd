package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

const (
	idA = "6f3b0c9de25a4718b0a1c2d3e4f50617"
	idB = "00112233445566778899aabbccddeeff"
)

func chains() map[string]gateway.Policy {
	guarded := gateway.Strong("one sale of a sku at a time", gateway.Fence)
	guarded.Ladder.VersionGuard = true
	guarded.Attempt = 500 * time.Millisecond
	coupon := gateway.Weak("one claim of a coupon per user at a time", gateway.Reconcile)
	coupon.Ladder.OnDown = degrade.FallbackLocal
	return map[string]gateway.Policy{
		"order": gateway.Strong("one sale of a sku at a time", gateway.Fence), "guarded": guarded, "coupon": coupon,
	}
}

// bench is a handler on a kit, inside a bubble where time stands still unless told.
type bench struct {
	t   *testing.T
	kit *gatewaytest.Kit
	h   http.Handler
}

func bubble(t *testing.T, f func(t *testing.T, b bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kit := gatewaytest.New(t, chains())
		defer kit.End()
		f(t, bench{t, kit, New(Config{Gateway: kit.Gateway}).Handler()})
	})
}

// post returns status and body in one line, as docs/http.md writes them.
func (b bench) post(path, body string) string {
	b.t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Host = "127.0.0.1:7070"
	w := httptest.NewRecorder()
	b.h.ServeHTTP(w, r)
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		b.t.Errorf("%s: content type %q", path, got)
	}
	return strings.TrimSpace(http.StatusText(w.Code) + " " + w.Body.String())
}

func (b bench) want(path, body, want string) {
	b.t.Helper()
	if got := b.post(path, body); got != want {
		b.t.Errorf("%s %s\n got %s\nwant %s", path, body, got, want)
	}
}

const (
	keyA  = `{"key":"biz:order:lock:1","request_id":"` + idA + `"`
	keyB  = `{"key":"biz:order:lock:1","request_id":"` + idB + `"`
	grant = `OK {"outcome":"success","tier":"shared","key":"biz:order:lock:1","request_id":"` + idA + `","exclusive":true,"token":1,"expires_in_ms":14950,"replayed":false}`
	lost  = `Conflict {"outcome":"failure","reason":"lost"}`
)

func TestAnswersAreFieldForFieldTheContract(t *testing.T) {
	bubble(t, func(t *testing.T, b bench) {
		b.want("/v1/try", keyA+`,"wait_ms":0,"ttl_ms":15000}`, grant)
		time.Sleep(100 * time.Millisecond)
		b.want("/v1/try", keyA+`,"wait_ms":0,"ttl_ms":15000}`, strings.NewReplacer("14950", "14850", `"replayed":false`, `"replayed":true`).Replace(grant))
		b.want("/v1/try", keyB+`}`, `Conflict {"outcome":"failure","reason":"held","remaining_ms":14900,"holder":"`+fingerprint(t, idA)+`","retry_after_ms":20}`)
		b.want("/v1/held", keyA+`}`, `OK {"held":true,"remaining_ms":14850}`)
		b.want("/v1/held", keyB+`}`, `OK {"held":false,"remaining_ms":0}`)
		b.want("/v1/renew", keyA+`,"ttl_ms":30000}`, `OK {"outcome":"success","expires_in_ms":29950}`)
		b.want("/v1/renew", keyA+`}`, `OK {"outcome":"success","expires_in_ms":29950}`) // the chain's 15 s would shorten
		b.want("/v1/renew", keyB+`,"ttl_ms":30000}`, lost)
		b.want("/v1/unlock", keyB+`}`, lost)
		b.want("/v1/unlock", keyA+`}`, `OK {"outcome":"success"}`)
		b.want("/v1/unlock", keyA+`}`, lost)
		if n := b.kit.Store.Keys(); n != 0 {
			t.Errorf("%d keys left in the store", n)
		}
	})
}

func fingerprint(t *testing.T, id string) string {
	t.Helper()
	r, err := tierlock.ParseRequestID(id)
	if err != nil {
		t.Fatal(err)
	}
	return r.Fingerprint()
}

func TestTryWaitsWhenAskedAndLockTheChainsBudget(t *testing.T) {
	for name, c := range map[string]struct {
		path, fields string
		waits        time.Duration
	}{
		"try asks once":                       {"/v1/try", "", 0},
		"try with wait_ms 0 asks once":        {"/v1/try", `,"wait_ms":0`, 0},
		"try waits wait_ms":                   {"/v1/try", `,"wait_ms":500`, 500 * time.Millisecond},
		"lock waits the chain's wait":         {"/v1/lock", "", 300 * time.Millisecond},
		"lock takes wait_ms 0 for no opinion": {"/v1/lock", `,"wait_ms":0`, 300 * time.Millisecond},
		"lock waits wait_ms":                  {"/v1/lock", `,"wait_ms":700`, 700 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b bench) {
				b.want("/v1/try", keyA+`}`, grant)
				began := time.Now()
				got := b.post(c.path, keyB+c.fields+`}`)
				if !strings.HasPrefix(got, `Conflict {"outcome":"failure","reason":"held"`) {
					t.Errorf("answer %s", got)
				}
				if took := time.Since(began); took < c.waits-50*time.Millisecond || took > c.waits {
					t.Errorf("took %v, want about %v", took, c.waits)
				}
			})
		})
	}
}

func TestNothingTakenOverHTTPIsRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, b bench) {
		b.want("/v1/try", keyA+`}`, grant)
		time.Sleep(16 * time.Second)
		if n := b.kit.Store.Counts().Renew; n != 0 {
			t.Errorf("%d renewals", n)
		}
		b.want("/v1/held", keyA+`}`, `OK {"held":false,"remaining_ms":0}`)
		b.want("/v1/renew", keyA+`}`, lost)
	})
}

func TestOutcomesOfAStoreThatFails(t *testing.T) {
	const other = `","request_id":"` + idA + `"}`
	for name, c := range map[string]struct {
		breaks func(*gatewaytest.Kit)
		key    string
		want   string
	}{
		"silent, strong":                      {silent, "biz:order:lock:1", `Gateway Timeout {"outcome":"timeout","reason":"attempt_timeout","advice":"fail"}`},
		"silent, strong with a version guard": {silent, "biz:guarded:lock:1", `Gateway Timeout {"outcome":"timeout","reason":"attempt_timeout","advice":"optimistic"}`},
		"down, strong":                        {down, "biz:order:lock:1", `Service Unavailable {"outcome":"system_error","reason":"down","alert":"page"}`},
		"down, weak": {down, "biz:coupon:lock:1", `OK {"outcome":"success","tier":"local","reason":"down","key":"biz:coupon:lock:1","request_id":"` + idA +
			`","exclusive":false,"token":null,"expires_in_ms":9950,"replayed":false}`},
		"ordered to bypass": {bypass, "biz:coupon:lock:1", `OK {"outcome":"success","tier":"bypass","reason":"forced","key":"biz:coupon:lock:1","request_id":"` + idA +
			`","exclusive":false,"token":null,"expires_in_ms":14950,"replayed":false}`},
		"bypass that cannot be recorded": {unrecorded, "biz:coupon:lock:1", `Service Unavailable {"outcome":"system_error","reason":"unrecorded","alert":"page"}`},
		"ordered to reject":              {reject, "biz:coupon:lock:1", `Service Unavailable {"outcome":"system_error","reason":"forced","alert":"page"}`},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b bench) {
				c.breaks(b.kit)
				b.want("/v1/try", `{"key":"`+c.key+other, c.want)
			})
		})
	}
}

func silent(k *gatewaytest.Kit) { k.Store.Hang(true) }
func down(k *gatewaytest.Kit)   { k.Store.Down(true) }
func bypass(k *gatewaytest.Kit) { k.Force("coupon", tierlock.ModeBypass) }
func reject(k *gatewaytest.Kit) { k.Force("coupon", tierlock.ModeReject) }
func unrecorded(k *gatewaytest.Kit) {
	bypass(k)
	k.Audit.Fail(audit.ErrFailed)
}

func TestALockIsFoundAgainByItsIDAfterARestart(t *testing.T) {
	bubble(t, func(t *testing.T, b bench) {
		b.want("/v1/try", keyA+`}`, grant)
		second, err := gateway.New(gateway.Config{
			Chains: chains(), Stores: map[string]tierlock.Backend{"memory": b.kit.Store}, Audit: new(gatewaytest.Audit),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close(t.Context())
		after := bench{t, b.kit, New(Config{Gateway: second}).Handler()}
		after.want("/v1/held", keyA+`}`, `OK {"held":true,"remaining_ms":14950}`)
		after.want("/v1/renew", keyA+`,"ttl_ms":20000}`, `OK {"outcome":"success","expires_in_ms":19950}`)
		after.want("/v1/unlock", keyB+`}`, lost)
		after.want("/v1/unlock", keyA+`}`, `OK {"outcome":"success"}`)
		if n := b.kit.Store.Keys(); n != 0 {
			t.Errorf("%d keys left in the store", n)
		}
	})
}

func TestAServerDrawnIDReleasesTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, b bench) {
		got := b.post("/v1/try", `{"key":"biz:order:lock:1"}`)
		_, rest, ok := strings.Cut(got, `"request_id":"`)
		if !ok || len(rest) < 32 {
			t.Fatalf("no request id in %s", got)
		}
		b.want("/v1/unlock", `{"key":"biz:order:lock:1","request_id":"`+rest[:32]+`"}`, `OK {"outcome":"success"}`)
	})
}

func TestAClosedGatewaySaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, b bench) {
		b.kit.End()
		b.want("/v1/try", keyA+`}`, `Service Unavailable {"error":"closed"}`)
	})
}

func TestAnUnknownErrorSaysNoMore(t *testing.T) {
	w := httptest.NewRecorder()
	writeError(w, errors.New("dial tcp 10.1.2.3: secret"))
	if got := w.Body.String(); w.Code != 500 || got != `{"error":"internal"}`+"\n" {
		t.Errorf("%d %s", w.Code, got)
	}
}

// TestAClientThatHangsUpStillUnlocks: also where the lock has to be looked up first.
func TestAClientThatHangsUpStillUnlocks(t *testing.T) {
	bubble(t, func(t *testing.T, b bench) {
		b.want("/v1/try", keyA+`}`, grant)
		second, err := gateway.New(gateway.Config{
			Chains: chains(), Stores: map[string]tierlock.Backend{"memory": b.kit.Store}, Audit: new(gatewaytest.Audit),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close(t.Context())
		b.kit.Store.Slow(50 * time.Millisecond) // so that a canceled context is noticed
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		r := httptest.NewRequestWithContext(gone, http.MethodPost, "/v1/unlock", strings.NewReader(keyA+`}`))
		r.Host = "127.0.0.1"
		New(Config{Gateway: second}).Handler().ServeHTTP(httptest.NewRecorder(), r)
		if n := b.kit.Store.Keys(); n != 0 {
			t.Errorf("%d keys left in the store", n)
		}
	})
}
