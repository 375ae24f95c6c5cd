package switchcfg

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func order(mode tierlock.Mode, until time.Time) Directive {
	return Directive{Mode: mode, Until: until, Reason: "Redis under DDoS", By: "oncall"}
}

func TestParseReadsTheExampleOfTheContract(t *testing.T) {
	const text = `version: 42        # strictly newer wins
chains:
  coupon: {mode: bypass, until: 2026-11-29T18:00:00Z, percent: 100, reason: "Redis under DDoS", by: "oncall"}
`
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check(noon); err != nil {
		t.Error(err)
	}
	full := uint8(100)
	want := order(tierlock.ModeBypass, noon.Add(6*time.Hour))
	want.Percent = &full
	if d.Version != 42 || !reflect.DeepEqual(d.Chains, map[string]Directive{"coupon": want}) {
		t.Errorf("got %+v", d)
	}
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Parse(b); err != nil || !reflect.DeepEqual(again, d) {
		t.Errorf("as JSON %s: %+v, %v", b, again, err)
	}
}

func TestCheckNamesFieldValueAndRule(t *testing.T) {
	zero, much := uint8(0), uint8(101)
	later := noon.Add(time.Hour)
	for name, c := range map[string]struct {
		change             func(*Document, *Directive)
		field, value, rule string
	}{
		"version zero":  {func(d *Document, _ *Directive) { d.Version = 0 }, "version", "0", "want 1 or more"},
		"no mode":       {func(_ *Document, o *Directive) { o.Mode = 0 }, "chains.coupon.mode", "", "want one of auto"},
		"no until":      {func(_ *Document, o *Directive) { o.Until = time.Time{} }, "chains.coupon.until", "", "is missing"},
		"until past":    {func(_ *Document, o *Directive) { o.Until = noon }, "chains.coupon.until", "2026-11-29T12:00:00Z", "has passed"},
		"until too far": {func(_ *Document, o *Directive) { o.Until = noon.Add(24*time.Hour + 1) }, "chains.coupon.until", "2026-11-30T12:00:00Z", "at most 24h"},
		"no reason":     {func(_ *Document, o *Directive) { o.Reason = " " }, "chains.coupon.reason", "", "is missing"},
		"long reason":   {func(_ *Document, o *Directive) { o.Reason = strings.Repeat("r", 257) }, "chains.coupon.reason", "", "is 257 bytes"},
		"no by":         {func(_ *Document, o *Directive) { o.By = "" }, "chains.coupon.by", "", "is missing"},
		"percent zero":  {func(_ *Document, o *Directive) { o.Percent = &zero }, "chains.coupon.percent", "0", "want 1 to 100"},
		"percent 101":   {func(_ *Document, o *Directive) { o.Percent = &much }, "chains.coupon.percent", "101", "want 1 to 100"},
	} {
		t.Run(name, func(t *testing.T) {
			o := order(tierlock.ModeBypass, later)
			d := Document{Version: 1}
			c.change(&d, &o)
			d.Chains = map[string]Directive{"coupon": o}
			all := faults(d.Check(noon))
			if len(all) != 1 || all[0].Field != c.field || all[0].Value != c.value || !strings.Contains(all[0].Rule, c.rule) {
				t.Errorf("faults %v", all)
			}
		})
	}
	if all := faults(Document{Version: 1}.Check(noon)); len(all) != 1 || all[0].Field != "chains" || !strings.Contains(all[0].Rule, "is missing") {
		t.Errorf("a text cut off after its version: faults %v", all)
	}
	for _, name := range []string{"*", "", "Coupon", "a.b", "优惠"} {
		d := Document{Version: 1, Chains: map[string]Directive{name: order(tierlock.ModeBypass, later)}}
		if all := faults(d.Check(noon)); len(all) != 1 || all[0].Field != "chains" || !strings.Contains(all[0].Rule, "no wildcard") {
			t.Errorf("chain %q: faults %v", name, all)
		}
	}
	if all := faults(Document{}.Check(noon)); len(all) != 2 {
		t.Errorf("an empty document: faults %v", all)
	}
	all := faults(Document{Version: 1, Chains: map[string]Directive{"a": {Mode: tierlock.ModeBypass, Percent: &zero}, "b": {}}}.Check(noon))
	if len(all) != 5 {
		t.Errorf("not all at once: %v", all)
	}
}

func TestCheckLetsPass(t *testing.T) {
	for name, d := range map[string]Document{
		"nothing ordered": {Version: 1, Chains: map[string]Directive{}},
		"auto":            {Version: 1, Chains: map[string]Directive{"coupon": {Mode: tierlock.ModeAuto}}},
		"a whole day":     {Version: 1, Chains: map[string]Directive{"c-o_9": order(tierlock.ModeReject, noon.Add(24*time.Hour))}},
	} {
		if err := d.Check(noon); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLiveLeavesOutOrdersThatHavePassed(t *testing.T) {
	d := Document{Version: 3, Chains: map[string]Directive{
		"now": order(tierlock.ModeBypass, noon), "past": order(tierlock.ModeLocal, noon.Add(-time.Hour)),
		"later": order(tierlock.ModeBypass, noon.Add(1)), "auto": {Mode: tierlock.ModeAuto, Until: noon.Add(-1)},
	}}
	live, passed := d.Live(noon)
	if len(live.Chains) != 2 || live.Version != 3 || !reflect.DeepEqual(passed, []string{"now", "past"}) || len(d.Chains) != 4 {
		t.Errorf("live %v, passed %q", live, passed)
	}
}

func TestHashIsOfWhatTheDocumentSays(t *testing.T) {
	hash := func(text string) string {
		d, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return d.Hash()
	}
	one := hash("version: 1\nchains: {a: {mode: bypass, until: 2026-11-29T18:00:00Z, percent: 100, by: b, reason: r}, c: {mode: auto}}")
	if same := hash(`{"chains":{"c":{"mode":"auto"},"a":{"by":"b","reason":"r","mode":"bypass","until":"2026-11-30T02:00:00+08:00"}},"version":1}`); same != one || len(one) != 16 {
		t.Errorf("%q and %q", one, same)
	}
	if other := hash("version: 1\nchains: {a: {mode: bypass, until: 2026-11-29T18:00:00Z, percent: 99, by: b, reason: r}, c: {mode: auto}}"); other == one {
		t.Error("another share, the same hash")
	}
}

func TestWriteFileRefusesOrWritesWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "switch.yaml")
	d := Document{Version: 2, Chains: map[string]Directive{"coupon": order(tierlock.ModeBypass, time.Now().Add(time.Hour).UTC().Truncate(time.Second))}}
	if err := WriteFile(path, d); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Parse(text); err != nil || !reflect.DeepEqual(got, d) {
		t.Errorf("%s\n%+v, %v", text, got, err)
	}
	if err := WriteFile(path, Document{}); err == nil {
		t.Error("an invalid document was written")
	}
	if names, _ := os.ReadDir(filepath.Dir(path)); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("version: 42\nchains:\n  coupon: {mode: bypass, until: 2026-11-29T18:00:00Z, percent: 100, reason: r, by: b}\n"))
	f.Add([]byte(`{"version":1,"chains":{"a":{"mode":"auto"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse(text)
		if err != nil || d.Check(noon) != nil {
			return
		}
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatalf("%+v: %v", d, err)
		}
		again, err := Parse(b)
		if err != nil || again.Hash() != d.Hash() {
			t.Errorf("%q became %s: %v", text, b, err)
		}
	})
}
