package gateway_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

// A lock and an option may be printed by anybody; the request id in them releases the lock.
func TestNoVerbShowsTheRequestID(t *testing.T) {
	t.Parallel()
	kit := gatewaytest.New(t, map[string]gateway.Policy{"order": gateway.Strong("one at a time", gateway.Cancel)})
	orders, err := kit.Chain("order")
	if err != nil {
		t.Fatal(err)
	}
	id, err := tierlock.ParseRequestID("00112233445566778899aabbccddeeff")
	if err != nil {
		t.Fatal(err)
	}
	option := gateway.WithRequestID(id)
	lock, err := orders.TryLock(t.Context(), "1", option)
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, what := range []any{lock, option, []any{lock, option}, struct{ L *gateway.Lock }{lock}, (*gateway.Lock)(nil)} {
			fmt.Fprintf(&shown, verb+"\n", what)
		}
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&shown, nil), slog.NewJSONHandler(&shown, nil)} {
		slog.New(h).Info("lock", "lock", lock, "option", option)
	}
	text := strings.ToLower(shown.String())
	for _, secret := range []string{id.Secret(), "17 34 51 68", "0x11, 0x22", "11223344"} { // hex, decimal and Go syntax of its bytes
		if strings.Contains(text, secret) {
			t.Errorf("%q of the request id shows in\n%s", secret, text)
		}
	}
	if !strings.Contains(text, id.Fingerprint()) || !strings.Contains(text, "biz:order:lock:1") {
		t.Errorf("the lock does not say which it is:\n%s", text)
	}
}
