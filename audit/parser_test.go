package audit_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// odd are texts at the edge of what the fast way takes: it must agree with Parse on each.
func odd() []string {
	const head = `{"v":1,"type":"acquire","id":"p/1/5","producer":"p","epoch":1,"seq":5,"prev":0,"chain":"c","key":"k","holder":"h","tier":"bypass"`
	const at = `,"granted_at":"2026-11-29T10:00:00.123456Z"`
	return []string{
		head + at + `}`, head + at + `} `, head + at + `}}`, head + `}`, head + at, `{}`, ``, `null`, `{"v":1}`,
		head + at + `,"ttl_ms":-1}`, head + at + `,"ttl_ms":1000000000001}`, head + at + `,"ttl_ms":01}`, head + at + `,"ttl_ms":1e3}`,
		head + at + `,"ttl_ms":1.5}`, head + at + `,"clock_error_us":1000000000000001}`, head + at + `,"token":18446744073709551616}`,
		head + at + `,"token":null}`, head + at + `,"token":"5"}`, head + at + `,"new":{"a":[1]}}`, head + at + `,"seq":6}`,
		head + at + `,"CHAIN":"d"}`, head + at + `,"store":"\u00e4"}`, head + at + `,"store":"ä"}`, head + at + ",\"store\":\"\x80\"}",
		head + at + `,"business":{"type":"t","id":"i","delta":-3,"before":-0,"after":7}}`, head + at + `,"business":{}}`,
		head + at + `,"business":null,"switch":{"version":3,"reason":"r","more":1}}`, head + at + `,"exclusive":tru}`,
		head + `,"granted_at":"2026-02-29T10:00:00Z"}`, head + `,"granted_at":"2024-02-29T10:00:00Z"}`, head + `,"granted_at":"2026-11-29T24:00:00Z"}`,
		head + `,"granted_at":"2026-11-29T10:00:60Z"}`, head + `,"granted_at":"2026-11-29T10:00:00+01:00"}`, head + `,"granted_at":"2026-11-29T10:00:00.Z"}`,
		head + `,"granted_at":"2026-11-29T10:00:00.1234567891Z"}`, head + `,"granted_at":"2026-11-29T10:00:00,5Z"}`, head + `,"granted_at":"0000-01-01T00:00:00Z"}`,
		head + `,"granted_at":"2026-11-29t10:00:00z"}`, head + `,"granted_at":"0001-01-01T00:00:00Z"}`,
	}
}

func same(t *testing.T, p *audit.Parser, text []byte) {
	t.Helper()
	want, wantErr := audit.Parse(text)
	got, gotErr := p.Parse(text)
	if (wantErr == nil) != (gotErr == nil) || wantErr != nil && wantErr.Error() != gotErr.Error() {
		t.Fatalf("%s\nerror %v, want %v", text, gotErr, wantErr)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s\nread as %+v\nwant %+v", text, got, want)
	}
}

// A Parser gives what Parse gives, for every event there is and for texts at the edge.
func TestParserAgreesWithParse(t *testing.T) {
	t.Parallel()
	var p audit.Parser
	for _, ev := range samples(t) {
		same(t, &p, ev.AppendJSON(nil))
	}
	for _, text := range odd() {
		same(t, &p, []byte(text))
	}
}

func FuzzParser(f *testing.F) {
	for _, ev := range samples(f) {
		f.Add(ev.AppendJSON(nil))
	}
	for _, text := range odd() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var p audit.Parser
		same(t, &p, text)
		same(t, &p, text) // with its words known
	})
}

// What is read must not change with the buffer that it was read from.
func TestParserKeepsNothingOfTheText(t *testing.T) {
	t.Parallel()
	var p audit.Parser
	ev := parserEvent(t)
	text := ev.AppendJSON(nil)
	got, err := p.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	clear(text)
	if got.Key != ev.Key || got.Holder != ev.Holder || got.Chain != ev.Chain || got.Business != ev.Business {
		t.Fatalf("changed to %+v", got)
	}
}

func parserEvent(tb testing.TB) audit.Event {
	tb.Helper()
	key, err := tierlock.ParseKey("biz:coupon:lock:u42-c7")
	if err != nil {
		tb.Fatal(err)
	}
	return audit.Event{
		Type: audit.TypeEnd, Chain: "coupon", Key: key, Holder: "9f2c1d0a77b3e610", Tier: tierlock.Bypass, How: audit.Released, Outcome: audit.Committed,
		GrantedAt: time.Date(2026, 11, 29, 10, 0, 0, 123456000, time.UTC), EndedAt: time.Date(2026, 11, 29, 10, 0, 0, 151201000, time.UTC),
		ClockError: 812 * time.Microsecond, Producer: "shop-order-1", Epoch: 7, Seq: 1052, Prev: 1041,
		Business: audit.Business{Type: "coupon", ID: "u42-c7", Op: "claim", Delta: 1},
	}
}

// An allocation each for key, holder and business id, and no more.
func BenchmarkParser(b *testing.B) {
	ev := parserEvent(b)
	text := ev.AppendJSON(nil)
	b.Run("plain", func(b *testing.B) {
		var p audit.Parser
		b.ReportAllocs()
		for b.Loop() {
			if _, err := p.Parse(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := audit.Parse(text); err != nil {
				b.Fatal(err)
			}
		}
	})
}
