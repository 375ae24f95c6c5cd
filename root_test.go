package tierlock_test

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tierlock/tierlock"
)

func TestParseKey(t *testing.T) {
	for _, good := range []string{"a", "biz:order:lock:10086", "A_z:.-09", strings.Repeat("k", 256)} {
		if k, err := tierlock.ParseKey(good); err != nil || k.String() != good {
			t.Errorf("ParseKey(%.20q) = %q, %v", good, k, err)
		}
	}
	for bad, want := range map[string]string{
		"":                       "got 0",
		strings.Repeat("k", 257): "got 257",
		"biz:order:lock:a b":     `byte ' ' at 16 is not one of a-z A-Z 0-9 _ : . -`,
		"a{b}":                   "byte '{' at 1",
		"键":                      "byte 0xe9 at 0",
		"a\r\n":                  "byte 0x0d at 1",
		"a\x00":                  "byte 0x00 at 1",
	} {
		_, err := tierlock.ParseKey(bad)
		var inv *tierlock.InvalidError
		if !errors.Is(err, tierlock.ErrInvalid) || !errors.As(err, &inv) || inv.Field != "key" || !strings.Contains(inv.Rule, want) {
			t.Errorf("ParseKey(%.20q): %v, want rule with %q", bad, err, want)
		}
	}
}

func TestKeyHashIsFNV1a(t *testing.T) {
	k, err := tierlock.ParseKey("foobar")
	if err != nil {
		t.Fatal(err)
	}
	if got := k.Hash(); got != 0x85944171f73967e8 { // FNV-1a 64 of "foobar", from its authors' test suite
		t.Errorf("Hash = %#x", got)
	}
}

func TestRequestIDShowsItsFingerprintOnly(t *testing.T) {
	id := tierlock.NewRequestID()
	secret, fp := id.Secret(), id.Fingerprint()
	if back, err := tierlock.ParseRequestID(secret); err != nil || back != id {
		t.Fatalf("round trip: %v, %v", back, err)
	}
	if len(fp) != 16 || strings.Contains(secret, fp) {
		t.Fatalf("fingerprint %q of %q", fp, secret)
	}
	if added := id.AppendFingerprint([]byte("x")); string(added) != "x"+fp {
		t.Fatalf("added %q, want x%s", added, fp)
	}
	js, err := json.Marshal(struct{ ID tierlock.RequestID }{id})
	if err != nil {
		t.Fatal(err)
	}
	shown := string(js) + id.LogValue().String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		shown += fmt.Sprintf(verb, id) + fmt.Sprintf(verb, tierlock.Grant{RequestID: id})
	}
	if strings.Contains(shown, secret) || strings.Contains(strings.ToLower(shown), secret[:8]) {
		t.Errorf("the secret %s shows in %s", secret, shown)
	}
}

func TestParseRequestID(t *testing.T) {
	for _, bad := range []string{"", strings.Repeat("0", 32), strings.Repeat("A", 32), strings.Repeat("a", 31), "123e4567-e89b-12d3-a456-426614174000"} {
		_, err := tierlock.ParseRequestID(bad)
		if !errors.Is(err, tierlock.ErrInvalid) || len(bad) > 8 && strings.Contains(err.Error(), bad) {
			t.Errorf("ParseRequestID(%q): %v", bad, err)
		}
	}
}

// The words stand in files, on the wire and in events: none may change or move.
func TestWords(t *testing.T) {
	testWords[tierlock.Tier](t, "tier", "shared", "optimistic", "local", "bypass")
	testWords[tierlock.Scope](t, "scope", "none", "process", "cluster")
	testWords[tierlock.Mode](t, "mode", "auto", "shared", "optimistic", "local", "bypass", "reject")
	testWords[tierlock.Outcome](t, "outcome", "success", "failure", "timeout", "system_error")
	testWords[tierlock.Advice](t, "advice", "retry", "optimistic", "fail")
	testWords[tierlock.Alert](t, "alert", "info", "warn", "page")
}

// word is what every closed set of words can do.
type word[T any] interface {
	*T
	fmt.Stringer
	encoding.TextMarshaler
	encoding.TextUnmarshaler
}

func testWords[T ~uint8, P word[T]](t *testing.T, name string, words ...string) {
	t.Run(name, func(t *testing.T) {
		for i, want := range words {
			v, back := T(i+1), T(0)
			text, err := P(&v).MarshalText()
			if err != nil || string(text) != want || P(&v).String() != want || P(&back).UnmarshalText(text) != nil || back != v {
				t.Errorf("%d is %q, %v, and back %d; want %q", v, text, err, back, want)
			}
		}
		for _, none := range []T{0, T(len(words) + 1), 255} {
			if text, err := P(&none).MarshalText(); !errors.Is(err, tierlock.ErrInvalid) {
				t.Errorf("%d, which is none, marshals as %q, %v", none, text, err)
			}
		}
		kept := T(1)
		for _, bad := range []string{"", "invalid", strings.ToUpper(words[0]), words[0] + " "} {
			if err := P(&kept).UnmarshalText([]byte(bad)); !errors.Is(err, tierlock.ErrInvalid) || kept != 1 {
				t.Errorf("%q: %v, and %d", bad, err, kept)
			}
		}
	})
}

func TestErrorsTellOutcomesApart(t *testing.T) {
	all := []error{tierlock.ErrHeld, tierlock.ErrTimeout, tierlock.ErrSystem, tierlock.ErrOptimistic, tierlock.ErrLost}
	for name, c := range map[string]struct {
		v    tierlock.Verdict
		want []error
	}{
		"held":       {tierlock.Verdict{Outcome: tierlock.Failure, Reason: tierlock.ReasonHeld}, all[:1]},
		"timeout":    {tierlock.Verdict{Outcome: tierlock.Timeout, Reason: tierlock.ReasonAttempt}, all[1:2]},
		"optimistic": {tierlock.Verdict{Outcome: tierlock.Timeout, Reason: tierlock.ReasonSlow, Advice: tierlock.AdviseOptimistic}, []error{tierlock.ErrTimeout, tierlock.ErrOptimistic}},
		"system":     {tierlock.Verdict{Outcome: tierlock.SystemError, Reason: tierlock.ReasonDown}, all[2:3]},
		"lost":       {tierlock.Verdict{Outcome: tierlock.Failure, Reason: tierlock.ReasonLost}, all[4:]},
	} {
		err := fmt.Errorf("wrapped: %w", &tierlock.Error{Op: "acquire", Verdict: c.v})
		for _, s := range all {
			want := slices.Contains(c.want, s)
			if errors.Is(err, s) != want {
				t.Errorf("%s: Is(%v) = %v", name, s, !want)
			}
		}
	}
}

func TestInvalidsFindsEveryRefusedInput(t *testing.T) {
	a, b, c := tierlock.Invalid("a", "", "want a"), tierlock.Invalid("b", "", "want b"), tierlock.Invalid("c", "", "want c")
	var fields []string
	for _, e := range tierlock.Invalids(errors.Join(fmt.Errorf("in file: %w", errors.Join(a, context.Canceled)), &tierlock.Error{Err: b}, c)) {
		fields = append(fields, e.Field)
	}
	if !slices.Equal(fields, []string{"a", "b", "c"}) {
		t.Errorf("found %v", fields)
	}
	if got := tierlock.Invalids(context.Canceled); got != nil || tierlock.Invalids(nil) != nil {
		t.Errorf("found %v where there is none", got)
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add("biz:order:lock:1")
	f.Fuzz(func(t *testing.T, s string) {
		if k, err := tierlock.ParseKey(s); err == nil && (k.String() != s || len(s) > 256 || strings.ContainsAny(s, " {}\r\n\x00")) {
			t.Errorf("accepted %q", s)
		}
	})
}
