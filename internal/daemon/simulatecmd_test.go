package daemon

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/signals"
)

func simulateIn(*testing.T) func(Process, []string) int {
	return func(p Process, args []string) int { return p.Simulate(context.Background(), args) }
}

// A daemon records itself losing a real Redis; its recording says the same, and what another
// policy would have done.
func TestADaemonsRecordingIsReplayed(t *testing.T) {
	redis := servers.Redis(t)
	c := config(t, t.TempDir(), redis.Addr(), "")
	c.Signals.File = filepath.Join(t.TempDir(), "signals")
	d := run(t, c)
	d.want("/v1/try", `{"key":"biz:coupon:lock:1"}`, `200 {"outcome":"success","tier":"shared"`)
	redis.Kill()
	began := time.Now()
	for n := 0; time.Since(began) < 1500*time.Millisecond; n++ {
		d.post("/v1/try", `{"key":"biz:coupon:lock:2"}`)
		d.post("/v1/try", `{"key":"biz:order:lock:2"}`)
		time.Sleep(20 * time.Millisecond)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := command(t, simulateIn(t), "--output", "json", "--set", "coupon.on_down=fail", "--set", "coupon.saturate_in=2s", c.Signals.File)
	var r signals.Report
	if err := json.Unmarshal([]byte(stdout), &r); code != ExitOK || err != nil {
		t.Fatalf("code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	if len(r.Chains) != 2 || r.Chains[0].Chain != "coupon" || r.Chains[1].Chain != "order" {
		t.Fatalf("%s", stdout)
	}
	for _, x := range r.Chains {
		if len(x.Really.Steps) != 1 || x.Really.Steps[0].To != degrade.Down || !x.Faithful {
			t.Errorf("%s: really %v, replayed %v", x.Chain, x.Really.Steps, x.Recorded.Steps)
		}
	}
	coupon := r.Chains[0]
	if was, is := coupon.Recorded, coupon.Simulated; was.Seconds["local"] < 1 || was.Seconds["refused"] != 0 || is.Seconds["local"] != 0 || is.Seconds["refused"] != was.Seconds["local"] ||
		is.Calls["refused"] == 0 || len(coupon.Changed) != 2 {
		t.Errorf("recorded %+v\nother %+v\nchanged %v", was, is, coupon.Changed)
	}
	other := write(t, strings.Replace(example, "on_down: local", "on_down: optimistic", 1))
	if code, stdout, stderr := command(t, simulateIn(t), "-c", other, c.Signals.File); code != ExitOK || !strings.Contains(stdout, "\ncoupon\n") || !strings.Contains(stdout, "  on_down optimistic instead of local\n") {
		t.Errorf("code %d\n%s%s", code, stdout, stderr)
	}
}

func TestSimulateSaysWhatIsWrong(t *testing.T) {
	good := filepath.Join(t.TempDir(), "signals")
	if err := os.WriteFile(good, []byte(`{"at":"2026-11-29T10:00:00Z","chain":"coupon","start":true,"policy":{"class":"weak"}}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte(`{"at":"2026-11-29T10:00:00Z","chain":"coupon","signals":{}}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	later := filepath.Join(t.TempDir(), "later")
	if err := os.WriteFile(later, []byte(`{"at":"2026-11-29T11:00:00Z","chain":"coupon","start":true,"policy":{"class":"weak"}}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args   []string
		code   int
		stderr string
	}{
		"nothing":          {nil, ExitUsage, "want a RECORDING"},
		"no such file":     {[]string{"/nowhere"}, ExitError, "no such file"},
		"no policy":        {[]string{bad}, ExitUsage, `line 1: chain "coupon": has no policy line before this one`},
		"half a set":       {[]string{"--set", "coupon=2s", good}, ExitUsage, `--set "coupon=2s": want CHAIN.FIELD=VALUE`},
		"an unknown field": {[]string{"--set", "coupon.saturate=2s", good}, ExitUsage, `--set coupon.saturate`},
		"a bad value":      {[]string{"--set", "coupon.saturate_in=0s", good}, ExitUsage, `coupon.saturate_in "0s": want a time above 0`},
		"no such chain":    {[]string{"--set", "nochain.on_down=fail", good}, ExitUsage, `--set "nochain.on_down=fail": is for a chain that is not in the recording, which has coupon`},
		"time runs back":   {[]string{later, good}, ExitUsage, `at "2026-11-29T10:00:00Z": is before what came before`},
		"an absent config": {[]string{"-c", "/nowhere", good}, ExitUsage, "-c"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, stdout, stderr := command(t, simulateIn(t), c.args...); code != c.code || stdout != "" || !strings.Contains(stderr, c.stderr) {
				t.Errorf("code %d\nstdout %s\nstderr %s", code, stdout, stderr)
			}
		})
	}
}
