package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/switchcfg"
)

// switched is a configuration that follows a file, and that file.
func switched(t *testing.T) (config, document string) {
	t.Helper()
	document = filepath.Join(t.TempDir(), "switch.yaml")
	return switchedBy(t, "file: "+document), document
}

// switchedBy is a configuration with these fields of switch.
func switchedBy(t *testing.T, fields string) (config string) {
	t.Helper()
	const nacos = `nacos: {addr: "127.0.0.1:8848", namespace: "", data_id: tierlock.switch, group: TIERLOCK}, poll: 4s, last_good: /var/lib/tierlock/switch.last`
	if !strings.Contains(example, nacos) {
		t.Fatal("the example has another switch")
	}
	return write(t, strings.Replace(example, nacos, fields, 1))
}

// sw runs tierlock switch with stdin. Where something is published in a file it is looked at a
// second later: tests without a daemon are bubbles, in which that costs nothing.
func sw(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	p := Process{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &err}
	code = p.Switch(t.Context(), args)
	return code, out.String(), err.String()
}

func published1(t *testing.T, path string) switchcfg.Document {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := switchcfg.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSwitchSetShowsAsksAndPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, document := switched(t)
		set := []string{"set", "-c", config, "--mode", "bypass", "--for", "10m", "--reason", "Redis under DDoS", "--by", "oncall", "coupon"}
		code, stdout, stderr := sw(t, "yes\n", set...)
		if code != ExitOK || !strings.Contains(stderr, "- coupon: auto\n+ coupon: bypass until ") || !strings.Contains(stderr, "Type yes") || !strings.Contains(stdout, "version 1 is published") {
			t.Fatalf("code %d\n%s\n%s", code, stdout, stderr)
		}
		if d := published1(t, document); d.Version != 1 || d.Chains["coupon"].Mode != tierlock.ModeBypass || d.Chains["coupon"].By != "oncall" {
			t.Fatalf("%+v", d)
		}
		for _, answer := range []string{"", "no\n", "y\n", "YES\n"} {
			if code, _, stderr := sw(t, answer, "set", "-c", config, "--mode", "auto", "coupon"); code != ExitError || !strings.Contains(stderr, "not published") {
				t.Errorf("answer %q: code %d, %s", answer, code, stderr)
			}
		}
		if d := published1(t, document); d.Version != 1 {
			t.Fatalf("version %d was published without a yes", d.Version)
		}
		code, stdout, _ = sw(t, "", "set", "-c", config, "--mode", "auto", "--confirm", "yes", "--output", "json", "coupon")
		var told published
		if err := json.Unmarshal([]byte(stdout), &told); err != nil || code != ExitOK || told.Version != 2 || told.Was != 1 || !told.Published || len(told.Changes) != 1 {
			t.Fatalf("code %d, %s, %v", code, stdout, err)
		}
		if code, stdout, _ := sw(t, "", "set", "-c", config, "--mode", "auto", "--confirm", "yes", "coupon"); code != ExitOK || !strings.Contains(stdout, "version 2 stays") {
			t.Errorf("code %d, %s: nothing was to change", code, stdout)
		}
	})
}

func TestSwitchSetRefusesBeforeItAsks(t *testing.T) {
	config, document := switched(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no mode":                 {[]string{"coupon"}, "mode: is required"},
		"no end":                  {[]string{"--mode", "bypass", "--reason", "r", "--by", "b", "coupon"}, "for"},
		"no reason":               {[]string{"--mode", "bypass", "--for", "1m", "--by", "b", "coupon"}, "chains.coupon.reason"},
		"two days":                {[]string{"--mode", "bypass", "--for", "48h", "--reason", "r", "--by", "b", "coupon"}, "chains.coupon.until"},
		"no chain":                {[]string{"--mode", "auto"}, "chain: say which"},
		"a typing error":          {[]string{"--mode", "bypass", "--for", "1m", "--reason", "r", "--by", "b", "coupn"}, "is not in this configuration, which has coupon, order"},
		"a strong chain":          {[]string{"--mode", "bypass", "--for", "1m", "--reason", "r", "--by", "b", "order"}, "--break-glass"},
		"nothing of a wrong mode": {[]string{"--mode", "off", "coupon"}, "want auto, shared"},
		"a share of no order":     {[]string{"--mode", "auto", "--by", "b", "--percent", "50", "coupon"}, "percent: is for an order: --mode auto ends one"},
		"a dry run of no order":   {[]string{"--mode", "auto", "--by", "b", "--dry-run", "coupon"}, "dry-run: is for an order"},
		"by nobody":               {[]string{"--mode", "auto", "--by", " ", "coupon"}, "is required where $USER is not set"},
		"too large a share":       {[]string{"--mode", "local", "--for", "1m", "--reason", "r", "--by", "b", "--percent", "101", "coupon"}, "want 1 to 100"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := sw(t, "yes\n", append([]string{"set", "-c", config}, c.args...)...)
			if code != ExitUsage || !strings.Contains(stdout+stderr, c.want) || strings.Contains(stderr, "Type") {
				t.Errorf("code %d\n%s%s\nwant %q", code, stdout, stderr, c.want)
			}
		})
	}
	if _, err := os.Stat(document); !os.IsNotExist(err) {
		t.Error("something was published")
	}
}

func TestSwitchTakesNoFlagForAChain(t *testing.T) {
	config, document := switched(t)
	order := []string{"--mode", "bypass", "--for", "1m", "--reason", "r", "--by", "b", "--confirm", "yes"}
	const rule = "flags go before the chain"
	for name, c := range map[string]struct {
		verb  string
		args  []string
		wants []string
	}{
		"set":                        {"set", append(order, "coupon", "--dry-run"), []string{"--dry-run", rule}},
		"set, foreign":               {"set", append(order, "--foreign", "coupon", "--dry-run"), []string{"--dry-run", rule}},
		"set, a flag and its value":  {"set", append(order, "--foreign", "coupon", "--percent", "10"), []string{"--percent", rule}},
		"set, behind the flags' end": {"set", append(order, "--foreign", "--", "-x"), []string{"-x", rule}},
		"set, twice":                 {"set", append(order, "coupon", "--dry-run", "--foreign"), []string{"--dry-run", "--foreign", rule}},
		"extend":                     {"extend", []string{"--for", "1m", "--by", "b", "coupon", "--confirm", "yes"}, []string{"--confirm", rule}},
		"policy":                     {"policy", []string{"--by", "b", "coupon", "wait=1s", "--canary=10%"}, []string{"--canary=10%", rule}},
		"promote":                    {"promote", []string{"--by", "b", "coupon", "--sign"}, []string{`"coupon"`, "promote takes flags only", "--sign", rule}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, file := range []string{config, filepath.Join(t.TempDir(), "none.yaml")} { // it is told before a file is read
				code, stdout, stderr := sw(t, "yes\n", append([]string{c.verb, "-c", file}, c.args...)...)
				if code != ExitUsage || stdout != "" || strings.Contains(stderr, "none.yaml") {
					t.Errorf("code %d\n%s%s", code, stdout, stderr)
				}
				for _, want := range c.wants {
					if !strings.Contains(stderr, want) {
						t.Errorf("want %q in\n%s", want, stderr)
					}
				}
			}
		})
	}
	for _, chain := range []string{"Coupon", "a b", "kupón", ""} {
		code, stdout, stderr := sw(t, "yes\n", append(append([]string{"set", "-c", config}, order...), "--foreign", chain)...)
		if code != ExitUsage || !strings.Contains(stderr, "want ^[a-z0-9_-]+$") {
			t.Errorf("foreign chain %q: code %d\n%s%s", chain, code, stdout, stderr)
		}
	}
	if _, err := os.Stat(document); !os.IsNotExist(err) {
		t.Error("something was published")
	}
	synctest.Test(t, func(t *testing.T) {
		if code, _, stderr := sw(t, "", append(append([]string{"set", "-c", config}, order...), "--foreign", "another-chain_2")...); code != ExitOK {
			t.Errorf("a foreign chain with a name: code %d, %s", code, stderr)
		}
	})
}

func TestSwitchOfAllWeakChainsHasAWordOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, document := switched(t)
		args := []string{"set", "-c", config, "--mode", "local", "--for", "1m", "--reason", "drill", "--by", "oncall", "--all-weak"}
		if code, _, stderr := sw(t, "yes\n", args...); code != ExitError || !strings.Contains(stderr, "Type all-weak") {
			t.Fatalf("code %d, %s: yes was taken for it", code, stderr)
		}
		if code, _, stderr := sw(t, "all-weak\n", args...); code != ExitOK {
			t.Fatalf("code %d, %s", code, stderr)
		}
		if d := published1(t, document); len(d.Chains) != 1 || d.Chains["coupon"].Mode != tierlock.ModeLocal {
			t.Fatalf("%+v, want the weak chain alone, by name", d)
		}
	})
}

func TestSwitchExtendGetAndHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, document := switched(t)
		if code, _, stderr := sw(t, "", "extend", "-c", config, "--for", "30m", "coupon"); code != ExitUsage || !strings.Contains(stderr, "is not ordered") {
			t.Fatalf("code %d, %s", code, stderr)
		}
		if code, _, stderr := sw(t, "", "set", "-c", config, "--mode", "bypass", "--for", "10m", "--reason", "r", "--by", "b", "--confirm", "yes", "coupon"); code != ExitOK {
			t.Fatal(stderr)
		}
		if code, _, stderr := sw(t, "yes\n", "extend", "-c", config, "--for", "30m", "coupon"); code != ExitOK {
			t.Fatalf("code %d, %s", code, stderr)
		}
		if left := time.Until(published1(t, document).Chains["coupon"].Until); left < 29*time.Minute || left > 30*time.Minute {
			t.Errorf("%v left, want 30 minutes", left)
		}
		if code, stdout, _ := sw(t, "", "get", "-c", config, "--ask", nobody(t)); code != ExitError || !strings.Contains(stdout, "version 2\n  coupon: bypass until ") || !strings.Contains(stdout, "does not answer") {
			t.Errorf("code %d, %s", code, stdout)
		}
		code, stdout, _ := sw(t, "", "history", "-c", config)
		if code != ExitOK || !strings.Contains(stdout, "version 1, ") || !strings.Contains(stdout, "version 2, ") {
			t.Errorf("code %d, %s", code, stdout)
		}
	})
}

func TestSwitchGetTellsOfNoDocument(t *testing.T) {
	config, _ := switched(t)
	if code, stdout, _ := sw(t, "", "get", "-c", config, "--ask", nobody(t)); code != ExitError || !strings.Contains(stdout, "version 0") || !strings.Contains(stdout, "nothing is ordered") {
		t.Errorf("code %d, %s", code, stdout)
	}
}

func TestSwitchPublishesAFirstDocumentThatOrdersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, document := switched(t)
		args := []string{"set", "-c", config, "--mode", "auto", "--by", "oncall", "coupon"}
		code, stdout, stderr := sw(t, "yes\n", args...)
		if code != ExitOK || !strings.Contains(stderr, "+ a first document that orders nothing\nPublish this as version 1? Type yes: ") || !strings.Contains(stdout, "version 1 is published") {
			t.Fatalf("code %d, %s%s", code, stdout, stderr)
		}
		if d := published1(t, document); d.Version != 1 || len(d.Chains) != 0 {
			t.Errorf("%+v", d)
		}
		if code, stdout, stderr := sw(t, "", args...); code != ExitOK || stdout != "nothing would change: version 1 stays\n" {
			t.Errorf("the second time: code %d, %s%s", code, stdout, stderr)
		}
	})
}

func TestSwitchUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"-c", "x"}, {"frob"}} {
		if code, _, stderr := sw(t, "", args...); code != ExitUsage || !strings.Contains(stderr, switchVerbs) {
			t.Errorf("%v: code %d, %s", args, code, stderr)
		}
	}
	if code, _, stderr := sw(t, "", "get"); code != ExitUsage || !strings.Contains(stderr, "want -c FILE") {
		t.Errorf("code %d, %s", code, stderr)
	}
}

// told is what a command has written so far.
type told struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *told) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *told) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), text)
}

func TestSwitchWatchTellsEveryVersion(t *testing.T) {
	config, document := switched(t)
	ctx, cancel := context.WithCancel(t.Context())
	var out, alarms told
	done := make(chan int, 1)
	go func() { done <- Process{Stdout: &out, Stderr: &alarms}.Switch(ctx, []string{"watch", "-c", config}) }()
	for version := uint64(1); version <= 2; version++ {
		d := switchcfg.Document{Version: version, Chains: map[string]switchcfg.Directive{}}
		if version == 2 {
			d.Chains["coupon"] = switchcfg.Directive{Mode: tierlock.ModeBypass, Until: time.Now().Add(time.Hour), Reason: "r", By: "b"}
		}
		if err := switchcfg.WriteFile(document, d); err != nil {
			t.Fatal(err)
		}
		want := map[uint64]string{1: "version 1\n  nothing is ordered", 2: "version 2\n  coupon: bypass"}[version]
		for end := time.Now().Add(20 * time.Second); !out.has(want); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				cancel()
				t.Fatalf("never told: %q", want)
			}
		}
	}
	good, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{{"version: [", "not followed: unreadable: "}, {string(good), "followed again, version 2\n"}} {
		if err := os.WriteFile(document, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); !alarms.has(c.want); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				cancel()
				t.Fatalf("never told: %q", c.want)
			}
		}
	}
	cancel()
	if code := <-done; code != ExitOK {
		t.Errorf("code %d, want %d when interrupted", code, ExitOK)
	}
}

// TestWhatWasPublishedIsToldAndKeptWhateverFollows: in the second between the document and the
// look somebody else publishes, or the one who waits goes away.
func TestWhatWasPublishedIsToldAndKeptWhateverFollows(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile    func(t *testing.T, document string, interrupt func())
		code         int
		stdout, says string
	}{
		"nothing": {func(*testing.T, string, func()) {}, ExitOK, "version 1 is published", ""},
		"overtaken": {func(t *testing.T, document string, _ func()) {
			other := switchcfg.Document{Version: 1, Chains: map[string]switchcfg.Directive{}}
			if err := switchcfg.WriteFile(document, other); err != nil {
				t.Error(err)
			}
		}, ExitError, "", "theirs stands"},
		"taken away": {func(t *testing.T, document string, _ func()) {
			if err := os.Remove(document); err != nil {
				t.Error(err)
			}
		}, ExitError, "", "does not stand there"},
		"interrupted": {func(_ *testing.T, _ string, interrupt func()) { interrupt() }, ExitOK, "version 1 is published", "not looked at whether it stands: context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			config, document := switched(t)
			synctest.Test(t, func(t *testing.T) {
				ctx, interrupt := context.WithCancel(t.Context())
				defer interrupt()
				later := time.AfterFunc(500*time.Millisecond, func() { c.meanwhile(t, document, interrupt) })
				defer later.Stop()
				var out, err bytes.Buffer
				p := Process{Stdout: &out, Stderr: &err}
				code := p.Switch(ctx, []string{"set", "-c", config, "--mode", "bypass", "--for", "10m", "--reason", "r", "--by", "oncall", "--confirm", "yes", "coupon"})
				if code != c.code || !strings.Contains(out.String(), c.stdout) || c.stdout == "" && out.Len() > 0 || !strings.Contains(err.String(), c.says) {
					t.Errorf("code %d, want %d\n%s%s\nwant %q and %q", code, c.code, &out, &err, c.stdout, c.says)
				}
			})
			text, err := os.ReadFile(document + ".history")
			if err != nil || bytes.Count(text, []byte("\n")) != 1 {
				t.Errorf("history %q, %v, want one entry", text, err)
			}
		})
	}
}
