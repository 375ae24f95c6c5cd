package spec_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
)

type refusalVector struct{ Outcome, Advice, Alert string }

func TestOutcomeVectors(t *testing.T) {
	v := vectors[struct {
		Words    map[string][]string
		HTTP     map[string]int
		Refusals []struct {
			Reason                string
			Strong, Guarded, Weak refusalVector
		}
	}](t, "outcomes.json")
	have := map[string][]string{
		"outcome": wordsOf[tierlock.Outcome](), "tier": wordsOf[tierlock.Tier](), "scope": wordsOf[tierlock.Scope](),
		"mode": wordsOf[tierlock.Mode](), "advice": wordsOf[tierlock.Advice](), "alert": wordsOf[tierlock.Alert](),
	}
	for s := tierlock.Granted; s.String() != "none"; s++ {
		have["status"] = append(have["status"], s.String())
	}
	if !maps.EqualFunc(have, v.Words, slices.Equal) {
		t.Errorf("words %v, want %v", have, v.Words)
	}
	reasons := tierlock.Reasons()
	for _, row := range v.Refusals {
		reasons = slices.DeleteFunc(reasons, func(r tierlock.Reason) bool { return string(r) == row.Reason })
		strong, guarded, weak := degrade.Strong(), degrade.Strong(), degrade.Weak()
		guarded.VersionGuard = true
		for _, c := range []struct {
			policy *degrade.Policy
			want   refusalVector
		}{{&strong, row.Strong}, {&guarded, row.Guarded}, {&weak, row.Weak}} {
			got := c.policy.Refusal(tierlock.Reason(row.Reason))
			if got.Outcome.String() != c.want.Outcome || !sameWord(got.Advice.String(), c.want.Advice) || !sameWord(got.Alert.String(), c.want.Alert) {
				t.Errorf("%s: %s, %s, %s, want %+v", row.Reason, got.Outcome, got.Advice, got.Alert, c.want)
			}
		}
	}
	if len(reasons) > 0 {
		t.Errorf("no row for %v", reasons)
	}
	if len(v.HTTP) != 4 { // internal/api holds the numbers themselves
		t.Errorf("%v, want a status for each outcome", v.HTTP)
	}
}

func sameWord(got, want string) bool { return got == want || got == "none" && want == "" }

// wordsOf is every word of a closed set, in the order of its values.
func wordsOf[T ~uint8, P interface {
	*T
	encoding.TextMarshaler
}]() (all []string) {
	for i := T(1); ; i++ {
		text, err := P(&i).MarshalText()
		if err != nil {
			return all
		}
		all = append(all, string(text))
	}
}

type eventVectors struct {
	Valid   []json.RawMessage
	Invalid []struct {
		Field string
		Event json.RawMessage
	}
}

func TestEventVectors(t *testing.T) {
	v := vectors[eventVectors](t, "events.json")
	types := map[audit.Type]bool{}
	for _, text := range v.Valid {
		event, err := audit.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		types[event.Type] = true
		var want, got map[string]any
		if err := errors.Join(json.Unmarshal(text, &want), json.Unmarshal(event.AppendJSON(nil), &got)); err != nil {
			t.Fatal(err)
		}
		for name, value := range want { // fields that are not known included
			if a, b := canonical(t, value), canonical(t, got[name]); !bytes.Equal(a, b) {
				t.Errorf("%s: %s is written back as %s", event.EventID(), name, b)
			}
		}
	}
	if len(types) != 7 {
		t.Errorf("vectors of %v only", types)
	}
	for _, c := range v.Invalid {
		_, err := audit.Parse(c.Event)
		invalid, ok := errors.AsType[*tierlock.InvalidError](err)
		if !ok || invalid.Field != c.Field {
			t.Errorf("%s: %v, want field %s refused", c.Event, err, c.Field)
		}
	}
}

func canonical(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The schema names the fields that this repository knows, no more and no less, and the
// words of each closed set.
func TestEventSchema(t *testing.T) {
	type property struct{ Enum []any }
	var schema struct {
		Properties map[string]property
		Required   []string
	}
	text, err := os.ReadFile("events.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	var unknown []string
	for name := range schema.Properties {
		event, err := audit.Parse(fmt.Appendf(nil, `{"v":1,"type":"hello","id":"p/1/1","producer":"p","epoch":1,"seq":1,"at":"2026-11-29T10:00:00Z",%q:null}`, name))
		if err == nil && event.Extra != nil {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		t.Errorf("the schema has %v, which no event has", unknown)
	}
	for _, text := range vectors[eventVectors](t, "events.json").Valid {
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		for name := range fields {
			if _, known := schema.Properties[name]; !known && name != "later" {
				t.Errorf("the schema lacks %s", name)
			}
		}
		for _, name := range schema.Required {
			if _, there := fields[name]; !there {
				t.Errorf("%s is required and not in %s", name, text)
			}
		}
	}
	for name, want := range map[string][]any{
		"type":    {"acquire", "end", "optimistic", "hello", "heartbeat", "seal", "gap"},
		"how":     {"released", "lost", "expired", "forced"},
		"outcome": {"committed", "rolled_back", "unknown"},
		"cause":   {"crash", "full", "overflow", "damage", "dead"},
		"tier":    {"shared", "optimistic", "local", "bypass"},
	} {
		if got := schema.Properties[name].Enum; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
