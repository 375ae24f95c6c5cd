package daemon

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// command runs one command and returns what a shell would see.
func command(t *testing.T, f func(Process, []string) int, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = f(Process{Version: "v1.2.3", Stdout: &out, Stderr: &err}, args)
	return code, out.String(), err.String()
}

func serveIn(t *testing.T) func(Process, []string) int {
	return func(p Process, args []string) int { return p.Serve(t.Context(), args) }
}

func reconcileIn(t *testing.T) func(Process, []string) int {
	return func(p Process, args []string) int { return p.Reconcile(t.Context(), args) }
}

func healthIn(t *testing.T) func(Process, []string) int {
	return func(p Process, args []string) int { return p.Health(t.Context(), args) }
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tierlock.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExitCodes(t *testing.T) {
	bad := write(t, strings.NewReplacer("class: strong, ", "", "prefix:", "prefixx:").Replace(example))
	good := write(t, example)
	signs := write(t, strings.Replace(example, "prefix: biz", `prefix: "<b>&"`, 1))
	noKafka := write(t, strings.Replace(example, `, kafka: {brokers: ["127.0.0.1:9092"], topic: tierlock.events.v1}`, "", 1))
	for name, c := range map[string]struct {
		f      func(Process, []string) int
		args   []string
		code   int
		stdout string
		stderr string
	}{
		"serve without a file":          {serveIn(t), nil, ExitUsage, "", "want -c FILE"},
		"serve with an unknown flag":    {serveIn(t), []string{"--nosuch"}, ExitUsage, "", "tierlock serve: flag provided but not defined: -nosuch\n`tierlock help serve` tells the flags\n"},
		"serve with a word too many":    {serveIn(t), []string{"-c", good, "now"}, ExitUsage, "", `unexpected "now"`},
		"serve with an absent file":     {serveIn(t), []string{"-c", "/nowhere"}, ExitUsage, "", "-c"},
		"serve with faults":             {serveIn(t), []string{"-c", bad}, ExitUsage, "", "2 faults in the input\n  prefixx \"biz\": is not known here"},
		"serve with faults, as JSON":    {serveIn(t), []string{"-c", bad, "--output", "json"}, ExitUsage, `{"error":"invalid","faults":[{"field":"prefixx","value":"biz","rule":"is not known here`, ""},
		"signs in JSON":                 {serveIn(t), []string{"-c", signs, "--output", "json"}, ExitUsage, `{"field":"prefix","value":"<b>&","rule":"want letters`, ""},
		"serve with another output":     {serveIn(t), []string{"-c", good, "--output", "xml"}, ExitUsage, "", "want text or json"},
		"serve --check":                 {serveIn(t), []string{"-c", good, "--check"}, ExitOK, good + ": ok\n", ""},
		"serve --help":                  {serveIn(t), []string{"--help"}, ExitOK, "", "usage: tierlock serve"},
		"reconcile without Kafka":       {reconcileIn(t), []string{"-c", noKafka}, ExitUsage, "", "audit.kafka: is required"},
		"reconcile --report without db": {reconcileIn(t), []string{"-c", good, "--report"}, ExitUsage, "", "reconcile.database: is required for --report"},
		"two runs in one":               {reconcileIn(t), []string{"-c", good, "--once", "--report"}, ExitUsage, "", "--report: does not go with --once"},
		"two other runs in one":         {reconcileIn(t), []string{"-c", good, "--replay-dlq", "--report"}, ExitUsage, "", "--replay-dlq: does not go with --report"},
		"a list that applies":           {reconcileIn(t), []string{"-c", good, "--apply", "--report"}, ExitUsage, "", "--apply: does not go with --report"},
		"a name for a dry run":          {reconcileIn(t), []string{"-c", good, "--once", "--by", "olga"}, ExitUsage, "", "--by \"olga\": needs --apply"},
		"a name for letters":            {reconcileIn(t), []string{"-c", good, "--replay-dlq", "--apply", "--by", "olga"}, ExitUsage, "", "--by \"olga\": does not go with --replay-dlq"},
		"version":                       {Process.ShowVersion, nil, ExitOK, "tierlock v1.2.3 (go ", ""},
		"version as JSON":               {Process.ShowVersion, []string{"--output", "json"}, ExitOK, `{"version":"v1.2.3","go":"`, ""},
		"help":                          {Process.Help, nil, ExitOK, "tierlock serve -c FILE", ""},
		"help serve":                    {Process.Help, []string{"serve"}, ExitOK, "usage: tierlock serve", ""},
		"help reconcile":                {Process.Help, []string{"reconcile"}, ExitOK, "usage: tierlock reconcile", ""},
		"health of nobody":              {healthIn(t), []string{"http://" + nobody(t) + "/healthz"}, ExitError, "", "connection refused: does it run, and there? give its listen.admin"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := command(t, c.f, c.args...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("code %d\nstdout %s\nstderr %s", code, stdout, stderr)
			}
			if c.code == ExitOK && stderr != "" && c.stderr == "" || c.code != ExitOK && stdout != "" && c.stdout == "" {
				t.Errorf("unexpected output\nstdout %s\nstderr %s", stdout, stderr)
			}
		})
	}
}

func TestOneWrongFlagIsOneLine(t *testing.T) {
	for _, c := range []struct {
		f    func(Process, []string) int
		args []string
		want string
	}{
		{reportIn(t), []string{"--incident", "yesterday"}, `tierlock report: invalid value "yesterday" for flag -incident: want FROM..TO, as 2026-11-29T10:00:00Z..2026-11-29T10:30:00Z`},
		{reportIn(t), []string{"show", "x.json", "--output", "xml"}, `tierlock report: invalid value "xml" for flag -output: want text, json, csv or html`},
		{func(p Process, args []string) int { return p.Doctor(t.Context(), args) }, []string{"--timeout", "5"}, `tierlock doctor: invalid value "5" for flag -timeout: want a duration with its unit, as 300ms or 5s`},
		{func(p Process, args []string) int { return p.Switch(t.Context(), append([]string{"set"}, args...)) }, []string{"--for", "10"}, `tierlock switch: invalid value "10" for flag -for: want a duration with its unit, as 300ms or 5s`},
		{func(p Process, args []string) int { return p.Switch(t.Context(), append([]string{"set"}, args...)) }, []string{"--percent", "abc"}, `tierlock switch: invalid value "abc" for flag -percent: want a whole number, 0 or more`},
		{func(p Process, args []string) int { return p.Switch(t.Context(), append([]string{"set"}, args...)) }, []string{"--dry-run=maybe"}, `tierlock switch: invalid boolean value "maybe" for -dry-run: want true or false`},
		{reportIn(t), []string{"--max-records", "many"}, `tierlock report: invalid value "many" for flag -max-records: want a whole number`},
		{whyIn(t), []string{"--at", "10:00"}, `tierlock why: invalid value "10:00" for flag -at: want an instant, as 2026-11-29T10:00:00.5Z`},
	} {
		code, stdout, stderr := command(t, c.f, c.args...)
		name, _, _ := strings.Cut(c.want, ":")
		want := c.want + "\n`tierlock help " + strings.TrimPrefix(name, "tierlock ") + "` tells the flags\n"
		if code != ExitUsage || stdout != "" || stderr != want {
			t.Errorf("%v: code %d\n%s\nwant %s", c.args, code, stderr, want)
		}
	}
}

func TestAReportWantsAName(t *testing.T) {
	t.Setenv("USER", "")
	for _, args := range [][]string{
		{"-c", write(t, example), "--incident", "2026-11-29T10:00:00Z..2026-11-29T10:30:00Z"},
		{"review", "x.json"},
		{"assign", "x.json", "--record", "a:b"},
	} {
		if code, _, stderr := command(t, reportIn(t), args...); code != ExitUsage || !strings.Contains(stderr, "--by: want the name of who does this: $USER has none") {
			t.Errorf("%v: code %d\n%s", args, code, stderr)
		}
	}
}

func TestDurationsInTheLogHaveTheirUnit(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		LogConfig{Format: format}.logger(&out).Info("stopping", "grace", 10*time.Second)
		if !strings.Contains(out.String(), "10s") {
			t.Errorf("%s: %s", format, &out)
		}
	}
}

func TestHealthTellsOfAnOrderWithoutTheStoresTime(t *testing.T) {
	since := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	c := chainHealth{
		Chain: "coupon", Tier: "bypass", State: "normal", Why: "forced", Since: since,
		Order: &orderHealth{Mode: "bypass", Until: since.Add(time.Hour), By: "oncall", Reason: "DDoS"},
	}
	if got, want := c.line(), "coupon           bypass     store normal since 10:00:00, ordered bypass until 11:00:00 by oncall: DDoS"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestHealthTellsAPerson(t *testing.T) {
	d := run(t, config(t, t.TempDir(), nobody(t), ""))
	d.want("/v1/try", `{"key":"biz:coupon:lock:1"}`, "200")
	url := "http://" + d.AdminAddr() + "/healthz"
	if code, _, stderr := command(t, healthIn(t), d.DataAddr()); code != ExitError || !strings.Contains(stderr, "/healthz is at the admin port (listen.admin), "+d.AdminAddr()) {
		t.Errorf("at the data port: code %d, %s", code, stderr)
	}
	code, stdout, _ := command(t, healthIn(t), url)
	if code != ExitOK || !strings.HasPrefix(stdout, "degraded (tierlock v0, switch version 0, policies "+d.gw.PolicyHash()+")\n") || !strings.Contains(stdout, "\n  coupon           local      store down: down since ") {
		t.Errorf("code %d\n%s", code, stdout)
	}
	code, stdout, _ = command(t, healthIn(t), "--output", "json", url)
	if code != ExitOK || !json.Valid([]byte(stdout)) {
		t.Errorf("code %d\n%s", code, stdout)
	}
}

func TestHealthCompletesWhatIsTyped(t *testing.T) {
	for typed, want := range map[string]string{
		"127.0.0.1:7071":                "http://127.0.0.1:7071/healthz",
		"localhost:7071/":               "http://localhost:7071/healthz",
		"http://127.0.0.1:7072":         "http://127.0.0.1:7072/healthz",
		"https://shop.example/healthz":  "https://shop.example/healthz",
		"http://127.0.0.1:7071/healthz": "http://127.0.0.1:7071/healthz",
		"[::1]:7071":                    "http://[::1]:7071/healthz",
	} {
		if got := pageURL(typed, "/healthz"); got != want {
			t.Errorf("%s: %s, want %s", typed, got, want)
		}
	}
}

func TestHealthOfSomethingElse(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"a page":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(h)
			defer s.Close()
			if code, _, stderr := command(t, healthIn(t), s.URL); code != ExitError || !strings.Contains(stderr, s.URL) {
				t.Errorf("code %d: %s", code, stderr)
			}
		})
	}
}
