package daemon

import (
	"encoding"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

func doc(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// keys lists every field of the configuration as the documentation writes it:
// stores.<name>.addrs.
func keys(path string, v reflect.Type) []string {
	switch {
	case v.Implements(reflect.TypeFor[encoding.TextMarshaler]()): // one word
		return []string{path}
	case v.Kind() == reflect.Pointer:
		return keys(path, v.Elem())
	case v.Kind() == reflect.Map:
		return keys(path+".<name>", v.Elem())
	case v.Kind() != reflect.Struct:
		return []string{path}
	}
	var all []string
	for i := range v.NumField() {
		f := v.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case strings.Contains(options, "inline"):
			all = append(all, keys(path, f.Type)...)
		case name != "":
			all = append(all, keys(strings.TrimPrefix(path+"."+name, "."), f.Type)...)
		}
	}
	return all
}

func TestEveryKeyIsDocumentedAndNoOther(t *testing.T) {
	have := keys("", reflect.TypeFor[Config]())
	if len(have) < 40 {
		t.Fatalf("%d keys: the test looks in the wrong place", len(have))
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.<>]+)` \\|").FindAllStringSubmatch(doc(t, "config.md"), -1) {
		documented[m[1]] = true
	}
	for _, key := range have {
		if !documented[key] {
			t.Errorf("docs/config.md lacks %s", key)
		}
		delete(documented, key)
	}
	for _, key := range slices.Sorted(maps.Keys(documented)) {
		t.Errorf("docs/config.md has %s, which is no key", key)
	}
}

// blocks returns the fenced blocks of a language.
func blocks(text, language string) []string {
	var all []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

func TestConfigurationsInTheDocsAreGood(t *testing.T) {
	files := blocks(doc(t, "config.md"), "yaml")
	if len(files) == 0 {
		t.Fatal("no block")
	}
	t.Setenv("REDIS_PASSWORD", "s3cret")
	for _, text := range files {
		if !strings.Contains(text, "chains:") {
			continue
		}
		if _, err := Parse([]byte(text)); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
}

// moving are values that differ from run to run.
var moving = regexp.MustCompile(`("(?:\w+_ms|\w+_us|token)":)\d+`)

// moments are times on the wire.
var moments = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`)

// still is an answer without what differs from run to run.
func still(answer string) string {
	return moments.ReplaceAllString(moving.ReplaceAllString(answer, "${1}0"), `"2026-01-01T00:00:00Z"`)
}

// TestCurlLinesOfTheDocsAnswerAsTheySay runs every `$ curl` line of docs/http.md, in
// order, against one daemon.
func TestCurlLinesOfTheDocsAnswerAsTheySay(t *testing.T) {
	redis, _ := inProcess(t)
	c := config(t, t.TempDir(), redis, "")
	d := run(t, c)
	// The page shows the default, in which a busy machine may not answer.
	attempt := strings.NewReplacer(`"attempt":"`+gateway.Weak("", 0).Attempt.String()+`"`, `"attempt":"`+c.Chains["coupon"].Attempt.String()+`"`)
	curl := regexp.MustCompile(`^\$ curl (?:-d '([^']*)' )?127\.0\.0\.1:(7070|7071)(/\S+)$`)
	holder, err := tierlock.ParseRequestID(idA)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, block := range blocks(doc(t, "http.md"), "console") {
		script := strings.Split(strings.TrimSpace(block), "\n")
		for i := 0; i+1 < len(script); i += 2 {
			m := curl.FindStringSubmatch(script[i])
			if m == nil {
				t.Fatalf("cannot read %q", script[i])
			}
			var got string
			switch {
			case m[2] == "7070":
				got = d.post(m[3], m[1])
			case m[1] != "":
				got = d.postAdmin(m[3], m[1])
			default:
				got = d.get(m[3])
			}
			want := attempt.Replace(strings.ReplaceAll(script[i+1], "HOLDER", holder.Fingerprint()))
			if still(got) != still(want) {
				t.Errorf("%s\n got %s\nsays %s", script[i], got, want)
			}
			lines++
		}
	}
	if lines < 12 {
		t.Errorf("only %d lines were run", lines)
	}
}

// TestAnswersWithoutACommandAreJSON: the two lines that the docs cannot provoke.
func TestAnswersWithoutACommandAreJSON(t *testing.T) {
	for _, block := range blocks(doc(t, "http.md"), "json") {
		for line := range strings.Lines(block) {
			_, body, _ := strings.Cut(strings.TrimSpace(line), " ")
			if !json.Valid([]byte(body)) {
				t.Errorf("%s", line)
			}
		}
	}
}
