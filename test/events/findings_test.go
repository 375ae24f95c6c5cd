package events

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tierlock/tierlock/reconcile"
	"github.com/tierlock/tierlock/reconcile/kafkasource"
)

const findingsSchema = root + "/spec/findings.schema.json"

// closed allows no field that the schema does not name, so that one which a finding has and
// nobody published is found.
func closed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, one := range v {
			closed(one)
		}
		if v["type"] == "object" && v["properties"] != nil {
			v["additionalProperties"] = false
		}
	case []any:
		for _, one := range v {
			closed(one)
		}
	}
	return v
}

func findings(t *testing.T, change func(any) any) (*jsonschema.Schema, map[string]any) {
	t.Helper()
	text, err := os.ReadFile(findingsSchema)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("https://spec.invalid/findings.schema.json", change(plain(t, doc))); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("https://spec.invalid/findings.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s, doc
}

func TestGoldenFindingsAreAsPublished(t *testing.T) {
	strict, doc := findings(t, closed)
	files, err := filepath.Glob(root + "/reconcile/testdata/findings/*.json")
	if err != nil || len(files) < 11 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		if err := strict.Validate(plain(t, fields)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		required := doc["required"].([]any)
		if fields["kind"] == "overlap" {
			required = append(slices.Clone(required), "chain", "key", "causes", "pairs", "from", "to")
		} else {
			required = append(slices.Clone(required), "gap")
		}
		if fields["certain"] == true {
			required = append(required, "certain_pairs")
		}
		for _, name := range required {
			without := maps.Clone(fields)
			delete(without, name.(string))
			if strict.Validate(plain(t, without)) == nil {
				t.Errorf("%s without %s passes", file, name)
			}
		}
		for name, value := range map[string]any{"state": "done", "kind": "split", "id": "7", "revision": -1, "causes": []string{"haste"}, "certain": "yes"} {
			with := maps.Clone(fields)
			with[name] = value
			if strict.Validate(plain(t, with)) == nil {
				t.Errorf("%s with %s %v passes", file, name, value)
			}
		}
	}
	// What later versions add passes readers of this one.
	open, _ := findings(t, func(v any) any { return v })
	if err := open.Validate(plain(t, map[string]any{
		"id": strings.Repeat("a", 32), "revision": 1, "kind": "gap", "state": "open", "certain": false, "gap": map[string]any{"partition": 0, "cause": "silent"}, "later": true,
	})); err != nil {
		t.Error(err)
	}
}

// The schema names the fields that findings have, and no others.
func TestSchemaOfFindingsNamesEveryField(t *testing.T) {
	_, doc := findings(t, func(v any) any { return v })
	fields := func(of reflect.Type) (names []string) {
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	defs := doc["$defs"].(map[string]any)
	for what, c := range map[string]struct {
		schema any
		want   []string
	}{
		"finding": {doc, fields(reflect.TypeFor[reconcile.Finding]())},
		"gap":     {defs["gap"], fields(reflect.TypeFor[reconcile.Gap]())},
		"repair":  {defs["repair"], fields(reflect.TypeFor[reconcile.Repair]())},
	} {
		got := slices.Sorted(maps.Keys(c.schema.(map[string]any)["properties"].(map[string]any)))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the schema has %v, findings have %v", what, got, c.want)
		}
	}
}

func TestDocumentNamesTheTopicOfFindings(t *testing.T) {
	p := read(t)
	if got := p.at(t, "channels", "findings", "address"); got != kafkasource.FindingsTopic {
		t.Errorf("findings in %v", got)
	}
	if got := p.at(t, "components", "messages", "finding", "payload", "$ref"); got != filepath.Base(findingsSchema) {
		t.Errorf("the payload is %v", got)
	}
}
