package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tierlock/tierlock"
)

func TestBadInputIsRefusedWithFieldValueAndRule(t *testing.T) {
	const tryFields = "want key, request_id, wait_ms, ttl_ms, entry, business"
	const key = `{"key":"biz:order:lock:1",`
	const aboutFields = "type, id, op, delta, before, after"
	for name, c := range map[string]struct{ path, body, want string }{
		"bad byte in the key":         {"/v1/try", `{"key":"biz:order:lock:a b"}`, `{"error":"invalid","field":"key","value":"biz:order:lock:a b","rule":"byte ' ' at 16 is not one of a-z A-Z 0-9 _ : . -"}`},
		"empty key":                   {"/v1/try", `{"key":""}`, `{"error":"invalid","field":"key","rule":"want 1 to 256 bytes, got 0"}`},
		"no key":                      {"/v1/try", `{}`, `{"error":"invalid","field":"key","rule":"is missing"}`},
		"key of an unknown chain":     {"/v1/try", `{"key":"biz:nosuch:lock:1"}`, `{"error":"invalid","field":"key","value":"biz:nosuch:lock:1","rule":"chain nosuch is not configured; there are coupon, guarded, order"}`},
		"bare key":                    {"/v1/unlock", `{"key":"10086","request_id":"` + idA + `"}`, `{"error":"invalid","field":"key","value":"10086","rule":"want biz:<chain>:lock:<id>"}`},
		"key is a number":             {"/v1/try", `{"key":1}`, `{"error":"invalid","field":"key","value":"1","rule":"want a string"}`},
		"key is null":                 {"/v1/try", `{"key":null}`, `{"error":"invalid","field":"key","value":"null","rule":"want a string"}`},
		"id never comes back":         {"/v1/try", `{"key":"biz:order:lock:1","request_id":"` + strings.ToUpper(idA) + `"}`, `{"error":"invalid","field":"request_id","rule":"byte at 1 is not a lower-case hex digit"}`},
		"id with dashes":              {"/v1/try", `{"key":"biz:order:lock:1","request_id":"6f3b0c9d-e25a-4718-b0a1-c2d3e4f50617"}`, `{"error":"invalid","field":"request_id","rule":"want 32 lower-case hex digits, got 36 bytes"}`},
		"unlock without an id":        {"/v1/unlock", `{"key":"biz:order:lock:1"}`, `{"error":"invalid","field":"request_id","rule":"is missing"}`},
		"unknown field":               {"/v1/try", `{"key":"biz:order:lock:1","ttl":"5s"}`, `{"error":"invalid","field":"ttl","rule":"is not a field of this method; ` + tryFields + `"}`},
		"field of another method":     {"/v1/unlock", `{"key":"biz:order:lock:1","request_id":"` + idA + `","ttl_ms":5000}`, `{"error":"invalid","field":"ttl_ms","rule":"is not a field of this method; want key, request_id, entry"}`},
		"other case of a field":       {"/v1/try", `{"Key":"biz:order:lock:1","key":"biz:order:lock:1"}`, `{"error":"invalid","field":"Key","rule":"is not a field of this method; ` + tryFields + `"}`},
		"repeated field":              {"/v1/try", `{"key":"biz:order:lock:1","key":"biz:order:lock:2"}`, `{"error":"invalid","field":"key","rule":"is given twice"}`},
		"ttl too short":               {"/v1/try", `{"key":"biz:order:lock:1","ttl_ms":999}`, `{"error":"invalid","field":"ttl_ms","value":"999","rule":"want a whole number from 1000 to 600000"}`},
		"ttl too long":                {"/v1/renew", `{"key":"biz:order:lock:1","request_id":"` + idA + `","ttl_ms":600001}`, `{"error":"invalid","field":"ttl_ms","value":"600001","rule":"want a whole number from 1000 to 600000"}`},
		"ttl beyond any number":       {"/v1/try", `{"key":"biz:order:lock:1","ttl_ms":99999999999999999999}`, `{"error":"invalid","field":"ttl_ms","value":"99999999999999999999","rule":"want a whole number from 1000 to 600000"}`},
		"ttl with a fraction":         {"/v1/try", `{"key":"biz:order:lock:1","ttl_ms":1500.5}`, `{"error":"invalid","field":"ttl_ms","value":"1500.5","rule":"want a whole number from 1000 to 600000"}`},
		"ttl too short for the chain": {"/v1/try", `{"key":"biz:guarded:lock:1","ttl_ms":1400}`, `{"error":"invalid","field":"ttl_ms","value":"1.4s","rule":"want at least 3 times attempt 500ms"}`},
		"wait too long":               {"/v1/lock", `{"key":"biz:order:lock:1","wait_ms":2001}`, `{"error":"invalid","field":"wait_ms","value":"2001","rule":"want a whole number from 0 to 2000"}`},
		"wait below zero":             {"/v1/try", `{"key":"biz:order:lock:1","wait_ms":-1}`, `{"error":"invalid","field":"wait_ms","value":"-1","rule":"want a whole number from 0 to 2000"}`},
		"several faults at once":      {"/v1/try", `{"ttl_ms":5,"wait":1}`, `{"error":"invalid","field":"ttl_ms","value":"5","rule":"want a whole number from 1000 to 600000","more":[{"field":"wait","rule":"is not a field of this method; ` + tryFields + `"},{"field":"key","rule":"is missing"}]}`},
		"entry without a request":     {"/v1/try", key + `"entry":7}`, `{"error":"invalid","field":"request_id","rule":"is missing: it names the lock that entry enters"}`},
		"entry zero":                  {"/v1/unlock", key + `"request_id":"` + idA + `","entry":0}`, `{"error":"invalid","field":"entry","value":"0","rule":"want a whole number from 1 to 9007199254740991"}`},
		"entry beyond a JSON number":  {"/v1/held", key + `"request_id":"` + idA + `","entry":9007199254740992}`, `{"error":"invalid","field":"entry","value":"9007199254740992","rule":"want a whole number from 1 to 9007199254740991"}`},
		"entry is a string":           {"/v1/try", key + `"request_id":"` + idA + `","entry":"7"}`, `{"error":"invalid","field":"entry","value":"\"7\"","rule":"want a whole number from 1 to 9007199254740991"}`},
		"renew of an entry":           {"/v1/renew", key + `"request_id":"` + idA + `","entry":7}`, `{"error":"invalid","field":"entry","rule":"is not a field of this method; want key, request_id, ttl_ms"}`},
		"business is no object":       {"/v1/try", key + `"business":"coupon"}`, `{"error":"invalid","field":"business","value":"\"coupon\"","rule":"want an object with ` + aboutFields + `"}`},
		"business without its record": {"/v1/try", key + `"business":{}}`, `{"error":"invalid","field":"business.type","rule":"is missing","more":[{"field":"business.id","rule":"is missing"}]}`},
		"business, all faults":        {"/v1/try", key + `"business":{"type":1,"id":"","delta":"1","id":"a","kind":"b"}}`, `{"error":"invalid","field":"business.type","value":"1","rule":"want a string that is not empty","more":[{"field":"business.id","value":"\"\"","rule":"want a string that is not empty"},{"field":"business.delta","value":"\"1\"","rule":"want a whole number from -9007199254740991 to 9007199254740991"},{"field":"business.id","rule":"is given twice"},{"field":"business.kind","rule":"is not a field of business; want ` + aboutFields + `"}]}`},
		"business too long a word":    {"/v1/try", key + `"business":{"type":"a","id":"` + strings.Repeat("b", 257) + `"}}`, `{"error":"invalid","field":"business.id","value":"` + strings.Repeat("b", 64) + `…","rule":"want at most 256 bytes, got 257"}`},
		"no body":                     {"/v1/try", ``, `{"error":"invalid","field":"body","rule":"want one JSON object"}`},
		"an array":                    {"/v1/try", `[]`, `{"error":"invalid","field":"body","rule":"want one JSON object"}`},
		"half an object":              {"/v1/try", `{"key":"biz:order:lock:1"`, `{"error":"invalid","field":"body","rule":"want one JSON object"}`},
		"a second object":             {"/v1/try", `{"key":"biz:order:lock:1"}{}`, `{"error":"invalid","field":"body","rule":"something follows the JSON object"}`},
		"form fields":                 {"/v1/try", `key=biz:order:lock:1`, `{"error":"invalid","field":"body","rule":"want one JSON object"}`},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b bench) {
				b.want(c.path, c.body, "Bad Request "+c.want)
				if n := b.kit.Store.Counts(); n.Acquire+n.Lookup+n.Release+n.Renew != 0 {
					t.Errorf("the store was asked: %+v", n)
				}
			})
		})
	}
}

func TestABodyOver64KiBIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, b bench) {
		b.want("/v1/try", `{"key":"`+strings.Repeat("a", maxBody)+`"}`, `Request Entity Too Large {"error":"invalid","field":"body","rule":"at most 65536 bytes"}`)
	})
}

// FuzzReadRequest: whatever comes in, the answer is a request that keeps the rules or
// ErrInvalid; and what is accepted is one JSON object for encoding/json too.
func FuzzReadRequest(f *testing.F) {
	f.Add([]byte(keyA + `,"ttl_ms":15000,"wait_ms":0}`))
	f.Add([]byte(`{"key":"biz:order:lock:1"}`))
	f.Add([]byte(keyA + `,"entry":7,"business":{"type":"a","id":"b","delta":-1}}`))
	f.Add([]byte(`{"key":"a","key":"b"}`))
	f.Add([]byte(`{"key":"a"} x`))
	f.Add([]byte(`[{"key":1}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/v1/try", bytes.NewReader(body))
		req, err := readRequest(httptest.NewRecorder(), r, acquireShape)
		if err != nil {
			if len(tierlock.Invalids(err)) == 0 {
				t.Fatalf("%q: %v is no invalid input", body, err)
			}
			return
		}
		var object map[string]any
		if e := json.Unmarshal(body, &object); e != nil {
			t.Fatalf("accepted %q: %v", body, e)
		}
		if req.key.IsZero() || req.idGiven == req.id.IsZero() || req.ttl != 0 && (req.ttl < minTTL || req.ttl > maxTTL) || req.wait < 0 || req.wait > maxWait ||
			req.entry > maxNumber || req.about != nil && (req.about.Type == "" || req.about.ID == "") {
			t.Fatalf("accepted %q as %+v", body, req)
		}
		if _, err := tierlock.ParseKey(req.key.String()); err != nil {
			t.Fatal(err)
		}
	})
}
