package switchcfg

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
)

// settings has one field of every kind that files use.
type settings struct {
	Name    string            `yaml:"name"`
	On      bool              `yaml:"on"`
	Size    int8              `yaml:"size"`
	Count   uint8             `yaml:"count"`
	Ratio   float64           `yaml:"ratio"`
	Wait    time.Duration     `yaml:"wait"`
	At      time.Time         `yaml:"at"`
	Tier    tierlock.Tier     `yaml:"tier"`
	Addrs   []string          `yaml:"addrs"`
	Share   *uint8            `yaml:"share"`
	Store   store             `yaml:"store"`
	Chains  map[string]store  `yaml:"chains"`
	Labels  map[string]string `yaml:"labels"`
	Skipped string            `yaml:"-"`
	Pool    `yaml:",inline"`
	Plain   string
	hidden  string
}

type store struct {
	Kind     string        `yaml:"kind"`
	TTL      time.Duration `yaml:"ttl"`
	Password string        `yaml:"password"`
}

type Pool struct {
	PoolSize int   `yaml:"pool_size"`
	MaxBytes int64 `yaml:"max_bytes"`
}

func TestDecodeReadsEveryKind(t *testing.T) {
	share := uint8(7)
	want := settings{
		Name: "42", On: true, Size: -128, Count: 255, Ratio: 0.95, Wait: 1500 * time.Millisecond,
		At: time.Date(2026, 11, 29, 18, 0, 0, 0, time.UTC), Tier: tierlock.Local, Addrs: []string{"a", "b"}, Share: &share,
		Store: store{Kind: "redis", TTL: time.Second}, Chains: map[string]store{"order": {Kind: "x", TTL: 3 * time.Second}},
		Labels: map[string]string{"k": "v"}, Pool: Pool{PoolSize: 64}, Plain: "p", Skipped: "kept", hidden: "kept",
	}
	for form, text := range map[string]string{
		"yaml": "name: '42'\non: true\nsize: -128\ncount: 255\nratio: .95\nwait: 1.5s\nat: 2026-11-29T18:00:00Z\ntier: local\naddrs: [a, b]\n" +
			"share: 7\nstore: {kind: redis}\nchains:\n  order:\n    kind: x\n    ttl: 3s\nlabels: {k: v}\npool_size: 64\nplain: p\n",
		"json": `{"name":"42","on":true,"size":-128,"count":255,"ratio":0.95,"wait":"1.5s","at":"2026-11-29T18:00:00Z","tier":"local",` +
			"\n\t\"addrs\":[\"a\",\"b\"],\r\n\t" + `"share":7,"store":{"kind":"redis"},"chains":{"order":{"kind":"x","ttl":"3s"}},"labels":{"k":"v"},"pool_size":64,"plain":"p"}`,
	} {
		got := settings{Store: store{TTL: time.Second}, Skipped: "kept", hidden: "kept"} // defaults
		if err := Decode([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", form, err, got, want)
		}
	}
}

func TestDecodeMapValuesStartFromWhatIsThere(t *testing.T) {
	got := map[string]store{"order": {Kind: "redis", TTL: time.Second}}
	if err := Decode([]byte("order: {ttl: 2s}\ncoupon: {kind: x}"), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]store{"order": {Kind: "redis", TTL: 2 * time.Second}, "coupon": {Kind: "x"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestDecodeNamesTheFault(t *testing.T) {
	for name, c := range map[string]struct{ text, field, value, rule string }{
		"nothing":             {"", "text", "", "is empty"},
		"only space":          {" \n\n", "text", "", "is empty"},
		"only a comment":      {"# later\n", "text", "", "is empty"},
		"null":                {"null", "text", "", "is empty"},
		"not a mapping":       {"just words", "text", "just words", "want fields (name: value) (line 1)"},
		"no yaml":             {"name: [a", "text", "", "is neither YAML nor JSON: line 1"},
		"tab":                 {"store:\n\tkind: x", "text", "", "is neither YAML nor JSON: line 2"},
		"second document":     {"name: a\n---\nname: b", "text", "", "holds a second document (line 2)"},
		"rubbish behind":      {"name: a\n---\nname: [", "text", "", "is neither YAML nor JSON"},
		"unknown":             {"on: true\nnames: a", "names", "a", "is not known here: want one of name, on, size"},
		"unknown below":       {"chains: {order: {tll: 3s}}", "chains.order.tll", "3s", "is not known here: want one of kind, ttl, password (line 1)"},
		"twice":               {"name: a\non: true\nname: b", "name", "b", "is given twice, first in line 1 (line 3)"},
		"twice in json":       {`{"count":1,"count":1}`, "count", "1", "is given twice"},
		"chain twice":         {"chains:\n  order: {kind: a}\n  order: {kind: b}", "chains.order", "", "is given twice, first in line 2 (line 3)"},
		"empty value":         {"store:\n  kind:\n", "store.kind", "", "is empty: give it a value or leave it out (line 2)"},
		"json null":           {`{"share":null}`, "share", "null", "is empty"},
		"number for text":     {"name: 42", "name", "42", "want text (in quotes"},
		"text for bool":       {"on: yes", "on", "yes", "want true or false"},
		"text for number":     {"count: '7'", "count", "7", "want a whole number from 0 to 255"},
		"words for a number":  {"pool_size: many", "pool_size", "many", "want a whole number (line 1)"},
		"a size and its unit": {"max_bytes: 64MiB", "max_bytes", "64MiB", "want a whole number, in bytes, without a unit (line 1)"},
		"beyond any number":   {"pool_size: 9223372036854775808", "pool_size", "9223372036854775808", "want a whole number from -9223372036854775808 to"},
		"number too high":     {"count: 256", "count", "256", "want a whole number from 0 to 255"},
		"number too low":      {"size: -129", "size", "-129", "want a whole number from -128 to 127"},
		"negative unsigned":   {"count: -1", "count", "-1", "want a whole number from 0 to 255"},
		"fraction for whole":  {"count: 1.5", "count", "1.5", "want a whole number from 0 to 255"},
		"octal":               {"count: 0o17", "count", "0o17", "want a whole number from 0 to 255"},
		"not a number":        {"ratio: .nan", "ratio", ".nan", "want a number"},
		"infinite":            {"ratio: .inf", "ratio", ".inf", "want a number"},
		"duration no unit":    {"wait: 5", "wait", "5", "want a duration with its unit, as 300ms or 5s"},
		"duration zero":       {"wait: 0", "wait", "0", "want a duration with its unit, as 300ms or 5s"},
		"duration unit":       {"wait: 5 s", "wait", "5 s", "want a duration with its unit, as 300ms or 5s"},
		"time without zone":   {"at: 2026-11-29T18:00:00", "at", "2026-11-29T18:00:00", "want a time in RFC 3339"},
		"day only":            {"at: 2026-11-29", "at", "2026-11-29", "want a time in RFC 3339"},
		"word of a set":       {"tier: redis", "tier", "redis", "want one of shared, optimistic, local, bypass (line 1)"},
		"mapping for a word":  {"tier: {a: b}", "tier", "", "want one word or text"},
		"list for fields":     {"store: [a]", "store", "", "want fields (name: value)"},
		"fields for list":     {"addrs: {a: b}", "addrs", "", "want a list"},
		"text for list":       {"addrs: a", "addrs", "a", "want a list"},
		"bad list item":       {"addrs: [a, 7]", "addrs[1]", "7", "want text"},
		"anchor":              {"name: &n a", "name", "a", "anchors and aliases are not read"},
		"alias":               {"name: &n a\nplain: *n", "plain", "", "anchors and aliases are not read"},
		"merge":               {"<<: {name: a}", "text", "<<", "want a plain name before the colon"},
		"mapping for a name":  {"? {a: b}\n: c", "text", "", "want a plain name before the colon"},
		"secret not repeated": {"store: {password: 12345}", "store.password", "", "want text"},
		"skipped field":       {"skipped: a", "skipped", "a", "is not known here"},
		"hidden field":        {"hidden: a", "hidden", "a", "is not known here"},
		"embedded by name":    {"pool: {pool_size: 1}", "pool", "", "is not known here"},
		"too long":            {strings.Repeat("#", 1<<20+1), "text", "", "is 1048577 bytes, want at most 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			var into settings
			err := Decode([]byte(c.text), &into)
			all := faults(err)
			if len(all) == 0 {
				t.Fatalf("no fault: %v", err)
			}
			last := all[len(all)-1]
			if last.Field != c.field || last.Value != c.value || !strings.Contains(last.Rule, c.rule) {
				t.Errorf("got  %q %q %q\nwant %q %q %q", last.Field, last.Value, last.Rule, c.field, c.value, c.rule)
			}
		})
	}
}

func TestDecodeReportsEveryFaultInTheTextsOrder(t *testing.T) {
	var into settings
	err := Decode([]byte("name: 1\nwait: 5\nchains:\n  order: {ttl: 3, kin: x}\n  coupon:\nstore: {ttl: x}\nsize: 1000\n"), &into)
	var got []string
	for _, f := range faults(err) {
		got = append(got, f.Field)
	}
	want := []string{"name", "wait", "chains.order.ttl", "chains.order.kin", "chains.coupon", "store.ttl", "size"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(err, tierlock.ErrInvalid) {
		t.Errorf("%v is no ErrInvalid", err)
	}
}

func TestDecodeStopsTellingAtSomePoint(t *testing.T) {
	var into map[string]uint8
	all := faults(Decode([]byte(strings.Repeat("x: -1\n", 1000)), &into))
	if len(all) != maxFaults+1 || !strings.Contains(all[maxFaults].Rule, "more rules") {
		t.Errorf("%d faults, the last is %v", len(all), all[len(all)-1])
	}
}

// chosen sets defaults by one of its own fields, as the daemon's chains do.
type chosen struct{ store }

func (c *chosen) UnmarshalYAML(read func(any) error) error {
	var head struct {
		Kind string         `yaml:"kind"`
		Rest map[string]any `yaml:",inline"`
	}
	_ = read(&head)
	if head.Kind == "redis" {
		c.TTL = time.Minute
	}
	return read(&c.store)
}

func TestDecodeLetsATypeChooseItsDefaults(t *testing.T) {
	got := map[string]chosen{}
	if err := Decode([]byte("a: {kind: redis}\nb: {kind: x, ttl: 1s}"), &got); err != nil {
		t.Fatal(err)
	}
	if want := map[string]chosen{"a": {store{"redis", time.Minute, ""}}, "b": {store{"x", time.Second, ""}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	all := faults(Decode([]byte("a: {kind: redis, kid: [{x: [1, a]}], ttl: 1}"), &got))
	if len(all) != 2 || all[0].Field != "a.kid" || all[1].Field != "a.ttl" {
		t.Errorf("faults %v", all)
	}
}

func TestDecodeRefusesGoTypesItDoesNotKnow(t *testing.T) {
	var nothing *settings
	for _, into := range []any{nil, settings{}, nothing, new(map[int]string), new(chan int), &struct{ F func() }{}, &struct{ E error }{}} {
		if err := Decode([]byte("f: {a: b}\ne: {a: b}"), into); err == nil {
			t.Errorf("%T: no error", into)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", "name: a", "a: &x [*x]", "<<: *a", "{", "- a", "a: !!binary x", "? a", "a: !!int b", "chains: {o: {ttl: 1s}}", "\xff\xfea\x00", "a: |\n b", `{"at":"2026-11-29T18:00:00Z"}`, "x: !!null", "share: !!str 7",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var typed settings
		if err := Decode(text, &typed); err != nil && !errors.Is(err, tierlock.ErrInvalid) {
			t.Errorf("%q: %v is no ErrInvalid", text, err)
		}
		var loose struct {
			Rest map[string]any `yaml:",inline"`
		}
		if err := Decode(text, &loose); err != nil && !errors.Is(err, tierlock.ErrInvalid) {
			t.Errorf("%q: %v is no ErrInvalid", text, err)
		}
	})
}

// faults takes a joined error apart.
func faults(err error) (all []*tierlock.InvalidError) {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	for _, err := range list {
		if f, ok := errors.AsType[*tierlock.InvalidError](err); ok {
			all = append(all, f)
		}
	}
	return all
}
