package audit_test

import (
	"encoding/json"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

var update = flag.Bool("update", false, "write the golden files anew")

func key(t testing.TB, s string) tierlock.Key {
	t.Helper()
	k, err := tierlock.ParseKey(s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func at(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func ptr[T any](v T) *T { return &v }

// samples is one event of every kind, by the name of its golden file. The first two are
// the published examples, field by field and in their order.
func samples(t testing.TB) map[string]audit.Event {
	granted, ended := at(t, "2026-11-29T10:00:00.123456Z"), at(t, "2026-11-29T18:00:00.151201+08:00")
	here := func(e audit.Event, seq, prev uint64) audit.Event {
		e.Producer, e.Epoch, e.Seq, e.Prev = "shop-order-1", 7, seq, prev
		return e
	}
	hold := audit.Event{
		Type: audit.TypeAcquire, Chain: "coupon", Key: key(t, "biz:coupon:lock:u42-c7"), Holder: "9f2c1d0a77b3e610",
		Tier: tierlock.Bypass, Store: "bypass", GrantedAt: granted, TTL: 15 * time.Second, ClockError: 812 * time.Microsecond,
		Switch:   audit.Switch{Version: 42, Reason: "Redis under DDoS"},
		Business: audit.Business{Type: "coupon", ID: "u42-c7", Op: "claim", Delta: 1},
	}
	end := hold
	end.Type, end.How, end.Outcome, end.EndedAt = audit.TypeEnd, audit.Released, audit.Committed, ended
	end.TTL, end.Switch, end.Business = 0, audit.Switch{}, audit.Business{}
	shared := hold
	shared.Tier, shared.Store, shared.Exclusive, shared.Token = tierlock.Shared, "redis", true, 1764496800123456
	shared.MaxHold, shared.Switch = 10*time.Minute, audit.Switch{}
	shared.Business = audit.Business{Type: "stock", ID: "sku \"7\" <&>\n\xff日", Before: ptr(int64(5)), After: ptr(int64(0))}
	optimistic := end
	optimistic.Type, optimistic.Tier, optimistic.How, optimistic.EndedAt = audit.TypeOptimistic, tierlock.Optimistic, "", time.Time{}
	optimistic.Outcome, optimistic.Reason = audit.RolledBack, tierlock.ReasonSlow
	extra := hold
	extra.Extra = map[string]json.RawMessage{"x_later": json.RawMessage(`{"a":[1,2]}`), "another": json.RawMessage(`null`)}
	return map[string]audit.Event{
		"acquire":    here(hold, 1041, 1038),
		"end":        here(end, 1052, 1041),
		"shared":     here(shared, 1, 0),
		"optimistic": here(optimistic, 1053, 0),
		"extra":      here(extra, 1041, 1038),
		"hello":      here(audit.Event{Type: audit.TypeHello, At: granted}, 1, 0),
		"heartbeat": here(audit.Event{
			Type: audit.TypeHeartbeat, At: granted, First: 1, Last: 1060, Oldest: ended, Applied: 42, PolicyHash: "5d41",
			Tiers: map[string]string{"order": "shared", "coupon": "bypass"},
		}, 1061, 1052),
		"news": here(audit.Event{
			Type: audit.TypeHeartbeat, At: ended, First: 1, Last: 1060, PolicyHash: "5d41", Tiers: map[string]string{"coupon": "local"},
			Steps: []audit.Step{
				{At: granted, Chain: "coupon", From: "normal", To: "down", Reason: tierlock.ReasonDown, Dwell: 1500 * time.Millisecond, Epoch: 1},
				{At: ended, Chain: "trial", Target: "shard-2", From: "recovering", To: "normal", Dwell: 4 * time.Second, Epoch: 3, Observed: true},
			},
			Replaced: []audit.Replaced{{At: granted, Store: "main"}, {At: ended, Store: "main", Target: "shard-2"}},
		}, 1062, 1061),
		"refused": here(audit.Event{
			Type: audit.TypeHeartbeat, At: granted, First: 1, Last: 1060, PolicyHash: "5d41", Tiers: map[string]string{},
			Refused: audit.Refused{"order": {"timeout slow": 2, "system_error down": 7}, "coupon": {"timeout canceled": 1}},
		}, 1062, 1061),
		"seal": here(audit.Event{Type: audit.TypeSeal, At: granted, Sealed: 6, First: 2, Last: 900, Clean: true}, 1062, 1061),
		"gap":  here(audit.Event{Type: audit.TypeGap, At: granted, Cause: audit.CauseDamage, From: 40, To: 42, Count: 3}, 1063, 1062),
	}
}

func TestEventsAreWrittenAsPublishedAndReadBack(t *testing.T) {
	t.Parallel()
	for name, ev := range samples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := string(ev.AppendJSON(nil)) + "\n"
			file := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got  %swant %s", got, want)
			}
			back, err := audit.Parse(want)
			if err != nil {
				t.Fatal(err)
			}
			if again := string(back.AppendJSON(nil)) + "\n"; again != got {
				t.Errorf("after a round trip: %s", again)
			}
			if !json.Valid(want) {
				t.Error("not JSON")
			}
		})
	}
}

// The two published examples, as they stand in the documentation.
func TestPublishedExamplesAreByteForByteWhatIsWritten(t *testing.T) {
	t.Parallel()
	all := samples(t)
	for name, want := range map[string]string{
		"acquire": `{"v":1,"type":"acquire","id":"shop-order-1/7/1041","producer":"shop-order-1","epoch":7,"seq":1041,"prev":1038,
 "chain":"coupon","key":"biz:coupon:lock:u42-c7","holder":"9f2c1d0a77b3e610","tier":"bypass","store":"bypass","exclusive":false,"token":null,
 "granted_at":"2026-11-29T10:00:00.123456Z","ttl_ms":15000,"clock_error_us":812,"switch":{"version":42,"reason":"Redis under DDoS"},
 "business":{"type":"coupon","id":"u42-c7","op":"claim","delta":1}}`,
		"end": `{"v":1,"type":"end","id":"shop-order-1/7/1052","producer":"shop-order-1","epoch":7,"seq":1052,"prev":1041,
 "chain":"coupon","key":"biz:coupon:lock:u42-c7","holder":"9f2c1d0a77b3e610","tier":"bypass","how":"released","outcome":"committed",
 "granted_at":"2026-11-29T10:00:00.123456Z","ended_at":"2026-11-29T10:00:00.151201Z","clock_error_us":812}`,
	} {
		ev := all[name]
		if got := string(ev.AppendJSON(nil)); got != strings.ReplaceAll(want, "\n ", "") {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
	}
}

func TestRequestIDIsNeverWritten(t *testing.T) {
	t.Parallel()
	id := tierlock.NewRequestID()
	g := tierlock.Grant{Chain: "order", Key: key(t, "biz:order:lock:1"), RequestID: id, Tier: tierlock.Local, AcquiredAt: time.Now()}
	for _, ev := range []audit.Event{
		audit.Acquired(g, time.Second, 0),
		audit.Ended(g, audit.Released, audit.Unknown, time.Now()),
		audit.Optimistic("order", g.Key, id, tierlock.ReasonSlow, audit.Unknown, time.Now()),
	} {
		text := string(ev.AppendJSON(nil))
		if strings.Contains(text, id.Secret()) || !strings.Contains(text, `"holder":"`+id.Fingerprint()+`"`) {
			t.Errorf("%s", text)
		}
	}
}

func TestTimesAreWrittenAsTheStandardLibraryDoes(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		when := time.Unix(rng.Int64N(253402300800+62135596800)-62135596800, rng.Int64N(1e9))
		ev := audit.Event{Type: audit.TypeHello, At: when}
		if want := `"at":"` + when.UTC().Format("2006-01-02T15:04:05.000000Z") + `"`; !strings.Contains(string(ev.AppendJSON(nil)), want) {
			t.Fatalf("%s, want %s", ev.AppendJSON(nil), want)
		}
	}
}

// Also where the holder's fingerprint has yet to be made of its id.
func TestEncodingAllocatesNothing(t *testing.T) {
	read := samples(t)["acquire"]
	written := read
	written.Holder, written.ID = "", tierlock.NewRequestID()
	b := make([]byte, 0, 1024)
	for _, ev := range []audit.Event{read, written} {
		if n := testing.AllocsPerRun(100, func() { b = ev.AppendJSON(b[:0]) }); n > 0 {
			t.Errorf("%v allocations", n)
		}
	}
	if want := `"holder":"` + written.ID.Fingerprint() + `"`; !strings.Contains(string(b), want) {
		t.Errorf("%s, want %s in it", b, want)
	}
}

func TestParseNamesFieldAndRuleOfWhatIsMalformed(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile("testdata/end.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, field string }{
		{"no JSON", "{", "", "event"},
		{"a list", string(good), "[]", "event"},
		{"a later version", `"v":1`, `"v":2`, "v"},
		{"an unknown type", `"type":"end"`, `"type":"ended"`, "type"},
		{"a wrong type of value", `"epoch":7`, `"epoch":"7"`, "epoch"},
		{"a bad key", "biz:coupon:lock:u42-c7", "biz coupon", "key"},
		{"no key", `"key":"biz:coupon:lock:u42-c7",`, "", "key"},
		{"an unknown tier", `"bypass"`, `"fake"`, "tier"},
		{"an unknown end", `"released"`, `"gone"`, "how"},
		{"no holder", "9f2c1d0a77b3e610", "", "holder"},
		{"no time", `"granted_at":"2026-11-29T10:00:00.123456Z",`, "", "granted_at"},
		{"no end time", `"ended_at":"2026-11-29T10:00:00.151201Z",`, "", "ended_at"},
		{"an id of something else", "shop-order-1/7/1052", "shop-order-1/7/1", "id"},
		{"a prev that is not before", `"prev":1041`, `"prev":1052`, "prev"},
		{"seq zero", `"seq":1052`, `"seq":0`, "seq"},
		{"no producer", `"producer":"shop-order-1"`, `"producer":""`, "producer"},
		{"a clock error below zero", `"clock_error_us":812`, `"clock_error_us":-1`, "clock_error_us"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := audit.Parse([]byte(strings.Replace(string(good), c.old, c.new, 1)))
			if !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), "invalid "+c.field) {
				t.Errorf("got %v, want invalid %s", err, c.field)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, ev := range samples(f) {
		f.Add(ev.AppendJSON(nil))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		ev, err := audit.Parse(text)
		if err != nil {
			if !errors.Is(err, tierlock.ErrInvalid) {
				t.Fatalf("%v does not match ErrInvalid", err)
			}
			return
		}
		once := ev.AppendJSON(nil)
		again, err := audit.Parse(once)
		if err != nil {
			t.Fatalf("own text refused: %v\n%s", err, once)
		}
		if twice := again.AppendJSON(nil); string(twice) != string(once) {
			t.Fatalf("not stable:\n%s\n%s", once, twice)
		}
	})
}

func TestPartitionOfIsJavasMurmur2(t *testing.T) {
	t.Parallel()
	// From the tests of Kafka's own Utils.murmur2, made positive, and of its partitioner.
	for key, hash := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		if got, want := audit.PartitionOf(key, 1000), int(uint32(hash)&0x7fffffff)%1000; got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
	if audit.PartitionOf("x", 0) != 0 {
		t.Error("no partitions")
	}
}

func TestPolicyWords(t *testing.T) {
	t.Parallel()
	var p audit.Policy
	if err := p.Validate(); err != nil || p.Record.String() != "all" || p.OnFull.String() != "reject" || p.Wait.String() != "bypass" {
		t.Errorf("zero policy: %v %v %v %v", p.Record, p.OnFull, p.Wait, err)
	}
	if err := p.OnFull.UnmarshalText([]byte("drop")); !errors.Is(err, tierlock.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	err := (&audit.Policy{Record: 9, OnFull: 9, Wait: 9}).Validate()
	for _, field := range []string{"audit", "on_full", "audit_wait"} {
		if err == nil || !strings.Contains(err.Error(), "invalid "+field+" ") {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
	for _, c := range []struct {
		p              audit.Policy
		tier           tierlock.Tier
		records, waits bool
	}{
		{audit.Policy{}, tierlock.Shared, true, false},
		{audit.Policy{}, tierlock.Bypass, true, true},
		{audit.Policy{Record: audit.RecordDegraded}, tierlock.Shared, false, false},
		{audit.Policy{Record: audit.RecordOff, Wait: audit.WaitDegraded}, tierlock.Local, false, true},
		{audit.Policy{Record: audit.RecordOff}, tierlock.Bypass, true, true},
		{audit.Policy{Wait: audit.WaitAll}, tierlock.Shared, true, true},
		{audit.Policy{Wait: audit.WaitAll}, tierlock.Optimistic, true, false},
	} {
		if c.p.Records(c.tier) != c.records || c.p.Waits(c.tier) != c.waits {
			t.Errorf("%+v on %v: records %v, waits %v", c.p, c.tier, c.p.Records(c.tier), c.p.Waits(c.tier))
		}
	}
}
