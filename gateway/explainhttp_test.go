package gateway_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock/gateway"
)

// asked is one question to the handler: the status and the body.
func asked(h http.Handler, method, body string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "/explain", strings.NewReader(body)))
	return w.Code, strings.TrimSpace(w.Body.String())
}

const explainA = `{"key":"biz:c:lock:a"}`

func TestTheHandlerAnswersWhatExplainTells(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		k.lease("a")
		code, body := asked(k.ExplainHandler(), http.MethodPost, explainA)
		want, err := json.Marshal(k.explain("a"))
		if err != nil || code != http.StatusOK || body != string(want) {
			t.Errorf("%d %s\nwant %s, %v", code, body, want, err)
		}
	})
}

func TestTheHandlerRefusesWhatIsNoQuestion(t *testing.T) {
	const noBody = `{"error":"invalid","field":"body","rule":"want {\"key\":\"…\"} and nothing else"}`
	bubble(t, weak(), func(t *testing.T, k one) {
		h := k.ExplainHandler()
		for name, c := range map[string]struct {
			method, body string
			code         int
			says         string
		}{
			"GET":           {http.MethodGet, explainA, 405, `{"error":"method_not_allowed","rule":"want POST"}`},
			"nothing":       {http.MethodPost, "", 400, noBody},
			"no key":        {http.MethodPost, "{}", 400, noBody},
			"unknown field": {http.MethodPost, `{"key":"biz:c:lock:a","id":"b"}`, 400, noBody},
			"more behind":   {http.MethodPost, explainA + "{}", 400, noBody},
			"no string":     {http.MethodPost, `{"key":7}`, 400, noBody},
			"far too long":  {http.MethodPost, `{"key":"` + strings.Repeat("a", 5000) + `"}`, 400, noBody},
			"a bad byte":    {http.MethodPost, `{"key":"biz:c:lock:a b"}`, 400, `{"error":"invalid","field":"key","value":"biz:c:lock:a b","rule":"byte ' ' at 12 is not one of a-z A-Z 0-9 _ : . -"}`},
			"signs":         {http.MethodPost, `{"key":"<a>&b"}`, 400, `{"error":"invalid","field":"key","value":"<a>&b","rule":"byte '<' at 0 is not one of a-z A-Z 0-9 _ : . -"}`},
			"no such chain": {http.MethodPost, `{"key":"biz:x:lock:a"}`, 400, `{"error":"invalid","field":"key","value":"biz:x:lock:a","rule":"chain x is not configured; there are c"}`},
		} {
			if code, body := asked(h, c.method, c.body); code != c.code || body != c.says {
				t.Errorf("%s: %d %s", name, code, body)
			}
		}
		if n := k.Store.Counts().Lookup; n != 0 {
			t.Errorf("the store was asked %d times", n)
		}
		k.End()
		if code, body := asked(h, http.MethodPost, explainA); code != 503 || body != `{"error":"closed"}` {
			t.Errorf("closed: %d %s", code, body)
		}
	})
}

// Each question asks the store, so many at once would be a load of their own, and the worst
// one while the store is slow.
func TestTheHandlerIsBounded(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		h := k.ExplainHandler()
		k.Store.Slow(100 * time.Millisecond)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if code, body := asked(h, http.MethodPost, explainA); code != 200 {
					t.Errorf("%d %s", code, body)
				}
			})
		}
		synctest.Wait()
		if code, body := asked(h, http.MethodPost, explainA); code != 429 || body != `{"error":"overloaded"}` {
			t.Errorf("the fifth: %d %s", code, body)
		}
		all.Wait()
		if code, _ := asked(h, http.MethodPost, explainA); code != 200 {
			t.Errorf("after the four: %d", code)
		}
	})
}

// An explanation takes no longer than an attempt, whatever hangs.
func TestAnExplanationComesInTime(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		k.Store.Hang(true)
		began := time.Now()
		x := k.explain("a")
		if took := time.Since(began); took > 220*time.Millisecond || x.Store.Found != "unknown" || x.Store.Fault != "attempt_timeout" {
			t.Errorf("after %v: %+v", took, x.Store)
		}
	}, gateway.Hooks{})
}
