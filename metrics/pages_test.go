package metrics

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tierlock/tierlock/internal/servers"
)

const (
	alertsFile    = "deploy/prometheus/alerts.yaml"
	alertTests    = "deploy/prometheus/alerts_test.yaml"
	dashboardFile = "deploy/grafana/tierlock.json"
)

func page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// mention finds metric names in text, without what Prometheus adds to a histogram's.
var mention = regexp.MustCompile(`\btierlock_[a-z_]+`)

func mentions(text string) []string {
	var names []string
	for _, name := range mention.FindAllString(text, -1) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, suffix); base != name && row(base).Kind == Histogram {
				name = base
			}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestEveryMetricThatIsNamedExists(t *testing.T) {
	for _, file := range []string{alertsFile, alertTests, dashboardFile, "docs/metrics.md", "docs/runbook.md"} {
		names := mentions(page(t, file))
		if len(names) == 0 {
			t.Errorf("%s names no metric: the test looks in the wrong place", file)
		}
		for _, name := range names {
			if row(name).Kind == 0 {
				t.Errorf("%s names %s, which is not in the table", file, name)
			}
		}
	}
}

func TestEveryMetricIsDocumentedAsItIs(t *testing.T) {
	text := page(t, "docs/metrics.md")
	for _, m := range Table() {
		labels := "–"
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		if want := "| `" + m.Name + "` | " + m.Kind.String() + " | " + labels + " | " + m.Help + " |"; !strings.Contains(text, want) {
			t.Errorf("docs/metrics.md lacks the row\n%s", want)
		}
	}
}

// alertNames are those of alerts.yaml.
func alertNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, m := range regexp.MustCompile(`(?m)- alert: (\w+)$`).FindAllStringSubmatch(page(t, alertsFile), -1) {
		names = append(names, m[1])
	}
	if len(names) < 10 {
		t.Fatalf("found %d alerts", len(names))
	}
	return names
}

func TestEveryAlertIsCompleteAndHasItsRunbook(t *testing.T) {
	book := page(t, "docs/runbook.md")
	rules := strings.Split(page(t, alertsFile), "- alert: ")[1:]
	for i, name := range alertNames(t) {
		for _, want := range []string{"severity: ", "summary: ", "description: ", "docs/runbook.md#" + strings.ToLower(name)} {
			if !strings.Contains(rules[i], want) {
				t.Errorf("%s lacks %s", name, want)
			}
		}
		_, section, ok := strings.Cut(book, "\n## "+name+"\n")
		if !ok {
			t.Errorf("docs/runbook.md has no section %s", name)
			continue
		}
		section, _, _ = strings.Cut(section, "\n## ")
		for _, part := range []string{"**Meaning.**", "**Impact.**", "**Diagnosis.**", "**Mitigation.**"} {
			if !strings.Contains(section, part) {
				t.Errorf("docs/runbook.md, %s: no %s", name, part)
			}
		}
	}
}

// TestEveryAlertIsTestedThreeWays: silent before, firing, silent again.
func TestEveryAlertIsTestedThreeWays(t *testing.T) {
	text := page(t, alertTests)
	for _, name := range alertNames(t) {
		silent := strings.Count(text, "{alertname: "+name+", ") // with exp_alerts: []
		fires := strings.Count(text, "- alertname: "+name+"\n")
		if silent < 2 || fires < 1 {
			t.Errorf("%s: %d times silent, %d times firing", name, silent, fires)
		}
	}
}

func TestAlertsFireAndRecover(t *testing.T) {
	servers.Need(t, "promtool")
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", "alerts.yaml"},
		{"test", "rules", "alerts_test.yaml"},
		{"check", "config", "--syntax-only", "prometheus.yaml"},
	} {
		cmd := exec.Command("promtool", args...)
		cmd.Dir = "../deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
