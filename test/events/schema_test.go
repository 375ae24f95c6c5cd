// Package events checks what producers really send against what is published about it: the
// JSON Schema and the AsyncAPI document in spec/, with a library that is not ours.
package events

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/kafkasink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const root = "../.."

var types = []audit.Type{
	audit.TypeAcquire, audit.TypeEnd, audit.TypeOptimistic, audit.TypeHello, audit.TypeHeartbeat, audit.TypeSeal, audit.TypeGap,
}

// published is the AsyncAPI document, and the schemas in it.
type published struct {
	doc      map[string]any
	compiler *jsonschema.Compiler
}

func read(t *testing.T) published {
	t.Helper()
	text, err := os.ReadFile(root + "/spec/events.asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	schema, err := os.Open(root + "/spec/events.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	defer schema.Close()
	parsed, err := jsonschema.UnmarshalJSON(schema)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("https://spec.invalid/events.schema.json", parsed); err != nil {
		t.Fatal(err)
	}
	if err := c.AddResource("https://spec.invalid/events.asyncapi.yaml", plain(t, doc)); err != nil {
		t.Fatal(err)
	}
	return published{doc, c}
}

// plain is v as the JSON library reads it.
func plain(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (p published) schema(t *testing.T, pointer string) *jsonschema.Schema {
	t.Helper()
	s, err := p.compiler.Compile("https://spec.invalid/events.asyncapi.yaml#" + pointer)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (p published) payload(t *testing.T, kind audit.Type) *jsonschema.Schema {
	t.Helper()
	return p.schema(t, "/components/messages/"+string(kind)+"/payload")
}

// at follows a path of names in the document.
func (p published) at(t *testing.T, path ...string) any {
	t.Helper()
	var v any = p.doc
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok || m[name] == nil {
			t.Fatalf("the document has no %v", path)
		}
		v = m[name]
	}
	return v
}

func TestGoldenEventsAreAsPublishedAndEveryFieldThatIsRequiredIs(t *testing.T) {
	p := read(t)
	files, err := filepath.Glob(root + "/audit/testdata/*.json")
	if err != nil || len(files) < len(types) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := audit.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		schema := p.payload(t, ev.Type)
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(plain(t, fields)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		required := p.at(t, "components", "messages", string(ev.Type), "payload").(map[string]any)["allOf"].([]any)[1].(map[string]any)["required"].([]any)
		for _, name := range required {
			without := maps.Clone(fields)
			delete(without, name.(string))
			if schema.Validate(plain(t, without)) == nil {
				t.Errorf("%s without %s passes", file, name)
			}
		}
	}
}

func TestDocumentNamesTheTopicsAndEveryType(t *testing.T) {
	p := read(t)
	if got := p.at(t, "channels", "events", "address"); got != kafkasink.EventsTopic {
		t.Errorf("events in %v", got)
	}
	if got := p.at(t, "channels", "dead", "address"); got != kafkasink.EventsTopic+".dlq" {
		t.Errorf("dead letters in %v", got)
	}
	var want []string
	for _, kind := range types {
		want = append(want, string(kind))
	}
	got := slices.Sorted(maps.Keys(p.at(t, "channels", "events", "messages").(map[string]any)))
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("messages %v, want %v", got, want)
	}
	p.refs(t, p.doc)
}

// refs follows every reference that stays in the document.
func (p published) refs(t *testing.T, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && ref[0] == '#' {
			var path []string
			for _, name := range bytes.Split([]byte(ref[2:]), []byte("/")) {
				path = append(path, string(name))
			}
			p.at(t, path...)
		}
		for _, one := range v {
			p.refs(t, one)
		}
	case []any:
		for _, one := range v {
			p.refs(t, one)
		}
	}
}

// capture is a sink that keeps everything.
type capture struct {
	mu   sync.Mutex
	msgs []audit.Message
}

func (c *capture) Partitions(context.Context) (int, error) { return 2, nil }

func (c *capture) Send(_ context.Context, msgs []audit.Message) []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.msgs = append(c.msgs, msgs...)
	return make([]error, len(msgs))
}

// TestEverythingALogSendsIsAsPublished has a log write events of every type, and one that
// finds the folder of a process that died.
func TestEverythingALogSendsIsAsPublished(t *testing.T) {
	p, sink := read(t), new(capture)
	dead := t.TempDir()
	first := open(t, dead, nil)
	key, err := tierlock.ParseKey("biz:coupon:lock:u1")
	if err != nil {
		t.Fatal(err)
	}
	g := tierlock.Grant{Chain: "coupon", Key: key, RequestID: tierlock.NewRequestID(), Tier: tierlock.Local, Store: "local", AcquiredAt: time.Now()}
	acquired := audit.Acquired(g, 15*time.Second, time.Minute)
	if err := first.Record(t.Context(), &acquired); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "spool")
	if err := os.CopyFS(dir, os.DirFS(dead)); err != nil { // as a kill would leave it
		t.Fatal(err)
	}
	l := open(t, dir, sink)
	end := audit.Ended(g, audit.Released, audit.Committed, time.Now())
	l.Note(&end)
	point := audit.Optimistic("coupon", key, tierlock.NewRequestID(), tierlock.ReasonSlow, audit.Unknown, time.Now())
	l.Note(&point)
	for l.Stats().Durable < 8 { // a heartbeat comes by itself
		tick := time.NewTimer(5 * time.Millisecond)
		<-tick.C
	}
	for _, log := range []*audit.Log{l, first} {
		if err := log.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	headers := p.schema(t, "/components/schemas/headers")
	seen := map[audit.Type]int{}
	for _, m := range sink.msgs {
		ev, err := audit.Parse(m.Value)
		if err != nil {
			t.Fatal(err)
		}
		seen[ev.Type]++
		var fields any
		if err := json.Unmarshal(m.Value, &fields); err != nil {
			t.Fatal(err)
		}
		if err := p.payload(t, ev.Type).Validate(plain(t, fields)); err != nil {
			t.Errorf("%s: %v", m.Value, err)
		}
		got := map[string]any{}
		for _, h := range m.Headers {
			got[h.Key] = string(h.Value)
		}
		if err := headers.Validate(plain(t, got)); err != nil {
			t.Errorf("headers %v: %v", got, err)
		}
	}
	for _, kind := range types {
		if seen[kind] == 0 {
			t.Errorf("no %s was sent", kind)
		}
	}
}

func open(t *testing.T, dir string, sink audit.Sink) *audit.Log {
	t.Helper()
	cfg := audit.Config{Dir: dir, Producer: "shop-1", Heartbeat: 20 * time.Millisecond}
	if sink != nil {
		cfg.Sink = sink
	}
	l, err := audit.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
