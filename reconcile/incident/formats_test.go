package incident

import (
	"bytes"
	"encoding/csv"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden is the sample, reviewed: its sums depend on nothing that changes.
func golden(tb testing.TB) *Document {
	tb.Helper()
	d := New(sample(tb))
	if err := d.Review("ana", at(50*time.Minute)); err != nil {
		tb.Fatal(err)
	}
	return d
}

func formats(d *Document) map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{
		"report.txt": d.WriteText, "report.csv": d.WriteCSV, "report.html": d.WriteHTML,
		"report.json": func(w io.Writer) error {
			text, err := d.Encode()
			if err == nil {
				_, err = w.Write(text)
			}
			return err
		},
	}
}

func TestFormatsAreAsPublished(t *testing.T) {
	for name, write := range formats(golden(t)) {
		var got bytes.Buffer
		if err := write(&got); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s is another:\n%s", name, got.String())
		}
	}
}

func page1(t *testing.T) string {
	t.Helper()
	_, key := newKey(t)
	var b bytes.Buffer
	if err := signed(t, key).WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestThePageNeedsNothingElse: no script, nothing that is fetched.
func TestThePageNeedsNothingElse(t *testing.T) {
	text := page1(t)
	for _, bad := range []string{
		`(?i)<script`, `(?i)<(img|iframe|object|embed|link|base|form|audio|video|source|use|image|foreignobject)\b`,
		`(?i)\b(src|href|srcset|action|formaction|xlink:href|poster|data|background)\s*=`, `(?i)\bon[a-z]+\s*=\s*["']`, `(?i)https?:`, `(?i)url\(`, `(?i)@import`, `(?i)javascript:`, `//[a-z]`,
	} {
		if found := regexp.MustCompile(bad).FindString(text); found != "" {
			t.Errorf("the page has %q", found)
		}
	}
	for _, want := range []string{"<svg", `class="bypass"`, `class="local"`, "default-src 'none'"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestThePageEscapesWhatOthersWrite looks for each text that the sample fills with markup:
// how often it is there escaped, and that it is nowhere as it was.
func TestThePageEscapesWhatOthersWrite(t *testing.T) {
	text := page1(t)
	if strings.Contains(text, "alert(1)</script>") || strings.Contains(text, `"'>`) {
		t.Error("markup of others is in the page as it was")
	}
	// author, refusal, optimistic reason, order, process, 2 × (title, row: order, business),
	// label, holder and process of one hold, conflict's record, repair, record with check,
	// action, owner and holder, failed check, tail, gap, unknown, malformed, blind, producer
	if n := strings.Count(text, "&lt;script&gt;alert(1)&lt;/script&gt;"); n < 25 {
		t.Errorf("markup of others is in the page %d times, want 25 at least: the test does not reach every place", n)
	}
}

func TestTheTableIsNoProgram(t *testing.T) {
	var b bytes.Buffer
	if err := golden(t).WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) < 30 {
		t.Errorf("%d rows", len(rows))
	}
	for _, cell := range []string{"=1+1", "+x", "-x", "@x", "=cmd()"} {
		if got := inert(cell); got != "'"+cell {
			t.Errorf("%q becomes %q", cell, got)
		}
	}
	for _, cell := range []string{"-5", "7", "x=1", ""} {
		if got := inert(cell); got != cell {
			t.Errorf("%q becomes %q", cell, got)
		}
	}
}

func TestNoLineIsForged(t *testing.T) {
	d := golden(t)
	d.Report.Records[0].Action = "fine\ncomplete     yes\x1b[2J\u202e"
	for name, write := range formats(d) {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(b.String(), "\x1b\u202e") && name != "report.json" || strings.Contains(b.String(), "\ncomplete     yes") {
			t.Errorf("%s shows it as it was", name)
		}
	}
}
