package daemon

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
)

func explainIn(t *testing.T) func(Process, []string) int {
	return func(p Process, args []string) int { return p.Explain(t.Context(), args) }
}

// A daemon on a real Redis is asked about a key that is held, and again after it lost Redis.
func TestExplainTellsAPersonAndAProgram(t *testing.T) {
	redis := servers.Redis(t)
	d := run(t, config(t, t.TempDir(), redis.Addr(), ""))
	d.want("/v1/try", keyA, "200")
	holder, err := tierlock.ParseRequestID(idA)
	if err != nil {
		t.Fatal(err)
	}
	const key = "biz:order:lock:10086"
	code, stdout, _ := command(t, explainIn(t), "--admin", d.AdminAddr(), key, "--output", "json") // flags stand behind the key, too
	var x gateway.Explanation
	if err := json.Unmarshal([]byte(stdout), &x); code != ExitOK || err != nil {
		t.Fatalf("code %d, %v\n%s", code, err, stdout)
	}
	if x.Store.Holder != holder.Fingerprint() || !x.Store.Here || x.Next.Reason != tierlock.ReasonHeld || x.Holders[0].Token == 0 || x.Holders[0].Renews != 0 {
		t.Errorf("%+v, next %+v, holders %+v", x.Store, x.Next, x.Holders)
	}
	code, stdout, _ = command(t, explainIn(t), "--admin", d.AdminAddr(), key)
	for _, want := range []string{
		key + ", chain order (strong): one sale of a sku at a time\n",
		"  a new request    failure (held), advice retry; decided by the store\n",
		"  on the store     held by " + holder.Fingerprint(),
		"by this process\n",
		"  in this process  shared by " + holder.Fingerprint(),
	} {
		if code != ExitOK || !strings.Contains(stdout, want) {
			t.Errorf("code %d, lacks %q:\n%s", code, want, stdout)
		}
	}
	if strings.Contains(stdout, idA) {
		t.Errorf("the request id shows:\n%s", stdout)
	}

	redis.Kill()
	d.want("/v1/try", keyB, "503")
	if _, stdout, _ := command(t, explainIn(t), "--admin", d.AdminAddr(), key); !strings.Contains(stdout, "  a new request    system_error (down), advice fail; decided by the health\n") {
		t.Errorf("with Redis gone:\n%s", stdout)
	}
}

func TestExplainSaysWhatIsWrongWithTheQuestion(t *testing.T) {
	d := run(t, config(t, t.TempDir(), nobody(t), ""))
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	defer page.Close()
	for name, c := range map[string]struct {
		args   []string
		code   int
		stderr string
	}{
		"no key":        {nil, ExitUsage, "want a KEY"},
		"two keys":      {[]string{"biz:order:lock:1", "biz:order:lock:2"}, ExitUsage, `unexpected "biz:order:lock:2"`},
		"a bad key":     {[]string{"a b"}, ExitUsage, `key "a b": byte ' ' at 1 is not one of`},
		"of no chain":   {[]string{"--admin", d.AdminAddr(), "biz:nosuch:lock:1"}, ExitUsage, `key "biz:nosuch:lock:1": chain nosuch is not configured; there are coupon, order`},
		"nobody there":  {[]string{"--admin", nobody(t), "biz:order:lock:1"}, ExitError, "connection refused: does it run, and there? --admin takes its listen.admin"},
		"the data port": {[]string{"--admin", d.DataAddr(), "biz:order:lock:1"}, ExitError, "404 Not Found: this is the data port (listen.data): /explain is at the admin port (listen.admin), " + d.AdminAddr() + "\n"},
		"another page":  {[]string{"--admin", d.AdminAddr() + "/nosuch", "biz:order:lock:1"}, ExitError, "404"},
		"some web page": {[]string{"--admin", page.URL, "biz:order:lock:1"}, ExitError, "answers with something else"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, stdout, stderr := command(t, explainIn(t), c.args...); code != c.code || stdout != "" || !strings.Contains(stderr, c.stderr) {
				t.Errorf("code %d\nstdout %s\nstderr %s", code, stdout, stderr)
			}
		})
	}
}
