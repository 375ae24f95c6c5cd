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
	noKafka := write(t, strings.Replace(example, `, kafka: {brokers: ["127.0.0.1:9092"], topic: tierlock.events.v1}`, "", 1))
	for name, c := range map[string]struct {
		f      func(Process, []string) int
		args   []string
		code   int
		stdout string
		stderr string
	}{
		"serve without a file":          {serveIn(t), nil, ExitUsage, "", "want -c FILE"},
		"serve with an unknown flag":    {serveIn(t), []string{"--nosuch"}, ExitUsage, "", "usage: tierlock serve"},
		"serve with a word too many":    {serveIn(t), []string{"-c", good, "now"}, ExitUsage, "", `unexpected "now"`},
		"serve with an absent file":     {serveIn(t), []string{"-c", "/nowhere"}, ExitUsage, "", "-c"},
		"serve with faults":             {serveIn(t), []string{"-c", bad}, ExitUsage, "", "2 faults in the input\n  prefixx \"biz\": is not known here"},
		"serve with faults, as JSON":    {serveIn(t), []string{"-c", bad, "--output", "json"}, ExitUsage, `{"error":"invalid","faults":[{"field":"prefixx","value":"biz","rule":"is not known here`, ""},
		"serve with another output":     {serveIn(t), []string{"-c", good, "--output", "xml"}, ExitUsage, "", "want text or json"},
		"serve --check":                 {serveIn(t), []string{"-c", good, "--check"}, ExitOK, good + ": ok\n", ""},
		"serve --help":                  {serveIn(t), []string{"--help"}, ExitOK, "", "usage: tierlock serve"},
		"reconcile without Kafka":       {reconcileIn(t), []string{"-c", noKafka}, ExitUsage, "", "audit.kafka: is required"},
		"reconcile --report without db": {reconcileIn(t), []string{"-c", good, "--report"}, ExitUsage, "", "reconcile.database: is required for --report"},
		"version":                       {Process.ShowVersion, nil, ExitOK, "tierlock v1.2.3 (go ", ""},
		"version as JSON":               {Process.ShowVersion, []string{"--output", "json"}, ExitOK, `{"version":"v1.2.3","go":"`, ""},
		"help":                          {Process.Help, nil, ExitOK, "tierlock serve -c FILE", ""},
		"help serve":                    {Process.Help, []string{"serve"}, ExitOK, "usage: tierlock serve", ""},
		"help reconcile":                {Process.Help, []string{"reconcile"}, ExitOK, "usage: tierlock reconcile", ""},
		"health of nobody":              {healthIn(t), []string{"http://" + nobody(t) + "/healthz"}, ExitError, "", "connection refused"},
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

func TestHealthTellsAPerson(t *testing.T) {
	d := run(t, config(t, t.TempDir(), nobody(t), ""))
	d.want("/v1/try", `{"key":"biz:coupon:lock:1"}`, "200")
	url := "http://" + d.AdminAddr() + "/healthz"
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
		if got := healthURL(typed); got != want {
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
