package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/switchcfg"
)

// ordering are the words of an order on coupon, for so long.
func ordering(config, last string) []string {
	return []string{"set", "-c", config, "--mode", "bypass", "--for", last, "--reason", "r", "--by", "b", "--confirm", "yes", "coupon"}
}

// TestAVersionIsNewerThanAnyThatWasSeen: after a document was deleted, instances still refuse
// what is older.
func TestAVersionIsNewerThanAnyThatWasSeen(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, d running, path string, remove func(history bool)) {
		ask := func(last, where string) []string {
			return append([]string{"set", "--ask", where}, ordering(path, last)[1:]...)
		}
		for _, c := range [][2]string{{"10m", "version 1 is published"}, {"20m", "version 2 is published"}} {
			args, want := ask(c[0], d.AdminAddr()), c[1]
			if code, stdout, stderr := sw(t, "", args...); code != ExitOK || !strings.Contains(stdout, want) || strings.Contains(stderr, "note") {
				t.Fatalf("code %d, %s%s, want %s", code, stdout, stderr, want)
			}
		}
		until(t, "version 2 is in force", func() bool { return d.gw.AppliedVersion() == 2 })
		remove(false)
		nowhere := nobody(t)
		if code, stdout, stderr := sw(t, "", ask("10m", nowhere)...); code != ExitOK || !strings.Contains(stdout, "version 3 is published") || !strings.Contains(stderr, "note: the instance at "+nowhere+" does not answer") {
			t.Fatalf("code %d, %s%s, want version 3, by the history", code, stdout, stderr)
		}
		until(t, "version 3 is in force", func() bool { return d.gw.AppliedVersion() == 3 })
		remove(true)
		if code, stdout, stderr := sw(t, "", ask("10m", d.AdminAddr())...); code != ExitOK || !strings.Contains(stdout, "version 4 is published") || strings.Contains(stderr, "note") {
			t.Fatalf("code %d, %s%s, want version 4, by the instance", code, stdout, stderr)
		}
		until(t, "version 4 is in force", func() bool { return d.gw.AppliedVersion() == 4 })
	}
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		redis, _ := inProcess(t)
		c := config(t, t.TempDir(), redis, "")
		document := c.Switch.File
		test(t, run(t, c), switchedBy(t, "file: "+document), func(history bool) {
			paths := []string{document}
			if history {
				paths = append(paths, document+".history")
			}
			for _, path := range paths {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
	t.Run("nacos", func(t *testing.T) {
		t.Parallel()
		nacos := servers.Nacos(t)
		redis, _ := inProcess(t)
		c := config(t, t.TempDir(), redis, "")
		c.Switch.File, c.Switch.Nacos = "", &NacosConfig{Addr: nacos.Addr()}
		test(t, run(t, c), switchedBy(t, `nacos: {addr: "`+nacos.Addr()+`"}`), func(history bool) {
			nacos.Delete("tierlock.switch", "TIERLOCK")
			if history {
				nacos.Delete("tierlock.switch.history", "TIERLOCK")
			}
		})
	})
}

// TestAnOlderDocumentIsPublishedAgain: a copy from a backup is refused by whoever has seen what
// came after it.
func TestAnOlderDocumentIsPublishedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, document := switched(t)
		if code, _, stderr := sw(t, "", ordering(config, "10m")...); code != ExitOK {
			t.Fatal(stderr)
		}
		backup, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := sw(t, "", ordering(config, "20m")...); code != ExitOK {
			t.Fatal(stderr)
		}
		if err := os.WriteFile(document, backup, 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := sw(t, "", "promote", "-c", config, "--confirm", "yes")
		if code != ExitOK || !strings.Contains(stdout, "version 3 is published") || !strings.Contains(stderr, "- version 1, which is older than 2\n+ what it says, as version 3\n") {
			t.Errorf("code %d, %s%s", code, stdout, stderr)
		}
		if d := published1(t, document); d.Version != 3 || len(d.Chains) != 1 {
			t.Errorf("%+v", d)
		}
	})
}

// TestDiscardRepairsWhatCannotBeBuiltOn: whatever stands there, and whatever is asked for.
func TestDiscardRepairsWhatCannotBeBuiltOn(t *testing.T) {
	private, public, key := newKeys(t)
	for name, text := range map[string]string{
		"unreadable": "version: [",
		"the last":   "version: 18446744073709551615\nchains: {}\n",
		"tampered":   "version: 7\nchains: {}\npolicies: {coupon: {wait: 1s}}\n",
		"too long":   strings.Repeat("#", 1<<20+1),
	} {
		for verb, words := range map[string][]string{
			"set auto": {"set", "--mode", "auto", "--by", "b", "coupon"},
			"order":    {"set", "--mode", "bypass", "--for", "10m", "--reason", "r", "--by", "b", "coupon"},
			"policy":   {"policy", "--by", "b", "coupon", "wait=500ms"},
			"promote":  {"promote", "--by", "b"},
		} {
			t.Run(name+" "+verb, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					document := filepath.Join(t.TempDir(), "switch.yaml")
					config := switchedBy(t, "file: "+document+", verify_file: "+public)
					last := `{"at":"2026-11-29T17:00:00Z","by":"a","document":{"version":7,"chains":{}},"changes":null}` + "\n"
					for path, is := range map[string]string{document: text, document + ".history": last} {
						if err := os.WriteFile(path, []byte(is), 0o600); err != nil {
							t.Fatal(err)
						}
					}
					args := append([]string{words[0], "-c", config, "--sign", private, "--confirm", "yes"}, words[1:]...)
					if code, _, stderr := sw(t, "", args...); code != ExitUsage || !strings.Contains(stderr, "--discard") {
						t.Errorf("code %d, %s: built on", code, stderr)
					}
					args = append([]string{words[0], "--discard"}, args[1:]...)
					code, stdout, stderr := sw(t, "", args...)
					if code != ExitOK || !strings.Contains(stdout, "version 8 is published") || !strings.Contains(stderr, "- all that is published\n") {
						t.Fatalf("code %d, %s%s", code, stdout, stderr)
					}
					if d := published1(t, document); d.Version != 8 || d.Verify(key) != nil || len(d.Policies) > 0 && verb != "policy" {
						t.Errorf("%+v", d)
					}
				})
			})
		}
	}
}

// TestSwitchGetTellsOfInstancesWhateverTheSourceDoes asks a daemon whose document is away,
// unreadable, and good again.
func TestSwitchGetTellsOfInstancesWhateverTheSourceDoes(t *testing.T) {
	redis, _ := inProcess(t)
	c := config(t, t.TempDir(), redis, "")
	document := c.Switch.File
	if err := switchcfg.WriteFile(document, switchcfg.Document{Version: 1, Chains: map[string]switchcfg.Directive{}}); err != nil {
		t.Fatal(err)
	}
	d := run(t, c)
	until(t, "version 1 is in force", func() bool { return d.gw.AppliedVersion() == 1 })
	instance := "instance " + c.producer() + " at " + d.AdminAddr() + " applies version 1"
	path := switchedBy(t, "file: "+document)
	get := func() (int, string) {
		code, stdout, _ := sw(t, "", "get", "-c", path, "--ask", d.AdminAddr())
		return code, stdout
	}
	if code, stdout := get(); code != ExitOK || !strings.Contains(stdout, instance) {
		t.Errorf("code %d, %s", code, stdout)
	}
	if err := os.WriteFile(document, []byte("version: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "the instance has an alarm", func() bool { _, stdout := get(); return strings.Contains(stdout, "ALARM since ") })
	if code, stdout := get(); code != ExitError || !strings.Contains(stdout, "no document: ") || !strings.Contains(stdout, instance) {
		t.Errorf("unreadable: code %d, %s", code, stdout)
	}
	away := filepath.Join(t.TempDir(), "a-folder")
	if err := os.Mkdir(away, 0o700); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ := sw(t, "", "get", "-c", switchedBy(t, "file: "+away), "--ask", d.AdminAddr(), "--output", "json")
	var told seen
	if err := json.Unmarshal([]byte(stdout), &told); err != nil || code != ExitError || told.Error == "" || len(told.Instances) != 1 || told.Instances[0].Switch != 1 {
		t.Errorf("away: code %d, %s, %v", code, stdout, err)
	}
}
