package daemon

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tierlock/tierlock/switchcfg"
)

// newKeys writes a pair of keys as openssl does.
func newKeys(t *testing.T) (private, public string, key ed25519.PublicKey) {
	t.Helper()
	key, secret, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	pkix, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	private, public = filepath.Join(dir, "switch.key"), filepath.Join(dir, "switch.pub")
	for path, block := range map[string]*pem.Block{private: {Type: "PRIVATE KEY", Bytes: pkcs8}, public: {Type: "PUBLIC KEY", Bytes: pkix}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return private, public, key
}

func TestSwitchSignsWhatItPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		private, public, key := newKeys(t)
		document := filepath.Join(t.TempDir(), "switch.yaml")
		config := switchedBy(t, "file: "+document+", verify_file: "+public)
		set := []string{"set", "-c", config, "--mode", "bypass", "--for", "10m", "--reason", "r", "--by", "b", "--confirm", "yes"}
		if code, _, stderr := sw(t, "", append(set, "coupon")...); code != ExitUsage || !strings.Contains(stderr, "sign: is required") {
			t.Errorf("code %d, %s: published unsigned", code, stderr)
		}
		stranger, _, _ := newKeys(t)
		if code, _, stderr := sw(t, "", append(set, "--sign", stranger, "coupon")...); code != ExitUsage || !strings.Contains(stderr, "belongs to none of the keys") {
			t.Errorf("code %d, %s: published with a stranger's key", code, stderr)
		}
		if code, _, stderr := sw(t, "", append(set, "--sign", public, "coupon")...); code != ExitUsage || !strings.Contains(stderr, "want an Ed25519 private key") {
			t.Errorf("code %d, %s: signed with a public key", code, stderr)
		}
		if _, err := os.Stat(document); !os.IsNotExist(err) {
			t.Fatal("something was published")
		}
		if code, _, stderr := sw(t, "", append(set, "--sign", private, "coupon")...); code != ExitOK {
			t.Fatal(stderr)
		}
		d := published1(t, document)
		if err := d.Verify(key); err != nil || d.Version != 1 {
			t.Fatalf("version %d, %v", d.Version, err)
		}
		d.Chains["order"] = d.Chains["coupon"] // by somebody with a right to write there, and no key
		if err := switchcfg.WriteFile(document, d); err != nil {
			t.Fatal(err)
		}
		extend := []string{"extend", "-c", config, "--for", "20m", "--confirm", "yes", "--sign", private}
		if code, _, stderr := sw(t, "", append(extend, "coupon")...); code == ExitOK || !strings.Contains(stderr, "--discard") {
			t.Errorf("code %d, %s: what was tampered with is signed now", code, stderr)
		}
		if code, _, stderr := sw(t, "", append(set, "--sign", private, "--discard", "coupon")...); code != ExitOK {
			t.Fatal(stderr)
		}
		if d := published1(t, document); d.Version != 2 || len(d.Chains) != 1 || d.Verify(key) != nil {
			t.Errorf("%+v, want the order asked for and nothing else", d)
		}
	})
}

func TestSwitchCanaryPolicyDryRunAndPromote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, document := switched(t)
		set := []string{"set", "-c", config, "--mode", "bypass", "--for", "10m", "--reason", "r", "--by", "b", "--confirm", "yes"}
		code, _, stderr := sw(t, "", append(set, "--dry-run", "--canary", "shop-order-1, 10%", "coupon")...)
		if code != ExitOK || !strings.Contains(stderr, "- for every instance\n+ for shop-order-1 and 10 % of the instances\n") || !strings.Contains(stderr, "+ coupon: dry run of bypass until ") {
			t.Fatalf("code %d, %s", code, stderr)
		}
		if d := published1(t, document); d.Canary == nil || d.Canary.Percent != 10 || !d.Chains["coupon"].DryRun {
			t.Fatalf("%+v", d)
		}
		if code, stdout, _ := sw(t, "", "get", "-c", config, "--ask", nobody(t)); code != ExitError || !strings.Contains(stdout, "version 1\n  for shop-order-1 and 10 % of the instances\n  coupon: dry run of bypass") {
			t.Errorf("%s", stdout)
		}
		code, _, stderr = sw(t, "", "policy", "-c", config, "--confirm", "yes", "coupon", "wait=500ms", "local.permits=2")
		if code != ExitOK || !strings.Contains(stderr, "- coupon policy: as configured\n+ coupon policy: local.permits=2 wait=500ms\n") || !strings.Contains(stderr, "+ for every instance") {
			t.Fatalf("code %d, %s", code, stderr)
		}
		if code, _, stderr := sw(t, "", "policy", "-c", config, "--confirm", "yes", "--canary", "1%", "coupon", "wait=", "on_down=fail"); code != ExitOK {
			t.Fatal(stderr)
		}
		if code, _, stderr := sw(t, "", "promote", "-c", config, "--confirm", "yes"); code != ExitOK || !strings.Contains(stderr, "- for 1 % of the instances\n+ for every instance") {
			t.Fatalf("code %d, %s", code, stderr)
		}
		d := published1(t, document)
		if got := d.Policies["coupon"].String(); d.Version != 4 || d.Canary != nil || got != "local.permits=2 on_down=fail" {
			t.Errorf("version %d, %v, %s", d.Version, d.Canary, got)
		}
		if code, stdout, _ := sw(t, "", "promote", "-c", config, "--confirm", "yes"); code != ExitOK || !strings.Contains(stdout, "nothing would change") {
			t.Errorf("code %d, %s", code, stdout)
		}
	})
}

func TestSwitchPolicyRefusesBeforeItAsks(t *testing.T) {
	config, document := switched(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no field":           {[]string{"coupon"}, "want a chain and FIELD=VALUE"},
		"no value":           {[]string{"coupon", "wait"}, "policy \"wait\": want FIELD=VALUE"},
		"another's chain":    {[]string{"gift", "wait=1s"}, "is not in this configuration"},
		"out of range":       {[]string{"coupon", "wait=3s"}, "policies.coupon.wait \"3s\": want 0"},
		"takes a restart":    {[]string{"coupon", "ttl=20s"}, "policies.coupon.ttl: cannot change"},
		"none of a policy":   {[]string{"coupon", "foo=1"}, "policies.coupon.foo: is no field of a policy: want one of wait, wait_schedule,"},
		"canary of all":      {[]string{"--canary", "100%", "coupon", "wait=1s"}, "canary.percent \"100\""},
		"canary of two":      {[]string{"--canary", "10%,20%", "coupon", "wait=1s"}, "one share"},
		"canary of a space":  {[]string{"--canary", "x y", "coupon", "wait=1s"}, "canary.instances[0] \"x y\": want a name"},
		"by nobody":          {[]string{"--by", "", "coupon", "wait=1s"}, "by: is required where $USER is not set"},
		"canary of no share": {[]string{"--canary", "x%", "coupon", "wait=1s"}, "one share"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := sw(t, "yes\n", append([]string{"policy", "-c", config}, c.args...)...)
			if code != ExitUsage || !strings.Contains(stdout+stderr, c.want) || strings.Contains(stderr, "Type") {
				t.Errorf("code %d\n%s%s\nwant %q", code, stdout, stderr, c.want)
			}
		})
	}
	if _, err := os.Stat(document); !os.IsNotExist(err) {
		t.Error("something was published")
	}
}

// TestSwitchGetTellsWhatInstancesMakeOfIt asks a daemon that runs, and one that does not.
func TestSwitchGetTellsWhatInstancesMakeOfIt(t *testing.T) {
	redis, _ := inProcess(t)
	c := config(t, t.TempDir(), redis, "")
	d := run(t, c)
	document := c.Switch.File
	path := switchedBy(t, "file: "+document)
	if code, _, stderr := sw(t, "", "set", "-c", path, "--mode", "bypass", "--dry-run", "--for", "10m", "--reason", "r", "--by", "b", "--confirm", "yes", "coupon"); code != ExitOK {
		t.Fatal(stderr)
	}
	until(t, "the document is in force", func() bool { return d.gw.AppliedVersion() == 1 })
	d.want("/v1/try", `{"key":"biz:coupon:lock:1","request_id":"`+idA+`"}`, `200 {"outcome":"success","tier":"shared"`)
	if err := os.WriteFile(document, []byte("version: 1\nchains: {}\n"), 0o600); err != nil { // the same version, other content
		t.Fatal(err)
	}
	until(t, "the alarm", func() bool {
		_, stdout, _ := sw(t, "", "get", "-c", path, "--ask", d.AdminAddr())
		return strings.Contains(stdout, "ALARM since ") && strings.Contains(stdout, ": conflict: version 1 is in force with other content")
	})
	code, stdout, _ := sw(t, "", "get", "-c", path, "--ask", d.AdminAddr()+", "+nobody(t))
	for _, want := range []string{
		"instance " + c.producer() + " at " + d.AdminAddr() + " applies version 1, policies " + d.gw.PolicyHash(),
		"coupon: dry run of bypass until ", "1 would have been bypass, got success", "does not answer: ",
	} {
		if code != ExitError || !strings.Contains(stdout, want) {
			t.Errorf("code %d, want %q in\n%s", code, want, stdout)
		}
	}
	var told seen
	_, stdout, _ = sw(t, "", "get", "-c", path, "--output", "json", "--ask", d.AdminAddr())
	if err := json.Unmarshal([]byte(stdout), &told); err != nil || len(told.Instances) != 1 || len(told.Instances[0].Rehearsals["coupon"].Calls) != 1 || told.Instances[0].Alarm == nil || told.Instances[0].Rehearsals["coupon"].Calls[0].Count != 1 {
		t.Errorf("%v\n%s", err, stdout)
	}
}
