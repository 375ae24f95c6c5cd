package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

func spoolIn(t *testing.T) func(Process, []string) int {
	return func(p Process, args []string) int { return p.Spool(t.Context(), args) }
}

// recorded is a folder in which a producer left n grants; closed says whether politely.
func recorded(t *testing.T, dir, producer string, n int) {
	t.Helper()
	l, err := audit.Open(audit.Config{Dir: dir, Producer: producer, Heartbeat: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	key, err := tierlock.ParseKey("biz:coupon:lock:u1")
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		ev := audit.Acquired(tierlock.Grant{Chain: "coupon", Key: key, RequestID: tierlock.NewRequestID(), Tier: tierlock.Bypass, Store: "bypass", AcquiredAt: time.Now()}, time.Second, 0)
		if err := l.Record(t.Context(), &ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestExitCodesOfSpool(t *testing.T) {
	dir, empty := filepath.Join(t.TempDir(), "spool"), t.TempDir()
	recorded(t, dir, "shop-1", 3)
	noKafka := write(t, strings.Replace(example, `, kafka: {brokers: ["127.0.0.1:9092"], topic: tierlock.events.v1}`, "", 1))
	for name, c := range map[string]struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		"nothing":             {nil, ExitUsage, "", "want ls, dump, fsck or adopt"},
		"help":                {[]string{"--help"}, ExitOK, "", "usage: tierlock spool ls|dump|fsck|adopt"},
		"help of one":         {[]string{"dump", "-h"}, ExitOK, "", "usage: tierlock spool ls|dump|fsck|adopt"},
		"another word":        {[]string{"rm", dir}, ExitUsage, "", `want ls, dump, fsck or adopt, got "rm"`},
		"no folder":           {[]string{"ls"}, ExitUsage, "", "DIR: want the folder"},
		"a folder of nothing": {[]string{"fsck", empty}, ExitUsage, "", "holds no spool"},
		"no such folder":      {[]string{"dump", filepath.Join(empty, "x")}, ExitUsage, "", "cannot be read"},
		"a range of none":     {[]string{"dump", dir, "--from", "9", "--to", "3"}, ExitUsage, "", "--to \"3\": want --from (9) or more"},
		"no time":             {[]string{"adopt", dir, "--timeout", "0s"}, ExitUsage, "", "--timeout"},
		"adopt without file":  {[]string{"adopt", dir}, ExitUsage, "", "want -c FILE"},
		"adopt to nowhere":    {[]string{"adopt", dir, "-c", noKafka}, ExitUsage, "", "audit.kafka: is required"},
		"a list":              {[]string{"ls", filepath.Dir(dir)}, ExitOK, "closed  " + dir + "  producer shop-1", ""},
		"a list as JSON":      {[]string{"ls", "--output", "json", dir}, ExitOK, `"producer":"shop-1","epoch":`, ""},
		"a check":             {[]string{"fsck", dir}, ExitOK, dir + ": ok, 1 segment\n", ""},
		"a check as JSON":     {[]string{"fsck", dir, "--output", "json"}, ExitOK, `"torn_bytes":0,"damaged":false}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := command(t, spoolIn(t), c.args...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("code %d\nstdout %s\nstderr %s", code, stdout, stderr)
			}
		})
	}
}

func TestDumpPrintsTheRangeAskedForAsEvents(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	recorded(t, dir, "shop-1", 5)
	code, stdout, stderr := command(t, spoolIn(t), "dump", dir, "--from", "3", "--to", "4")
	if code != ExitOK || stderr != "" {
		t.Fatalf("code %d, %s", code, stderr)
	}
	seq := uint64(3)
	for line := range strings.Lines(stdout) {
		ev, err := audit.Parse([]byte(line))
		if err != nil || ev.Seq != seq || ev.Type != audit.TypeAcquire || ev.Producer != "shop-1" {
			t.Errorf("seq %d: %v, %s", seq, err, line)
		}
		seq++
	}
	if seq != 5 {
		t.Errorf("%d lines", seq-3)
	}
}

func TestFsckTellsTheExactDamageMendsItAndIsContent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	recorded(t, dir, "shop-1", 5)
	segments, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("%v, %v", segments, err)
	}
	content, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	at := 512
	for range 3 { // record 1 is hello, each batch is one record: hit the third
		at += bytes.Index(content[at:], []byte(`"chain"`)) + 1
	}
	content[at-1] ^= 1
	if err := errors.Join(os.WriteFile(segments[0], append(content, "torn"...), 0o600), os.WriteFile(filepath.Join(dir, "cursor"), []byte("junk"), 0o600)); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ := command(t, spoolIn(t), "fsck", dir)
	if code != ExitError || !strings.Contains(stdout, "seq 4 to 4 lost") || !strings.Contains(stdout, "4 torn bytes") || !strings.Contains(stdout, "cursor is damaged") {
		t.Errorf("code %d, %s", code, stdout)
	}
	if _, dump, _ := command(t, spoolIn(t), "dump", dir); !strings.Contains(dump, "\n{\"lost\":{\"from\":4,\"to\":4}}\n") {
		t.Errorf("dump: %s", dump)
	}
	code, stdout, _ = command(t, spoolIn(t), "fsck", "--repair", "--output", "json", dir)
	var says struct{ Spools []checkedSpool }
	if err := json.Unmarshal([]byte(stdout), &says); err != nil || code != ExitOK || len(says.Spools) != 1 {
		t.Fatalf("code %d, %v, %s", code, err, stdout)
	}
	if c := says.Spools[0]; len(c.Repaired) != 3 || c.Damaged || len(c.Segments) != 1 || len(c.Segments[0].Lost) != 1 {
		t.Errorf("after repair: %s", stdout)
	}
	if kept, err := os.ReadFile(segments[0] + ".quarantine"); err != nil || !bytes.Equal(kept, content) {
		t.Errorf("the bytes as they were: %v", err)
	}
}
